//! The life of agents that were brought: with the last client, unless somebody has said otherwise.

use std::fs;
use std::process::{Child, Command, Stdio};

use probe_inject::{Mapping, Memory, maps};
use probe_protocol::Client;

use crate::injected_into::{Target, compiled, done};
use crate::preloaded::{differing, with_agent};
use crate::program::{Folder, Ran, search_service, signal, until, words};

/// Starts a command that counts until it is ended, and waits for its attachment.
fn counts(folder: &Folder, target: &Target, selector: &str) -> Child {
    let mut command = with_agent(folder, &["count", "-p", &target.pid(), selector]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until(|| {
        let status = Client::connect(target.id()).ok().and_then(|mut it| it.status().ok());
        status.is_some_and(|it| !it.attachments.is_empty())
    });
    child
}

#[test]
fn an_agent_goes_with_a_command_that_is_killed() {
    let folder = Folder::new("injected-life");
    let program = compiled(&folder, &[]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let before = target.traces();
    if done(&folder, &["status", "-p", &target.pid()]).is_none() {
        return;
    }
    let mut counting = counts(&folder, &target, "**");
    counting.kill().unwrap();
    counting.wait().unwrap();
    until(|| target.traces() == before);
    assert_eq!(differing(target.id(), &program), 0);
    assert_eq!(target.end(), "right");
}

#[test]
fn an_agent_stays_that_somebody_attaches_during_a_command() {
    let folder = Folder::new("injected-stays");
    let program = compiled(&folder, &[]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    if done(&folder, &["status", "-p", &pid]).is_none() {
        return;
    }
    let mut counting = counts(&folder, &target, "**");
    assert!(done(&folder, &["attach", "-p", &pid]).unwrap().ends_with("already\n"));
    signal("-INT", &counting);
    assert!(counting.wait().unwrap().success());
    let status = done(&folder, &["status", "--no-inject", "-p", &pid]).unwrap();
    assert!(status.contains("1 client"), "{status}");
    assert!(done(&folder, &["detach", "-p", &pid]).is_some());
    target.is_alone(&program);
    assert_eq!(target.end(), "right");
}

/// It has an agent, which nobody has started.
#[test]
fn a_search_service_of_the_examples() {
    let Some(file) = search_service() else { return };
    let folder = Folder::new("injected-example");
    let text = folder.0.join("text.txt");
    fs::write(&text, "latent probes cost one instruction").unwrap();
    let mut target = Target::start(&folder, Command::new(&file).arg("--serve").arg(&text));
    let (before, answer) = (target.traces(), target.asked(b'\n'));
    for _ in 0..3 {
        if done(&folder, &["attach", "-p", &target.pid()]).is_none() {
            return;
        }
        let counting = counts(&folder, &target, "quickstart::query kind=entry");
        assert_eq!(target.asked(b'\n'), answer);
        signal("-INT", &counting);
        let ran: Ran = counting.wait_with_output().unwrap().into();
        assert_eq!(words(&ran.out)[1], ["quickstart::query", "entry", "1", "1"], "{ran:?}");
        assert!(done(&folder, &["detach", "-p", &target.pid()]).is_some());
        assert_eq!((target.traces(), differing(target.id(), &file)), (before.clone(), 0));
    }
    assert_eq!(target.end(), "");
}

/// The pages that nobody may write, with the words by which the program calls functions of
/// libraries.
fn sealed(target: &Target, program: &str) -> Vec<Mapping> {
    let is_it = |it: &Mapping| it.name == program && !it.is_writable && !it.is_executable;
    maps(target.id()).unwrap().into_iter().filter(is_it).collect()
}

fn bytes(target: &Target, parts: &[Mapping]) -> Vec<u8> {
    let memory = Memory::open(target.id()).unwrap();
    let length = |it: &Mapping| usize::try_from(it.end - it.start).unwrap();
    parts.iter().flat_map(|it| memory.bytes(it.start, length(it)).unwrap()).collect()
}

#[test]
fn functions_with_hooks_are_probes_while_the_agent_is_there() {
    let folder = Folder::new("injected-hooks");
    let program = compiled(&folder, &["-DBARE", "-finstrument-functions", "-Wl,-z,relro,-z,now"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let (pid, name) = (target.pid(), program.to_str().unwrap());
    let parts = sealed(&target, name);
    let before = bytes(&target, &parts);
    if done(&folder, &["attach", "-p", &pid]).is_none() {
        return;
    }
    let counted = done(&folder, &["count", "-p", &pid, "work kind=entry", "--for", "100ms"]).unwrap();
    assert_eq!(words(&counted)[1][..2], ["work", "entry"]);
    assert_ne!(words(&counted)[1][3], "0", "{counted}");
    // One word for each of the two hooks.
    let changed = || {
        let now = bytes(&target, &parts);
        now.chunks(8).zip(before.chunks(8)).filter(|(now, before)| now != before).count()
    };
    assert_eq!(changed(), 2);
    assert!(done(&folder, &["detach", "-p", &pid]).is_some());
    assert_eq!(changed(), 0);
    assert_eq!(target.end(), "right");
}
