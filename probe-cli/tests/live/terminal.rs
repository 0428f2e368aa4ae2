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
        "stty cols 60 rows 20; {} count -p {} 'live::program::**' --for 2s --every 50ms",
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
    // Each table is erased before the next one, line by line.
    let tables: Vec<_> = text.split("\x1b[J").collect();
    assert!(tables.len() >= 2, "{text:?}");
    for (at, table) in tables.iter().enumerate() {
        let lines: Vec<_> = table.lines().collect();
        assert!(
            lines[0].starts_with("probe") && lines.iter().all(|line| line.chars().count() <= 60),
            "{table:?}"
        );
        if at + 1 < tables.len() {
            assert_eq!(lines[lines.len() - 1], format!("\x1b[{}A", lines.len() - 1), "{table:?}");
        }
    }
    program.is_as_before();
}
