//! A table on a terminal replaces the one before. The first one comes at once.

use std::process::Command;

use crate::injected_into::{Target, compiled};
use crate::program::{Folder, Program};
use crate::progress::ERASED;
use crate::terminal::Terminal;

#[test]
fn a_table_is_refreshed() {
    let folder = Folder::new("terminal");
    let mut program = Program::start(&folder);
    let arguments = format!("count -p {} 'live::program::**' --for 2s --every 50ms", program.pid());
    let Some(terminal) = Terminal::probectl(&folder, (60, 20), &arguments) else { return };
    let text = terminal.ran().out;
    // Each table is erased before the next one, line by line.
    let mut tables: Vec<_> = text.split("\x1b[J").collect();
    // On a loaded machine, `probectl` may show that it waits, and erases that line.
    let mut waits: Vec<_> = tables[0].split(ERASED).collect();
    tables[0] = waits.pop().unwrap();
    let what = format!("waiting for an answer of process {}: ", program.pid());
    assert!(waits.iter().all(|it| it.is_empty() || it.starts_with(&what)), "{text:?}");
    assert!(tables.len() >= 2, "{text:?}");
    for (at, table) in tables.iter().enumerate() {
        let lines: Vec<_> = table.lines().collect();
        assert!(
            lines[0].starts_with("probe") && lines.iter().all(|line| line.chars().count() <= 60),
            "{table:?}"
        );
        if at + 1 < tables.len() {
            assert_eq!(lines[lines.len() - 1], format!("\r\x1b[{}A", lines.len() - 1), "{table:?}");
        }
    }
    program.is_as_before();
}

/// Before the second that is between two others, by the agent and from outside.
#[test]
fn a_first_table_comes_at_once() {
    let folder = Folder::new("terminal-first");
    let mut program = Program::start(&folder);
    has_first(&folder, &format!("count -p {} 'live::program::**' --for 500ms", program.pid()));
    program.is_as_before();
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let target = Target::start(&folder, &mut Command::new(program));
    has_first(&folder, &format!("count --ptrace -p {} '**' --for 500ms", target.pid()));
}

#[track_caller]
fn has_first(folder: &Folder, arguments: &str) {
    // A loaded machine may take the whole time away.
    let mut tries = (0..20).map(|_| {
        let ran = Terminal::probectl(folder, (60, 20), arguments)?.ran();
        let is_left_out = ran.out.contains("can't be traced");
        (!is_left_out).then(|| ran.out.split("\x1b[J").count() >= 2)
    });
    assert!(tries.any(|it| it != Some(false)));
}
