//! The reports of a program that signals end or ask for a report, or that reports every so often.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command};

use libc::{SIGHUP, SIGINT, SIGTERM};

use crate::folder::Folder;
use crate::{COUNT, hits, stderr};

#[test]
fn a_signal_that_ends_the_program_leaves_its_report() {
    for (ending, signal) in
        [("SIGINT", SIGINT), ("SIGTERM", SIGTERM), ("SIGHUP", SIGHUP), ("exits meanwhile", SIGINT)]
    {
        let folder = Folder::new(ending);
        let output = folder.run(&format!("signal: {ending}"), COUNT, "@/counts.json");
        let ended = output.status.signal();
        if ending == "exits meanwhile" && ended.is_none() {
            // It was faster; the report is its own.
            assert_eq!(output.status.code(), Some(0));
        } else {
            assert_eq!(ended, Some(signal), "{output:?}");
        }
        assert_eq!(hits(&folder.json("counts.json")), 3, "{ending}");
        assert_eq!(folder.names(), ["counts.json"]);
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn it_does_so_without_one_if_that_is_asked_for() {
    for (signals, ending, has_report) in
        [("none", "SIGINT", false), ("INT,SIGHUP", "SIGTERM", false), ("int,SigHup", "SIGHUP", true)]
    {
        let folder = Folder::new("opted out");
        let more = [("PROBES_SIGNALS", signals)];
        let output = folder.run_with(&format!("signal: {ending}"), COUNT, "@/counts.json", &more);
        assert!(output.status.signal().is_some(), "{output:?}");
        assert_eq!(folder.names().len(), usize::from(has_report), "{signals}, {ending}");
    }
}

#[test]
fn what_the_program_does_with_signals_goes_before() {
    for (ending, calls) in [("ignored", 3), ("handled", 3), ("handled later", 4), ("awaited", 3)] {
        let folder = Folder::new(ending);
        let output = folder.run(&format!("signal: {ending}"), COUNT, "@/counts.json");
        assert!(output.status.success(), "{ending}: {output:?}");
        assert_eq!(hits(&folder.json("counts.json")), calls, "{ending}");
    }
}

#[test]
fn a_second_one_ends_it_at_once() {
    let folder = Folder::new("twice");
    let pipe = folder.0.join("pipe.txt");
    let path = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a path.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let mut full = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(full.read(true).write(true), libc::O_NONBLOCK);
    let mut full = full.open(&pipe).unwrap();
    while std::io::Write::write(&mut full, &[0; 4096]).is_ok() {}
    while std::io::Write::write(&mut full, &[0]).is_ok() {}
    let output = folder.run("signal: twice", COUNT, "@/pipe.txt");
    assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
}

#[test]
fn a_signal_asks_for_a_report() {
    let folder = Folder::new("asks");
    let more = [("PROBES_ON", "SIGUSR1")];
    let output = folder.run_with("signal: asks", COUNT, "@/counts.json", &more);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert_eq!((folder.names(), hits(&folder.json("counts.json"))), (vec!["counts.json".to_owned()], 5));
    // Not one that the program has for itself.
    let output = folder.run_with("signal: asks in vain", COUNT, "@/counts.json", &more);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        stderr(&output),
        "PROBES_ON: this program handles or ignores SIGUSR1; it asks for no report\n"
    );
    assert_eq!(hits(&folder.json("counts.json")), 3);
}

#[test]
fn so_does_the_time() {
    let folder = Folder::new("every");
    let more = [("PROBES_EVERY", "2ms"), ("PROBES_SIGNALS", "none")];
    let output = folder.run_with("signal: every", COUNT, "@/counts.json", &more);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert_eq!(hits(&folder.json("counts.json")), 5, "whole, whatever was under way");
}

#[test]
fn a_time_that_never_comes_keeps_nobody_from_ending() {
    let folder = Folder::new("never");
    let output = folder.run_with("signal: SIGINT", COUNT, "@/counts.json", &[("PROBES_EVERY", "1e19s")]);
    assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
    assert_eq!((stderr(&output).as_str(), hits(&folder.json("counts.json"))), ("", 3));
}

/// As sandboxes have it: poll(2) then fails.
#[test]
fn signals_are_heard_where_no_descriptor_may_be_open() {
    let folder = Folder::new("descriptors");
    let more = [("PROBES_ON", "SIGUSR1"), ("PROBES_EVERY", "1h")];
    let output = folder.run_with("signal: without descriptors", COUNT, "-", &more);
    assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
    assert_eq!(stderr(&output).matches("environment_out::work").count(), 2, "{output:?}");
}

#[test]
fn signals_are_heard_where_the_program_has_closed_all_descriptors() {
    let folder = Folder::new("closed");
    let output = folder.run_with("signal: closed", COUNT, "@/counts.json", &[("PROBES_ON", "SIGUSR1")]);
    assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
    assert_eq!(hits(&folder.json("counts.json")), 5);
}

#[test]
fn on_stderr_reports_follow_each_other() {
    use std::io::{BufRead, BufReader};
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["scenario", "--exact", "--ignored", "--nocapture"]);
    command
        .env("PROBE_TEST_SCENARIO", "signal: every on stderr")
        .env("PROBES", COUNT)
        .env("PROBES_EVERY", "2ms");
    let mut child =
        KilledOnDrop(command.stderr(process::Stdio::piped()).stdout(process::Stdio::null()).spawn().unwrap());
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let expected = ["probe                  kind   sites  hits", "environment_out::work  entry      1     3"];
    // The first may come before there are hits.
    let whole = lines.skip_while(|line| !line.ends_with(" 3")).skip(1).take(6);
    assert_eq!(whole.collect::<Vec<_>>(), [expected; 3].concat());
}

/// A child, which ends with the test, also if that fails.
struct KilledOnDrop(process::Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_forked_child_has_its_signals_to_itself() {
    let folder = Folder::new("signal-fork");
    let output = folder.run("signal: fork", COUNT, "@/counts.json");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(hits(&folder.json("counts.json")), 4, "its parent goes on");
    let names = folder.names();
    let [of_child, _] = names.as_slice() else { panic!("{names:?}") };
    assert_eq!(hits(&folder.json(of_child)), 1, "the one with a guard of its own");
}

/// Such signals do not end it, with a handler or without.
#[test]
fn the_first_of_its_namespace_goes_on() {
    let folder = Folder::new("first");
    let output = folder.run("signal: first of its namespace", COUNT, "@/counts.json");
    assert!(output.status.success(), "{output:?}");
    if String::from_utf8_lossy(&output.stdout).contains("not permitted") {
        return eprintln!("not tested: there are no namespaces for this user");
    }
    assert_eq!(hits(&folder.json("counts.json")), 5);
}

/// Their ids tell nothing of who they are.
#[test]
fn so_does_the_first_of_its_namespace_whose_child_is_the_first_of_another() {
    let folder = Folder::new("first-child");
    let output = folder.run("signal: forking first of its namespace", COUNT, "@/counts.json");
    assert!(output.status.success(), "{output:?}");
    if String::from_utf8_lossy(&output.stdout).contains("not permitted") {
        return eprintln!("not tested: there are no namespaces for this user");
    }
    assert_eq!(folder.names(), ["counts-1.json", "counts.json"]);
    assert_eq!(hits(&folder.json("counts.json")), 3);
}
