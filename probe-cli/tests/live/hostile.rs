//! A program whose agent is not ours: all that it says is what a terminal would obey, or a path to
//! elsewhere. The program is this test.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use probe_protocol::{
    Attached, AttachedConsumer, AttachmentInfo, Body, Channel, ConsumerInfo, Done, Failure, FailureKind,
    Hello, Listener, Probe, ProbeField, Reply, ReportForm, Request, Status, decode_call, encode_reply,
    encode_welcome,
};
use probe_report::{Body as Seen, Definition, Document, Histogram, Part, Place, Row, Table, TableCell, View};
use probe_tests::turn::turn;
use probe_trace::layout::{block, event, field, sub_buffer};

use crate::made::{File, definition};
use crate::program::{Folder, Program, Ran, probectl, run, signal, this};

const PATIENCE: Duration = Duration::from_secs(60);

/// A title of the window, a cleared screen, a reversed direction, a path, a line, a C1 character.
const EVIL: &str = "\u{1b}]0;it\u{7}\u{1b}[2J\u{202e}../../outside\r\n\u{9b}31m";

/// The same without a path, so that it can be one's last part.
const EVIL_NAME: &str = "\u{1b}[2J\u{9b}31m\r\n";

/// A trace in which all text is like that: the program, a thread, a probe, a field, and a value.
fn trace() -> File {
    const ENTRY: u8 = 1;
    const EXIT: u8 = 2;
    let mut file = File::new();
    file.block(block::PROGRAM, 0, EVIL.as_bytes());
    file.definitions(&[definition(0, ENTRY, 0, EVIL, &[EVIL]), definition(1, EXIT, 0, EVIL, &[])]);
    let words = |text: &str| -> Vec<u64> {
        let parts = text.as_bytes().chunks(8);
        let padded = parts.map(|it| [it, &[0; 8]].concat()[..8].try_into().unwrap());
        padded.map(u64::from_le_bytes).collect()
    };
    let name = words(EVIL_NAME);
    let length = EVIL.len() as u64;
    let payload = [&[field::STR.into(), length | length << 32][..], &words(EVIL)].concat();
    let mut records = vec![event::word(0, payload.len(), 5)];
    records.extend(&payload);
    records.push(event::word(1, 0, 6));
    let head = [(sub_buffer::NAME, name[0]), (sub_buffer::NAME + 1, name[1])];
    file.sub_buffer(0, 0, &head, &records);
    file.reading(1 << 30);
    file.words(block::UNSEEN, 0, &[0, 0]);
    file
}

/// Writes that trace in place of the one that was asked for.
fn record(file: OwnedFd) {
    fs::File::from(file).write_all_at(&trace().0, 0).unwrap();
}

/// Returns a report of a function that is hit more often each time, whose text is evil, too.
fn counted(times: u64) -> Document<'static> {
    let row = Row::new().with("probe", EVIL).with("file", EVIL).with("line", 1_u64).with("kind", "entry");
    Document {
        head: Row::new().with("duration", times as f64).with(EVIL, EVIL),
        rows: vec![row.with("sites", 1_u64).with("hits", 1000 * times).with(EVIL, EVIL)],
        rest: Row::new().with("note", EVIL),
        notes: vec![EVIL.to_owned()],
    }
}

/// Returns what people see of a report: in turn each form that there is.
fn seen(times: u64) -> View<'static> {
    let name = Definition { path: EVIL, file: EVIL, line: 1 };
    let body = match times % 4 {
        0 => Seen::Text(EVIL.into()),
        1 => {
            let mut table = Table::new(["probe", EVIL]);
            table.row([name.into(), TableCell::from(EVIL)]);
            Seen::Table(table)
        }
        2 => Seen::CallTree(vec![
            Place {
                name: EVIL.into(),
                file: EVIL.into(),
                depth: usize::MAX,
                total: u64::MAX,
                ..Place::default()
            };
            3
        ]),
        _ => Seen::Histograms(vec![Histogram {
            path: EVIL.into(),
            file: EVIL.into(),
            line: 1,
            keys: vec![(EVIL.into(), EVIL.into())],
            hits: u64::MAX,
            buckets: vec![(EVIL.into(), EVIL.into(), u64::MAX); 2],
        }]),
    };
    View::new(body, vec![EVIL.to_owned()])
}

/// An agent that serves one connection.
struct Agent {
    is_asked: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Agent {
    /// Begins. With `fails`, each request fails, by the same text.
    fn start(fails: bool) -> Self {
        let listener = Listener::bind(std::process::id()).unwrap();
        let is_asked = Arc::new(AtomicBool::new(false));
        let accepted = Arc::clone(&is_asked);
        let thread = thread::spawn(move || {
            listener.wait().unwrap();
            let channel = listener.accept().unwrap().unwrap();
            accepted.store(true, Ordering::Release);
            channel.receive(Some(PATIENCE), PATIENCE).unwrap().unwrap();
            let hello =
                Hello { runtime: EVIL.to_owned(), pid: std::process::id(), executable: EVIL.to_owned() };
            channel.send(&encode_welcome(&Ok(hello)), None, PATIENCE).unwrap();
            answer(&channel, fails);
            listener.remove();
        });
        Self { is_asked, thread }
    }

    /// Waits for its end, which comes with that of the command.
    fn end(self, ran: &Ran) {
        assert!(self.is_asked.load(Ordering::Acquire), "{ran:?}");
        self.thread.join().unwrap();
    }
}

/// An answer without an end takes neither for ever nor all memory, however small its parts are.
#[test]
fn an_answer_without_an_end_is_cut() {
    let _turn = turn();
    let folder = Folder::new("endless");
    let listener = Listener::bind(std::process::id()).unwrap();
    let own = std::process::id().to_string();
    let mut command = probectl(&folder, &["list", &own]);
    command.env_remove("XDG_RUNTIME_DIR");
    command.envs(std::env::var_os("XDG_RUNTIME_DIR").map(|it| ("XDG_RUNTIME_DIR", it)));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    listener.wait().unwrap();
    let channel = listener.accept().unwrap().unwrap();
    channel.receive(Some(PATIENCE), PATIENCE).unwrap().unwrap();
    let hello = Hello { runtime: "1".to_owned(), pid: std::process::id(), executable: own };
    channel.send(&encode_welcome(&Ok(hello)), None, PATIENCE).unwrap();
    let received = channel.receive(Some(PATIENCE), PATIENCE).unwrap().unwrap();
    let asked = decode_call(&received.payload).unwrap().id;
    let reply = encode_reply(&Reply { id: asked, body: Body::Probes(Vec::new()) });
    let mut bytes = 0;
    while channel.send(&reply, None, PATIENCE).is_ok() {
        bytes += reply.len();
    }
    drop(channel);
    listener.remove();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{said}");
    assert!(said.contains("the program's answer has more than 512 MiB, or no end"), "{said}");
    assert!(bytes < 600 << 20);
}

fn answer(channel: &Channel, fails: bool) {
    let evil = || EVIL.to_owned();
    let mut reports = 0;
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
            Request::Attach(attach) => {
                if let Some(file) = received.file.filter(|_| attach.output.is_some()) {
                    record(file);
                }
                let consumer = AttachedConsumer {
                    selector: evil(),
                    consumer: evil(),
                    formats: vec![evil()],
                    notes: vec![evil()],
                    ..AttachedConsumer::default()
                };
                send(Body::Attached(Attached { id: 1, consumers: vec![consumer] }));
            }
            Request::Report { form, .. } => {
                reports += 1;
                let part = |part: Part<'static>| {
                    send(Body::Report(part));
                    Ok::<_, ()>(())
                };
                match form {
                    // One that can be read lets rules fire.
                    ReportForm::Document { .. } => {
                        let Document { head, rows, rest, notes } = counted(reports);
                        Document::send(head, rows.into_iter(), rest, notes, 1, part).unwrap();
                    }
                    ReportForm::View => seen(reports).send(1, part).unwrap(),
                    _ => send(Body::Text(evil())),
                }
                send(done());
            }
            _ => send(done()),
        }
    }
}

/// The commands, and the files that they may write.
const COMMANDS: [(&[&str], &[&str]); 14] = [
    (&["status"], &[]),
    (&["count", "**", "--for", "1ms"], &[]),
    (&["latency", "**", "--for", "1ms"], &[]),
    (&["aggregate", "count by(a)", "**", "--for", "1ms"], &[]),
    (&["calls", "**", "--for", "1ms", "--every", "1ms"], &[]),
    (&["profile", "**", "--for", "1ms"], &[]),
    (&["perf", "**", "--for", "1ms"], &[]),
    (&["enable", "**", "--keep"], &[]),
    (&["disable", "1"], &[]),
    (&["attach"], &[]),
    (&["detach"], &[]),
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
                Asked::new(command, fails, is_json).check(files);
            }
        }
    }
}

/// The hits come from a file that the program has written.
#[test]
fn a_trace_as_it_comes_is_text() {
    let _turn = turn();
    for fails in [false, true] {
        for is_json in [false, true] {
            let ran = Asked::new(&["trace", "**", "--for", "1ms"], fails, is_json).check(&[]);
            if fails {
                continue;
            }
            assert!(ran.code == Some(0) && ran.err.contains("2 hits, and 0 lost"), "{ran:?}");
            let escaped = if is_json { "\\u001b[2J" } else { "\\u{1b}[2J" };
            assert!(ran.out.lines().count() == 2 && ran.out.contains(escaped), "{ran:?}");
        }
    }
}

/// Rules record and take snapshots, and then nobody else's file is written.
#[test]
fn a_watched_program_writes_no_file_of_its_choice() {
    let _turn = turn();
    let command = [
        "watch",
        "when rate(f) > 1 then record f for 1ms to it.pftrace",
        "when rate(f) > 1 then snapshot to it.probetrace",
        "--every",
        "10ms",
        "--for",
        "100s",
    ];
    for is_json in [false, true] {
        let asked = Asked::new(&command, false, is_json);
        let (mut command, agent) = asked.begin();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (mut text, mut missing) = (String::new(), vec!["it.pftrace: ", "it.probetrace"]);
        while !missing.is_empty() {
            let from = text.len();
            assert_ne!(out.read_line(&mut text).unwrap(), 0, "{text}");
            let line = &text[from..];
            let is_done =
                |what| line.contains(what) && (line.contains("recorded") || line.contains("snapshot"));
            missing.retain(|what| !is_done(*what));
        }
        signal("-INT", &child);
        out.read_to_string(&mut text).unwrap();
        let ran = Ran { out: text, ..child.wait_with_output().unwrap().into() };
        agent.end(&ran);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        asked.is_harmless(&ran, &["it.pftrace", "it.probetrace"]);
        assert_eq!(fs::read(asked.inner().join("it.pftrace")).unwrap(), trace().0);
    }
}

/// Returns a name that no other process has, as long as the kernel's may be. The tests with it take
/// turns.
fn own_name() -> String {
    format!("\u{1b}[2J\u{9b}{}\r\n", std::process::id())
}

/// The kernel shows a name as the program has set it.
#[test]
fn a_program_has_a_hostile_name() {
    let _turn = turn();
    let before = fs::read("/proc/self/comm").unwrap();
    let name = own_name();
    fs::write("/proc/self/comm", &name).unwrap();
    for command in [&["status"][..], &["count", "**", "--for", "1ms"], &["detach"]] {
        let asked = Asked { name: Some(&name), ..Asked::new(command, false, false) };
        let ran = asked.check(&[]);
        assert_eq!(ran.code, Some(0), "{command:?}: {ran:?}");
    }
    fs::write("/proc/self/comm", before.trim_ascii_end()).unwrap();
}

/// The path by which it was started is in its command line. A line is a process.
#[test]
fn programs_with_hostile_names_are_listed() {
    let _turn = turn();
    let folder = Folder::new("hostile-names");
    let name = own_name();
    let path = folder.0.join(&name);
    symlink(this(), &path).unwrap();
    let programs = [(); 2].map(|()| Program::idle(&folder, &path));
    let ran = run(&folder, &["status", "-n", &name]);
    is_text(&ran);
    let lines: Vec<_> = ran.err.lines().collect();
    assert!(ran.code == Some(2) && lines.len() == 3, "{ran:?}");
    for program in &programs {
        let line = lines[1..].iter().find(|it| it.starts_with(&format!("  {}  ", program.pid())));
        let escaped = format!("/\\u{{1b}}[2J\\u{{9b}}{}\\r\\n ", std::process::id());
        assert!(line.unwrap().contains(&escaped), "{ran:?}");
    }
    // Some of all that can be asked, also of other tests.
    let ran = run(&folder, &["status", "-n", "none"]);
    is_text(&ran);
    let mut lines = ran.err.lines().skip(1);
    assert!(ran.code == Some(3) && lines.all(|it| it.starts_with("  ")), "{ran:?}");
}

/// A command about this program.
struct Asked<'a> {
    folder: Folder,
    command: &'a [&'a str],
    name: Option<&'a str>,
    fails: bool,
    is_json: bool,
}

impl<'a> Asked<'a> {
    fn new(command: &'a [&'a str], fails: bool, is_json: bool) -> Self {
        let folder = Folder::new("hostile");
        fs::create_dir_all(folder.0.join("a/b")).unwrap();
        Self { folder, command, name: None, fails, is_json }
    }

    /// Returns the folder in which it runs.
    fn inner(&self) -> PathBuf {
        self.folder.0.join("a/b")
    }

    /// Returns the command, and the agent that it will ask.
    fn begin(&self) -> (Command, Agent) {
        let id = std::process::id().to_string();
        let which = match (self.command[0], self.name) {
            ("list", _) => &[id.as_str()][..],
            (_, Some(name)) => &["-n", name],
            (_, None) => &["-p", &id],
        };
        let json = if self.is_json { &["--json"][..] } else { &[] };
        let agent = Agent::start(self.fails);
        let mut run = probectl(&self.folder, &[json, self.command, which].concat());
        // Its socket is this process's, and its files go into a folder of their own.
        run.env_remove("XDG_RUNTIME_DIR").current_dir(self.inner());
        if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") {
            run.env("XDG_RUNTIME_DIR", runtime);
        }
        (run, agent)
    }

    /// Runs it. It may write these files.
    fn check(&self, files: &[&str]) -> Ran {
        let (mut command, agent) = self.begin();
        let ran = Ran::from(command.output().unwrap());
        agent.end(&ran);
        self.is_harmless(&ran, files);
        ran
    }

    fn is_harmless(&self, ran: &Ran, files: &[&str]) {
        is_text(ran);
        let found = fs::read_dir(self.inner()).unwrap().map(|it| it.unwrap().file_name());
        let found: Vec<_> = found.filter(|name| !files.contains(&name.to_str().unwrap())).collect();
        assert!(found.is_empty(), "{:?}: {found:?}", self.command);
        let is_there = |path| self.folder.0.join(path).exists();
        assert!(!is_there("outside") && !is_there("a/outside"), "{:?}", self.command);
    }
}

/// Checks that a terminal would obey nothing of it.
fn is_text(ran: &Ran) {
    let is_obeyed = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(![&ran.out, &ran.err].iter().any(|it| it.contains(is_obeyed)), "{ran:?}");
}
