//! Programs by their names.

use std::fs;

use crate::program::{Folder, Program, out, run};

#[test]
fn a_name_is_one_program_or_a_list() {
    let folder = Folder::new("names");
    // A name of its own: `comm` has 15 characters.
    let path = folder.0.join(format!("pn{}", std::process::id()));
    fs::copy(crate::program::this(), &path).unwrap();
    let name = crate::program::name(&path);
    let start = || Program::of(&folder, &path);
    let ran = run(&folder, &["count", "-n", &name, "**", "--for", "10ms"]);
    assert!(ran.code == Some(3) && ran.err.contains("can be asked; start it with PROBE_AGENT=1"), "{ran:?}");
    let mut one = start();
    assert!(out(&folder, &["count", "-n", &name, "**", "--for", "10ms"]).starts_with("probe  "));
    let mut other = start();
    let ran = run(&folder, &["status", "-n", &name]);
    assert_eq!(ran.code, Some(2));
    let lines: Vec<_> = ran.err.lines().collect();
    assert_eq!(lines[0], format!("error: 2 processes are called `{name}`; choose one by `-p PID`:"));
    for program in [&one, &other] {
        assert!(lines[1..].iter().any(|line| line.contains(&program.pid())), "{lines:?}");
    }
    one.is_as_before();
    other.is_as_before();
}
