//! A program whose agent is not ours: all that it says is what a terminal would obey, or a path to
//! elsewhere. The program is this test.

use std::fs;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use probe_protocol::{
    Attached, AttachedConsumer, AttachmentInfo, Body, Channel, ConsumerInfo, Done, Failure, FailureKind,
    Hello, Listener, Probe, ProbeField, Reply, Request, Status, decode_call, encode_reply, encode_welcome,
};
use probe_tests::turn::turn;

use crate::program::{Folder, Ran, probectl};

const PATIENCE: Duration = Duration::from_secs(60);

/// A title of the window, a cleared screen, a reversed direction, a path, a line, a C1 character.
const EVIL: &str = "\u{1b}]0;it\u{7}\u{1b}[2J\u{202e}../../outside\r\n\u{9b}31m";

/// Serves so many connections. With `fails`, each request fails, by the same text.
fn serve(connections: usize, fails: bool) -> JoinHandle<()> {
    let listener = Listener::bind(std::process::id()).unwrap();
    thread::spawn(move || {
        for _ in 0..connections {
            listener.wait().unwrap();
            let channel = listener.accept().unwrap().unwrap();
            channel.receive(Some(PATIENCE), PATIENCE).unwrap().unwrap();
            let hello =
                Hello { runtime: EVIL.to_owned(), pid: std::process::id(), executable: EVIL.to_owned() };
            channel.send(&encode_welcome(&Ok(hello)), None, PATIENCE).unwrap();
            answer(&channel, fails);
        }
        listener.remove();
    })
}

fn answer(channel: &Channel, fails: bool) {
    let evil = || EVIL.to_owned();
    let done = || Body::Done(Done { notes: vec![evil()], ..Done::default() });
    // A client that has shown an error goes at any moment.
    while let Ok(Some(received)) = channel.receive(Some(PATIENCE), PATIENCE) {
        let call = decode_call(&received.payload).unwrap();
        let send = |body| {
            let _ = channel.send(&encode_reply(&Reply { id: call.id, body }), None, PATIENCE);
        };
        match call.request {
            _ if fails => send(Body::Failed(Failure::new(FailureKind::Limit, EVIL))),
            Request::List { .. } => {
                let field = ProbeField { name: evil(), ty: Some(evil()) };
                let probe = Probe {
                    path: evil(),
                    kind: evil(),
                    file: evil(),
                    fields: vec![field],
                    group: Some(evil()),
                    ..Probe::default()
                };
                send(Body::Probes(vec![probe]));
                send(done());
            }
            Request::Status => {
                let consumer = ConsumerInfo { name: evil(), formats: vec![evil()], has_snapshots: true };
                let attachment =
                    AttachmentInfo { id: 1, spec: evil(), consumers: vec![consumer], ..Default::default() };
                send(Body::Status(Status {
                    attachments: vec![attachment],
                    unreadable_objects: vec![evil()],
                    ..Status::default()
                }));
            }
            Request::Attach(_) => {
                let consumer = AttachedConsumer {
                    selector: evil(),
                    consumer: evil(),
                    formats: vec![evil()],
                    notes: vec![evil()],
                    ..AttachedConsumer::default()
                };
                send(Body::Attached(Attached { id: 1, consumers: vec![consumer] }));
            }
            Request::Report { .. } => {
                send(Body::Text(evil()));
                send(done());
            }
            _ => send(done()),
        }
    }
}

/// The commands, and the files that they may write.
const COMMANDS: [(&[&str], &[&str]); 8] = [
    (&["status"], &[]),
    (&["count", "**", "--for", "1ms"], &[]),
    (&["calls", "**", "--for", "1ms", "--every", "1ms"], &[]),
    (&["trace", "**", "--for", "1ms"], &[]),
    (&["enable", "**", "--keep"], &[]),
    (&["record", "**", "--for", "1ms", "-o", "it.pftrace"], &["it.pftrace"]),
    (&["snapshot", "-o", "it.probetrace"], &["it.probetrace"]),
    (&["watch", "when rate(f) > 1 then arm f=latency", "--for", "1ms"], &[]),
];

#[test]
fn no_program_commands_the_terminal_or_writes_elsewhere() {
    let _turn = turn();
    for fails in [false, true] {
        for is_json in [false, true] {
            for (command, files) in COMMANDS.into_iter().chain([(&["list"][..], &[][..])]) {
                check(command, files, fails, is_json);
            }
        }
    }
}

fn check(command: &[&str], files: &[&str], fails: bool, is_json: bool) {
    let folder = Folder::new("hostile");
    let inner = folder.0.join("a/b");
    fs::create_dir_all(&inner).unwrap();
    let id = std::process::id().to_string();
    let mut arguments = command.to_vec();
    if is_json {
        arguments.insert(0, "--json");
    }
    if command[0] == "list" {
        arguments.push(&id);
    } else {
        arguments.extend(["-p", &id]);
    }
    let agent = serve(1, fails);
    let mut run = probectl(&folder, &arguments);
    // Its socket is this process's, and its files go into a folder of their own.
    run.env_remove("XDG_RUNTIME_DIR").current_dir(&inner);
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") {
        run.env("XDG_RUNTIME_DIR", runtime);
    }
    let ran = Ran::from(run.output().unwrap());
    agent.join().unwrap();
    let is_obeyed = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains(is_obeyed), "{arguments:?}: {text:?}");
    }
    let mut found: Vec<_> = fs::read_dir(&inner).unwrap().map(|it| it.unwrap().file_name()).collect();
    found.retain(|name| !files.contains(&name.to_str().unwrap()));
    assert!(found.is_empty(), "{arguments:?}: {found:?}");
    assert!(!folder.0.join("outside").exists() && !folder.0.join("a/outside").exists(), "{arguments:?}");
}
