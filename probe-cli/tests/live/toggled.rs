//! Sleds, and calls of hooks that were cold-patched, are switched thousands of times in a program
//! that was not started with an agent, while its threads run. The counts are exact at the end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probe_protocol::{Attach, Client};
use probe_tests::c::is_there;
use probe_tests::whole;
use serde_json::Value;

use crate::injected_into::done;
use crate::preloaded::differing;
use crate::program::{Folder, out};
use crate::sleds::{PATCHABLE, SUM, XRAY, compiled, hits, tally};

/// Toggles while the program runs.
fn rounds() -> usize {
    if whole::is_asked_for() { 2_000 } else { 40 }
}

/// Attaches consumers and detaches them again and again, while one attachment stays, and others
/// come and go with the sites of functions that it does not have.
fn is_counted(folder: &Folder, program: &Path, has_exits: bool, keeps_text: bool) -> Option<()> {
    let mut command = Command::new(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let mut works = |times: usize| {
        input.write_all(&b"\n".repeat(times)).unwrap();
        (0..times).for_each(|_| assert_eq!(lines.next().as_deref(), Some(SUM)));
    };
    let pid = child.id();
    if done(folder, &["attach", "-p", &pid.to_string()]).is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
        return None;
    }
    let mut client = Client::connect(pid).unwrap();
    let attach = |client: &mut Client, spec: &str| {
        let attached = client.attach(&Attach::new(spec)).unwrap();
        assert_eq!(attached.consumers[0].refused, 0, "{spec}");
        attached.id
    };
    let stays = attach(&mut client, "work, half=count");
    for round in 0..rounds() {
        let other = attach(&mut client, ["spin, turn=count", "**=count", "work, spin=latency"][round % 3]);
        works(1);
        client.detach(other).unwrap();
        works(1);
    }
    client.pause(stays).unwrap();
    let report = client.report(stays, 0, "json").unwrap();
    let report: Value = serde_json::from_str(&report.text).unwrap();
    let [entries, exits] = hits(&report["rows"]);
    let calls = 200 * rounds() as u64;
    let expected = [("half", calls / 2), ("work", calls)].map(|(name, many)| (name.to_owned(), many)).into();
    assert_eq!(entries, expected);
    assert_eq!(exits, if has_exits { expected } else { [].into() });
    client.detach(stays).unwrap();
    drop(client);
    assert!(done(folder, &["detach", "-p", &pid.to_string()]).is_some());
    if keeps_text {
        assert_eq!(differing(pid, program), 0);
    }
    drop(input);
    let rest: Vec<_> = lines.collect();
    assert!(child.wait().unwrap().success());
    let tally = tally(&rest.join("\n"));
    assert!(tally["work"] == calls && tally["spin"] > calls, "{tally:?}");
    Some(())
}

#[test]
fn sleds_of_entries() {
    let folder = Folder::new("toggled-entries");
    if is_there("gcc") {
        let program = compiled(&folder, "gcc", &["-O2", PATCHABLE]);
        is_counted(&folder, &program, false, true);
    }
}

/// Dead bytes behind a sled's jump differ in the end.
#[test]
fn sleds_of_xray() {
    let folder = Folder::new("toggled-xray");
    if is_there("clang") {
        let program = compiled(&folder, "clang", &[&XRAY[..], &["-O2"]].concat());
        is_counted(&folder, &program, true, false);
    }
}

fn coldpatched(folder: &Folder, compiler: &str, flags: &[&str]) -> PathBuf {
    let program = compiled(folder, compiler, &[flags, &["-finstrument-functions"]].concat());
    let patched = folder.0.join("patched");
    out(folder, &["coldpatch", program.to_str().unwrap(), "-o", patched.to_str().unwrap()]);
    fs::remove_file(program).unwrap();
    patched
}

#[test]
fn calls_of_hooks_that_were_cold_patched() {
    let folder = Folder::new("toggled-coldpatched");
    for (compiler, flags) in [("gcc", &["-O2"][..]), ("clang", &["-O1", "-fno-plt"])] {
        if is_there(compiler) {
            let program = coldpatched(&folder, compiler, flags);
            is_counted(&folder, &program, true, true);
        }
    }
}
