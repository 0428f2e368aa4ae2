//! Programs by their names.

use std::fs;

use probe_tests::whole;

use crate::program::{Folder, Program, copy, out, run, this, until};

#[test]
fn a_name_is_one_program_or_a_list() {
    let folder = Folder::new("names");
    // A name of its own: `comm` has 15 characters.
    let path = folder.0.join(format!("pn{}", std::process::id()));
    copy(&this(), &path);
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

/// A hundred in the whole.
#[test]
fn many_processes_have_one_name() {
    let folder = Folder::new("many");
    let many = if whole::is_asked_for() { 100 } else { 25 };
    let path = folder.0.join(format!("ph{}", std::process::id()));
    copy(&this(), &path);
    let name = crate::program::name(&path);
    let mut all: Vec<_> = (0..many).map(|_| Program::idle(&folder, &path)).collect();
    let ran = run(&folder, &["status", "-n", &name]);
    assert_eq!(ran.code, Some(2));
    let mut lines = ran.err.lines();
    let heading = format!("error: {many} processes are called `{name}`; choose one by `-p PID`:");
    assert_eq!(lines.next(), Some(heading.as_str()));
    let mut listed: Vec<_> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    let mut ids: Vec<_> = all.iter().map(Program::pid).collect();
    listed.sort_unstable();
    ids.sort_unstable();
    assert_eq!(listed, ids);
    for program in all.iter().step_by(10) {
        let status = out(&folder, &["status", "-p", &program.pid()]);
        assert!(status.contains(&program.pid()), "{status}");
    }
    let last = all.pop().unwrap();
    // They are killed, so their sockets stay, and the next look at all of them removes these.
    drop(all);
    assert!(out(&folder, &["count", "-n", &name, "**", "--for", "10ms"]).starts_with("probe  "));
    until(|| {
        let sockets = fs::read_dir(folder.0.join("latent-probes")).unwrap();
        sockets.filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().ends_with(".sock")).count()
            == 1
    });
    assert!(out(&folder, &["status", "-p", &last.pid()]).contains(&last.pid()));
}
