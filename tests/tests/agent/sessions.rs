//! Sessions of clients that behave.

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{mem, process};

use probe_protocol::{Attach, Client, ClientError, Failure, FailureKind, Probe, Status};
use serde_json::Value;

use crate::target::{Target, until};

crate::target::serves!();

const HITS: &str = "agent::work kind=entry=count";

/// The failure of a request.
fn failure<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Failure {
    match result {
        Err(ClientError::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

fn hits(client: &mut Client, attachment: u32) -> u64 {
    let report: Value = serde_json::from_str(&client.report(attachment, 0, "json").unwrap().text).unwrap();
    report["rows"].as_array().unwrap().iter().map(|row| row["hits"].as_u64().unwrap()).sum()
}

/// Ends the tracer of a program, which lets the program continue.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process's first membarrier(2) may take the kernel ten seconds, and here it takes for ever.
#[test]
fn a_client_is_greeted_before_the_first_barrier() {
    let mut target = Target::with(&[]);
    let held = ["-e", "inject=membarrier:delay_enter=1000000000", "-p", &target.pid().to_string()];
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]).args(held).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(strace) = strace.spawn() else { return println!("left out: there is no strace") };
    let mut tracer = Tracer(strace);
    let is_held = until(|| {
        let is_traced = target.is_traced();
        (is_traced || tracer.0.try_wait().unwrap().is_some()).then_some(is_traced)
    });
    if !is_held {
        return println!("left out: strace may not trace here");
    }
    assert_eq!(target.ask("start"), target.socket().display().to_string());
    assert_eq!(target.client().hello().pid, target.pid());
}

/// A report has all of its notes, as a table and as JSON.
#[test]
fn a_report_has_all_notes() {
    let target = Target::new();
    let mut client = target.client();
    let terms: Vec<_> = (0..20).map(|number| format!("agent::wrok{number}")).collect();
    let spec = format!("{}, agent::work=count", terms.join(", "));
    let id = client.attach(&Attach::new(spec)).unwrap().id;
    // Eight terms by their names, and the number of the others.
    let last = "and 12 more terms match no probe";
    let document = client.document(id, 0, &[]).unwrap().values;
    assert_eq!((document.notes.len(), document.notes[8].as_str()), (9, last));
    let json: Value = serde_json::from_str(&document.json()).unwrap();
    assert_eq!((json["notes"].as_array().unwrap().len(), &json["notes"][8]), (9, &last.into()));
    let text = client.report(id, 0, "txt").unwrap().text;
    assert_eq!(text.lines().last(), Some(last));
    client.detach(id).unwrap();
}

/// A report may be of the functions with some probes, and the program tells what answers cost it.
#[test]
fn a_report_may_be_of_some_functions() {
    let mut target = Target::new();
    let mut client = target.client();
    let probes = client.list("agent::work, agent::even").unwrap();
    let number = |kind| probes.iter().find(|it| it.kind == kind).unwrap().number;
    let spec = format!("agent::work=latency, agent::work=profile, {HITS}");
    let id = client.attach(&Attach::new(spec)).unwrap().id;
    assert_eq!(target.number("work 10"), 145);
    let mut begin = Instant::now();
    let mut rows = |consumer, only: &[u32]| {
        let report = client.document(id, consumer, only).unwrap();
        // The last answer began later than the one before it.
        let since = mem::replace(&mut begin, Instant::now());
        assert!(report.cpu_ns != 0, "{report:?}");
        if consumer != 0 {
            assert!(u128::from(report.cpu_ns) <= since.elapsed().as_nanos(), "{report:?}");
        }
        report.values.rows
    };
    let [entry, exit, point] = ["entry", "exit", "point"].map(number);
    for (only, many) in
        [(&[][..], 1), (&[entry], 1), (&[u32::MAX, exit, entry, exit], 1), (&[point], 0), (&[u32::MAX], 0)]
    {
        for consumer in 0..2 {
            let rows = rows(consumer, only);
            assert_eq!(rows.len(), many, "{rows:?}");
            assert!(
                rows.iter().all(|row| {
                    (row.text("function"), row.number("calls")) == (Some("agent::work"), Some(10.0))
                }),
                "{rows:?}"
            );
        }
        // Its reports are always of all.
        assert_eq!(rows(2, only).len(), 1);
    }
    client.detach(id).unwrap();
    target.is_as_before();
}

#[test]
fn a_client_lists_attaches_reads_and_detaches() {
    let mut target = Target::new();
    let socket = target.socket();
    assert_eq!(socket.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
    let mut client = target.client();
    let hello = client.hello().clone();
    assert_eq!((hello.pid, hello.runtime.as_str()), (target.pid(), env!("CARGO_PKG_VERSION")));
    assert_eq!(hello.executable, std::env::current_exe().unwrap().display().to_string());

    let probes = client.list("agent::work, agent::even").unwrap();
    let shown = |it: &Probe| {
        let fields: Vec<_> = it.fields.iter().map(|it| (it.name.clone(), it.ty.clone())).collect();
        (it.path.clone(), it.kind.clone(), fields, it.sites, it.state.clone())
    };
    let mut all: Vec<_> = probes.iter().map(shown).collect();
    all.sort();
    let field = |name: &str| vec![(name.to_owned(), Some("u64".to_owned()))];
    let of =
        |path: &str, kind: &str, fields| (path.to_owned(), kind.to_owned(), fields, 1, "latent".to_owned());
    assert_eq!(
        all,
        [
            of("agent::even", "point", field("half")),
            of("agent::work", "entry", field("x")),
            of("agent::work", "exit", vec![]),
        ]
    );
    let work = probes.iter().find(|it| it.kind == "entry").unwrap();
    assert_eq!(work.file, "tests/tests/agent/main.rs");
    assert_eq!(
        (work.group.as_deref(), work.doc.as_deref(), work.object.as_str()),
        (Some("agents"), Some("the work of the program"), "")
    );
    assert!(client.list("").unwrap().len() >= probes.len());

    let attached = client.attach(&Attach::new(format!("{HITS}, agent::*=latency"))).unwrap();
    let [count, latency] = attached.consumers.as_slice() else { panic!("{attached:?}") };
    assert_eq!((count.consumer.as_str(), count.probes, count.sites, count.refused), ("count", 1, 1, 0));
    assert_eq!((latency.selector.as_str(), latency.probes), ("agent::*", 3));
    assert_eq!(count.formats, ["txt", "json", "csv", "prom"]);
    let state = client.list("agent::work kind=entry").unwrap().remove(0).state;
    assert_eq!(state, "active");
    assert_ne!(target.number("text"), 0);

    assert_eq!(target.number("work 10"), 145);
    assert_eq!(hits(&mut client, attached.id), 10);
    let text = client.report(attached.id, 0, "txt").unwrap().text;
    assert!(text.lines().any(|line| line.starts_with("agent::work") && line.ends_with(" 10")), "{text}");
    let prometheus = client.report(attached.id, 0, "prom").unwrap().text;
    assert!(prometheus.contains("kind=\"entry\"") && prometheus.contains("} 10\n"), "{prometheus}");
    let latencies: Value =
        serde_json::from_str(&client.report(attached.id, 1, "json").unwrap().text).unwrap();
    assert_eq!(latencies["rows"][0]["calls"], 10);

    let status = client.status().unwrap();
    let [info] = status.attachments.as_slice() else { panic!("{status:?}") };
    assert_eq!(
        (info.id, info.is_kept, info.client, info.is_connected),
        (attached.id, false, process::id(), true)
    );
    assert_eq!((status.clients, status.of_program, status.lost_hits), (1, 0, 0));
    assert!(status.threads >= 3 && status.probes >= 3, "{status:?}");

    client.pause(attached.id).unwrap();
    assert_eq!((target.number("work 10"), target.number("text")), (145, 0));
    assert_eq!(hits(&mut client, attached.id), 10);
    client.resume(attached.id).unwrap();
    assert_eq!((target.number("work 10"), hits(&mut client, attached.id)), (145, 20));
    assert!(client.detach(attached.id).unwrap().is_empty());
    target.is_as_before();
    assert!(client.status().unwrap().attachments.is_empty());
    drop(client);
    assert!(target.end().success());
    assert!(!socket.exists(), "it goes with the program");
    assert_eq!(target.said(), "");
}

#[test]
fn an_attachment_goes_with_its_client_unless_it_is_kept() {
    let mut target = Target::new();
    let mut client = target.client();
    let left = client.attach(&Attach::new(HITS)).unwrap();
    let kept = client.attach(&Attach { keep: true, ..Attach::new("agent::even=count") }).unwrap();
    let late = client.attach(&Attach::new("agent::work kind=exit=count")).unwrap();
    client.keep(late.id).unwrap();
    drop(client);
    // Its attachment goes before its connection is forgotten.
    let is_over = |status: &Status| status.attachments.iter().all(|it| !it.is_connected);
    let status = target.until(|status| status.attachments.len() == 2 && is_over(status));
    assert_eq!(status.attachments.iter().map(|it| it.id).collect::<Vec<_>>(), [kept.id, late.id]);
    assert!(status.attachments.iter().all(|it| it.is_kept));
    assert_eq!(target.number("work 10"), 145);

    let mut other = target.client();
    assert_eq!((hits(&mut other, kept.id), hits(&mut other, late.id)), (5, 10));
    assert_eq!(failure(other.report(left.id, 0, "txt")).kind, FailureKind::Unknown);
    other.detach(kept.id).unwrap();
    other.detach(late.id).unwrap();
    target.is_as_before();
}

#[test]
fn two_clients_do_not_disturb_each_other() {
    let mut target = Target::new();
    let (mut one, mut other) = (target.client(), target.client());
    let first = one.attach(&Attach::new(HITS)).unwrap();
    assert_eq!(target.number("work 10"), 145);
    let second = other.attach(&Attach::new(HITS)).unwrap();
    assert_eq!(target.number("work 10"), 145);
    assert_eq!((hits(&mut one, first.id), hits(&mut other, second.id)), (20, 10));
    let denied = failure(other.detach(first.id));
    assert_eq!(denied.kind, FailureKind::Denied);
    let problem = format!("attachment {} belongs to process {}, which is connected", first.id, process::id());
    assert_eq!(denied.message, problem);
    drop(one);
    target.until(|status| status.attachments.len() == 1);
    assert_eq!((target.number("work 10"), hits(&mut other, second.id)), (145, 20));
    drop(other);
    target.until(|status| status.attachments.is_empty());
    target.is_as_before();
}

#[test]
fn mistakes_say_where_and_change_nothing() {
    let mut target = Target::new();
    let mut client = target.client();
    let attach = |client: &mut Client, spec: &str| failure(client.attach(&Attach::new(spec)));
    let unknown = attach(&mut client, "agent::work=cuont");
    assert_eq!((unknown.kind, unknown.at), (FailureKind::Malformed, Some(12)));
    assert!(unknown.message.contains("`cuont` is not a consumer; did you mean `count`?"), "{unknown}");
    // It may appear later.
    for spec in ["agent::wrok=count", "agent::work=count, agent::wrok=count"] {
        let misspelt = client.attach(&Attach::new(spec)).unwrap();
        let last = misspelt.consumers.last().unwrap();
        assert_eq!((last.probes, last.sites), (0, 0));
        assert!(last.notes[0].contains("did you mean `agent::work`"), "{misspelt:?}");
        client.detach(misspelt.id).unwrap();
    }
    let selector = failure(client.list("agent::work:x"));
    assert_eq!((selector.kind, selector.at), (FailureKind::Malformed, Some(11)));
    assert_eq!(failure(client.list("agent::wrok")).kind, FailureKind::NoMatch);
    for spec in [
        "agent::work=trace(file=/tmp/a.pftrace)",
        "agent::work=trace(flight, map=/tmp/a.probetrace)",
        "agent::work=trace(flight, panic=/tmp/a.pftrace)",
        "agent::work=trace",
    ] {
        assert_eq!(attach(&mut client, spec).kind, FailureKind::Unable, "{spec}");
    }
    let own = attach(&mut client, "agent::even=count, agent::work=own(file=/tmp/a)");
    assert_eq!((own.kind, own.at), (FailureKind::Malformed, Some(31)));
    let problem = "`own` is not for clients; its program may allow it, by `FOR_CLIENTS` in its `Reporter`";
    assert!(own.message.contains(problem), "{own}");
    let trigger =
        attach(&mut client, "when latency(agent::work) > 5ms then snapshot, agent::*=trace(flight)");
    assert_eq!(trigger.kind, FailureKind::Malformed);
    assert!(trigger.message.contains("a trigger writes files"), "{trigger}");
    target.is_as_before();

    let attached = client.attach(&Attach::new("agent::work, agent::wrok=count")).unwrap();
    assert!(attached.consumers[0].notes[0].contains("agent::wrok"), "{attached:?}");
    let format = failure(client.report(attached.id, 0, "svg"));
    assert_eq!(format.message, "`count` has no report as .svg; it has txt, json, csv, prom");
    let consumer = failure(client.report(attached.id, 1, "txt"));
    assert_eq!(consumer.kind, FailureKind::Unknown);
    assert_eq!(failure(client.detach(77)).message, "there is no attachment 77");
    client.detach(attached.id).unwrap();
    target.is_as_before();
}

#[test]
fn there_is_no_agent_unless_somebody_asks() {
    let mut target = Target::with(&[]);
    let Err(ClientError::NoAgent { pid, searched }) = Client::connect(target.pid()) else { panic!() };
    assert_eq!(pid, target.pid());
    assert_eq!(searched[0], target.socket());
    assert_eq!(target.number("switches"), 0);
    // One call does, and says where; a second one changes nothing.
    assert_eq!(target.ask("start"), target.socket().display().to_string());
    assert_eq!(target.ask("start"), target.socket().display().to_string());
    assert_eq!(target.client().status().unwrap().clients, 1);
    assert!(matches!(Client::connect(u32::MAX >> 1), Err(ClientError::NoProcess(_))));
}

#[test]
fn the_programs_own_attachments_are_counted_apart() {
    let target = Target::with(&[("PROBE_AGENT", "1"), ("PROBES", "agent::work=count, agent::even=count")]);
    let mut client = target.client();
    let attached = client.attach(&Attach::new(HITS)).unwrap();
    let status = client.status().unwrap();
    assert_eq!((status.of_program, status.attachments.len()), (2, 1));
    client.detach(attached.id).unwrap();
    assert_eq!(client.status().unwrap().of_program, 2);
}

#[test]
fn clients_and_attachments_are_limited() {
    let target = Target::new();
    let mut clients: Vec<_> = (0..8).map(|_| target.client()).collect();
    let refused = failure(Client::connect(target.pid()));
    assert_eq!(refused.kind, FailureKind::Limit);
    drop(clients.pop());
    let mut client = until(|| Client::connect(target.pid()).ok());
    for _ in 0..64 {
        client.attach(&Attach::new(HITS)).unwrap();
    }
    assert_eq!(failure(clients[0].attach(&Attach::new(HITS))).kind, FailureKind::Limit);
    assert_eq!(client.status().unwrap().attachments.len(), 64);
    drop(client);
    target.until(|status| status.attachments.is_empty());
    // One text has no more either, and the answer to the largest one fits.
    let many = |consumers| Attach::new(vec!["agent::work, agent::wrok=count"; consumers].join(","));
    let refused = failure(clients[0].attach(&many(65)));
    assert_eq!(refused.kind, FailureKind::Limit);
    let start = "clients have 0 consumers, and may have 64, so there is no room for 65 more; detach some, ";
    assert!(refused.message.starts_with(start), "{refused}");
    let attached = clients[0].attach(&many(64)).unwrap();
    assert!(attached.consumers.iter().all(|it| it.notes[0].contains("agent::wrok")), "{attached:?}");
    assert_eq!(attached.consumers.len(), 64);
    let status = clients[1].status().unwrap();
    assert_eq!(status.attachments[0].consumers.len(), 64);
    clients[0].detach(attached.id).unwrap();
    drop(clients);
    target.until(|status| status.clients == 1 && status.attachments.is_empty());
}
