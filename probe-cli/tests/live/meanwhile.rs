//! The program ends by itself, becomes another one, or closes a library, while commands are
//! attached. Each tells it, and ends as documented.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};

use probe_protocol::Client;
use probe_trace::{Item, Trace};

use crate::preloaded::{Kind, Served, compiled, differing};
use crate::program::{Folder, Ran, out, run, signal, spawn, until, words};
use crate::watched::Watch;

/// The sum of a hundred calls.
const SUM: &str = "14950";
/// The last row of a table of their hits.
const ROW: &str = "working  point      1   100";

/// Commands that are attached to one program.
struct Attached {
    count: Child,
    enable: Child,
    record: Child,
    trace: Child,
    /// Another count, which shows tables.
    shown: Child,
    tables: BufReader<ChildStdout>,
}

impl Attached {
    /// Attaches them, and lets the program hit a hundred times.
    fn to(folder: &Folder, served: &mut Served) -> Self {
        let pid = served.pid();
        let begin = |arguments: &[&str]| spawn(folder, &[arguments, &["-p", &pid, "working"]].concat());
        let trace = folder.0.join("it.probetrace").display().to_string();
        let mut shown = begin(&["count", "--every", "1ms"]);
        let mut attached = Self {
            tables: BufReader::new(shown.stdout.take().unwrap()),
            shown,
            count: begin(&["count"]),
            enable: begin(&["enable"]),
            record: begin(&["record", "-o", &trace]),
            trace: begin(&["trace"]),
        };
        let mut client = Client::connect(served.id()).unwrap();
        until(|| client.status().unwrap().attachments.len() == 5);
        assert_eq!(served.ask(""), SUM);
        assert!(attached.tables.by_ref().lines().any(|line| line.unwrap() == ROW));
        attached
    }

    /// Checks that each says this reason. Returns the number of hits that `trace` has shown.
    fn end(self, folder: &Folder, reason: &str) -> usize {
        let end = |child: Child, code: i32, said: &str| {
            let ran = Ran::from(child.wait_with_output().unwrap());
            assert_eq!((ran.code, ran.err), (Some(code), said.replace("REASON", reason)));
            ran.out
        };
        let error = "error: REASON before there was a report; ask for some by --every\n";
        assert_eq!(end(self.count, 3, error), "");
        let out = end(self.enable, 0, "note: REASON, and there are no reports\n");
        assert_eq!(out.split_once(": ").unwrap().1, "count on 1 probe, 1 site active, 0 refused\n");
        let path = folder.0.join("it.probetrace");
        let note = format!("note: REASON; {} has the events until about then\n", path.display());
        assert_eq!(end(self.record, 0, &note), "");
        let last = self.tables.lines().map(Result::unwrap).last();
        assert_eq!(last.as_deref(), Some(ROW));
        end(self.shown, 0, "note: REASON; this is the last report before\n");
        let traced = Ran::from(self.trace.wait_with_output().unwrap());
        let hits = traced.out.lines().count();
        let note =
            format!("note: {reason}; hits shortly before may be missing\nnote: {hits} hits, and 0 lost\n");
        assert_eq!((traced.code, traced.err), (Some(0), note));
        hits
    }
}

#[test]
fn the_program_ends_by_itself() {
    let folder = Folder::new("meanwhile-exit");
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
    let attached = Attached::to(&folder, &mut served);
    assert_eq!(served.end(), Some(7));
    // It finishes its traces.
    assert_eq!(attached.end(&folder, "the program has ended"), 100);
    let mut trace = Trace::open(&[folder.0.join("it.probetrace")]).unwrap();
    assert_eq!(trace.problems(), [""; 0]);
    assert_eq!(trace.items().filter(|it| matches!(it, Ok(Item::Event(_)))).count(), 100);
}

#[test]
fn the_program_becomes_another_one() {
    let folder = Folder::new("meanwhile-exec");
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
    let attached = Attached::to(&folder, &mut served);
    assert_eq!(served.ask("exec"), "ready");
    attached.end(&folder, "the program goes on, but has ended the connection");
    assert_eq!(differing(served.id(), &program), 0);
    assert_eq!(Client::connect(served.id()).unwrap().status().unwrap().attachments.len(), 0);
    assert_eq!(served.ask(""), SUM);
    assert_eq!(served.end(), Some(7));
}

/// The next program has the same process, so it is asked again.
#[test]
fn a_watch_goes_on_with_the_next_program() {
    let folder = Folder::new("meanwhile-watch");
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
    let rule = "when max(value of working) > 98 then arm working=count at most 9 times".to_owned();
    let mut watch = Watch::of(&folder, served.id(), "20ms", &[rule]);
    let mut client = Client::connect(served.id()).unwrap();
    until(|| client.status().unwrap().attachments.iter().any(|it| it.spec.contains("max(value)")));
    assert_eq!(served.ask(""), SUM);
    watch.event("armed");
    assert_eq!(served.ask("exec"), "ready");
    assert_eq!(watch.event("lost")["text"], "the program has ended the connection");
    assert_eq!(watch.event("back")["text"], "the program answers again");
    // No known window has ended the rule.
    watch.event("armed");
    let events = watch.stop();
    // A window's request may be on its way when the connection ends.
    let is_cut = |it: &&serde_json::Value| {
        it["event"] == "failed" && it["text"] == "working=max(value): the program has ended the connection"
    };
    let names: Vec<_> =
        events.iter().filter(|it| !is_cut(it)).map(|it| it["event"].as_str().unwrap()).collect();
    let expected = ["watching", "waiting", "fired", "armed", "lost", "back", "armed", "disarmed", "ended"];
    assert_eq!((&names[..9], &names[9..]), (&expected[..], &["summary"][..]), "{events:#?}");
    let mut client = Client::connect(served.id()).unwrap();
    until(|| client.status().unwrap().attachments.is_empty());
    assert_eq!(differing(served.id(), &program), 0);
    assert_eq!((served.ask("").as_str(), served.end()), (SUM, Some(7)));
}

/// Hits of its probes stay, and the probes join again when they are there again.
#[test]
fn the_program_closes_a_library() {
    let folder = Folder::new("meanwhile-close");
    let (host, plugin) = (compiled(&folder, Kind::Late, &[]), compiled(&folder, Kind::Plugged, &[]));
    let mut served = Served::start(&folder, &[host.to_str().unwrap(), plugin.to_str().unwrap()]);
    let pid = served.pid();
    let counting = spawn(&folder, &["count", "-p", &pid, "**"]);
    let mut client = Client::connect(served.id()).unwrap();
    until(|| client.status().unwrap().attachments.len() == 1);
    for _ in 0..2 {
        assert_eq!(served.ask("late"), SUM);
        // With this request, its probe joins.
        assert!(out(&folder, &["list", &pid, "plugged"]).contains("1 probe, 1 site"));
        assert_ne!(differing(served.id(), &plugin), 0);
        assert_eq!(served.ask("late"), SUM);
        assert_eq!(served.ask("unload"), "0");
        assert_eq!(run(&folder, &["list", &pid, "plugged"]).code, Some(4));
    }
    assert_eq!(served.ask(""), SUM);
    signal("-INT", &counting);
    let ran = Ran::from(counting.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let rows = [["plugged", "point", "0", "200"], ["working", "point", "1", "100"]];
    assert_eq!(words(&ran.out)[1..], rows);
    assert_eq!(differing(served.id(), &host), 0);
    assert_eq!(served.ask(""), SUM);
    assert_eq!(served.end(), Some(7));
}
