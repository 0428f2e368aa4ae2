//! Processes and probes that come later, in programs with the preloaded library: children without
//! exec, and plugins.

use std::path::Path;
use std::process::Child;

use probe_trace::Item;

use crate::preloaded::{Kind, Served, compiled, differing};
use crate::program::{Folder, Ran, out, run, signal, spawn, until, words};
use crate::terminal::{SMALL, Terminal};

/// The sum of a hundred calls.
const SUM: &str = "14950";
/// The exit code of a child whose results are right.
const RIGHT: &str = "5";

/// A child continues with latent sites, and its parent with active ones. Hits of the child are
/// nobody's.
#[test]
fn a_forked_child_does_not_count() {
    let folder = Folder::new("forked");
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
    let pid = served.pid();
    assert_eq!(served.ask("child"), RIGHT);
    out(&folder, &["enable", "--keep", "-p", &pid, "working"]);
    for _ in 0..10 {
        assert_eq!(served.ask("child"), RIGHT);
    }
    assert_ne!(differing(served.id(), &program), 0);
    let disabled = run(&folder, &["disable", "-p", &pid]);
    assert_eq!(words(&disabled.out)[1].last(), Some(&"1000"), "{disabled:?}");
    assert_eq!(differing(served.id(), &program), 0);
    assert_eq!(served.ask(""), SUM);
    assert_eq!(served.end(), Some(7));
}

/// The agent may be about anything at that moment; the child does its work.
#[test]
fn forks_beside_clients_that_come_and_go() {
    let folder = Folder::new("forks");
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
    let pid = served.pid();
    let client = || spawn(&folder, &["latency", "-p", &pid, "**", "--every", "1ms"]);
    let end = |mut client: Child| client.kill().and_then(|()| client.wait()).unwrap();
    for _ in 0..10 {
        let client = client();
        for _ in 0..20 {
            assert_eq!(served.ask("child"), RIGHT);
        }
        end(client);
    }
    let mut client = probe_protocol::Client::connect(served.id()).unwrap();
    until(|| client.status().unwrap().attachments.is_empty());
    assert_eq!(differing(served.id(), &program), 0);
    assert_eq!(served.end(), Some(7));
}

/// Probes of a plugin join the attachments, with the next request.
#[test]
fn a_late_plugin_joins() {
    let folder = Folder::new("late");
    let (host, plugin) = (compiled(&folder, Kind::Late, &[]), compiled(&folder, Kind::Plugged, &[]));
    let command = [host.to_str().unwrap(), plugin.to_str().unwrap()];
    let mut served = Served::start(&folder, &command);
    let pid = served.pid();
    out(&folder, &["enable", "--keep", "-p", &pid, "**"]);
    assert_eq!(served.ask(""), SUM);
    assert_eq!(served.ask("late"), SUM);
    assert!(out(&folder, &["list", &pid, "plugged"]).contains("1 probe, 1 site"));
    assert_ne!(differing(served.id(), &plugin), 0);
    assert_eq!(served.ask("late"), SUM);
    assert_eq!(served.ask("late"), SUM);
    let disabled = run(&folder, &["disable", "-p", &pid]);
    let lines = words(&disabled.out);
    let hits = |probe: &str| lines.iter().find(|line| line[0] == probe).unwrap().last().copied();
    assert_eq!((hits("working"), hits("plugged")), (Some("100"), Some("200")), "{disabled:?}");
    assert_eq!([&host, &plugin].map(|file| differing(served.id(), file)), [0, 0]);
    assert_eq!(served.ask("late"), SUM);
    assert_eq!(served.end(), Some(7));
}

/// They join by themselves, while a command measures that asks for nothing meanwhile.
#[test]
fn a_late_plugin_joins_without_a_request() {
    let folder = Folder::new("unasked");
    let (host, plugin) = (compiled(&folder, Kind::Late, &[]), compiled(&folder, Kind::Plugged, &[]));
    let trace = folder.0.join("plugged.probetrace");
    for measuring in [&["count"][..], &["record", "-o", trace.to_str().unwrap()]] {
        let mut served = Served::start(&folder, &[host.to_str().unwrap(), plugin.to_str().unwrap()]);
        let (id, pid) = (served.id(), served.pid());
        let is_patched = |file: &Path| differing(id, file) != 0;
        let child = spawn(&folder, &[measuring, &["-p", &pid, "working, plugged"]].concat());
        until(|| is_patched(&host));
        assert_eq!(served.ask("late"), SUM);
        until(|| is_patched(&plugin));
        assert_eq!(served.ask("late"), SUM);
        signal("-INT", &child);
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let hits = if measuring[0] == "count" { shown(&ran.out) } else { written(&trace) };
        assert_eq!(hits, 100, "{ran:?}");
        assert_eq!(served.end(), Some(7));
    }
}

/// Its functions come to the screen, without a key. They are all that is selected.
#[test]
fn functions_of_a_late_plugin_are_in_top() {
    let folder = Folder::new("shown");
    let hooks = ["-finstrument-functions"];
    let (host, plugin) = (compiled(&folder, Kind::Late, &[]), compiled(&folder, Kind::Plugged, &hooks));
    let mut served = Served::start(&folder, &[host.to_str().unwrap(), plugin.to_str().unwrap()]);
    let Some(mut top) = Terminal::probectl(&folder, SMALL, &format!("top -p {} work", served.pid())) else {
        return;
    };
    top.until(|screen| screen.contains("no functions among the selected probes"));
    assert_eq!(served.ask("late"), SUM);
    top.until(|screen| screen.lines().any(|line| line.starts_with("  work ")));
    top.press("q");
    assert_eq!(top.last(), "\n");
    assert_eq!(served.ask("late"), SUM);
    assert_eq!(served.end(), Some(7));
}

/// The plugin's hits in a table.
fn shown(table: &str) -> u64 {
    words(table).iter().find(|row| row[0] == "plugged").unwrap().last().unwrap().parse().unwrap()
}

/// The plugin's hits in a trace.
fn written(trace: &Path) -> u64 {
    let mut trace = probe_trace::Trace::open(&[trace]).unwrap();
    let is_of_plugin = |item| matches!(item, Item::Event(event) if event.definition.path == "plugged");
    trace.items().map(|item| u64::from(is_of_plugin(item.unwrap()))).sum()
}
