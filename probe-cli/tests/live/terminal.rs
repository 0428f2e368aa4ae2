//! A table on a terminal replaces the one before. `script` of util-linux brings the terminal.

use std::process::{Command, Stdio};

use crate::program::{Folder, Program};

#[test]
fn a_table_is_refreshed() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: there is no `script`");
        return;
    }
    let folder = Folder::new("terminal");
    let mut program = Program::start(&folder);
    let line = format!(
        "stty cols 60 rows 20; {} count -p {} 'live::program::**' --for 200ms --every 50ms",
        env!("CARGO_BIN_EXE_probectl"),
        program.pid()
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("XDG_RUNTIME_DIR", &folder.0)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let tables: Vec<_> = text.split("\x1b[4A\x1b[J").collect();
    assert!(tables.len() >= 2, "{text:?}");
    for table in tables {
        let lines: Vec<_> = table.lines().collect();
        assert!(lines.len() == 4 && lines[0].starts_with("probe"), "{table:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{table:?}");
    }
    program.is_as_before();
}
