//! Ways to attach: by text, by closure, by a consumer that is chosen at run time or shared; and
//! counts from a baseline on. A process of its own, since it counts its probes to the last hit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use probe_runtime::registry::ProbeState;
use probe_runtime::slow::FunctionSlow;
use probe_runtime::spec::{Spec, attach_spec};
use probe_runtime::{
    Attachment, CallTree, Consumer, Count, Event, Kind, Latency, Slow, probe, probes, select,
};

#[probe(args(*))]
#[inline(never)]
fn work(n: u64, name: &str) -> u64 {
    n + name.len() as u64
}

#[probe]
#[inline(never)]
fn rest() {}

fn run(calls: u64) {
    (0..calls).for_each(|n| _ = work(n, "x"));
}

/// Tests share the probes; one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn alone(test: impl FnOnce()) {
    let turn = TURN.lock();
    run(1);
    rest();
    test();
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    drop(turn);
}

const ENTRY: &str = "patching::attaching::work kind=entry";

#[test]
fn a_text_attaches_what_the_environment_would() {
    alone(|| {
        let text = "patching::attaching::work=latency, patching::attaching::rest kind=entry = count(text=alias), patching::attaching::*=call-tree";
        let attached = attach_spec(text).unwrap();
        run(3);
        rest();
        let told: Vec<_> = attached.iter().map(|it| (it.selector(), it.consumer())).collect();
        assert_eq!(
            told,
            [
                ("patching::attaching::work", "latency"),
                ("patching::attaching::rest kind=entry", "count"),
                ("patching::attaching::*", "call-tree")
            ]
        );
        let latency: &Attachment<Latency> = attached[0].attachment().unwrap();
        assert_eq!(latency.latencies().function("patching::attaching::work").unwrap().calls(), 3);
        assert_eq!(attached[1].attachment::<Count>().unwrap().total(), 1);
        assert!(attached[1].attachment::<CallTree>().is_none());
        assert!(
            attached[1]
                .to_csv()
                .starts_with("probe,kind,file,line,sites,hits\npatching::attaching::rest,entry,")
        );
        let json: serde_json::Value = serde_json::from_str(&attached[1].to_json()).unwrap();
        assert_eq!((&json["consumer"], &json["rows"][0]["hits"]), (&"count".into(), &1.into()));
        let shown = attached.to_string();
        assert!(
            shown.starts_with("function ")
                && shown.contains("\nprobe                      kind   sites  hits\n"),
            "{shown}"
        );
    });
}

#[test]
fn terms_that_name_nothing_are_said() {
    alone(|| {
        let selector = "patching::attaching::work, patching::attaching::wrok kind=entry, patching::attaching::**::nowhere";
        let attached = attach_spec(&format!("{selector} = count, {ENTRY}=latency, {ENTRY}=count")).unwrap();
        let [notes, left_out, nothing] = [0, 1, 2].map(|at| attached[at].notes());
        let count = select(selector).unwrap().attach(Count::new()).unwrap();
        let unmatched: Vec<_> = count.report().unmatched().iter().map(ToString::to_string).collect();
        assert_eq!((unmatched.len(), &notes), (2, &unmatched));
        assert!(notes[0].contains("`patching::attaching::wrok kind=entry`"), "{notes:?}");
        assert!(left_out.is_empty() && nothing.is_empty(), "{left_out:?} {nothing:?}");
        let shown = attached[0].to_string();
        assert_eq!(shown, format!("{count}\n{}", notes.join("\n")));
        assert_eq!(attached[2].to_string(), "probe  kind  sites  hits\n1 probe was never hit");
        // As many are said as `PROBES` says.
        let many: Vec<_> = (0..100).map(|n| format!("patching::attaching::no_{n}")).collect();
        let notes = attach_spec(&format!("{ENTRY}, {}=count", many.join(", "))).unwrap()[0].notes();
        let last = format!("and {} more terms match no probe", 100 - (notes.len() - 1));
        assert!(notes.len() < 100 && notes.last() == Some(&last), "{notes:?}");
    });
}

#[test]
fn all_of_a_text_or_nothing() {
    alone(|| {
        // A selector may match later, but a predicate is about the probes that there are.
        let error = attach_spec("patching::attaching::work=count, patching::attaching::work[zzz > 1]=count");
        assert!(error.unwrap_err().to_string().contains("zzz"));
        let error = "patching::attaching::work=cuont".parse::<Spec>().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("malformed spec, column 27: `cuont` is not a consumer; did you mean `count`?")
        );
    });
}

static TOLD: AtomicU64 = AtomicU64::new(0);

fn told(event: &Event<'_>) {
    TOLD.fetch_add(u64::from(event.kind() == Kind::Entry), Relaxed);
}

#[test]
fn closures_are_told_of_hits() {
    alone(|| {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&shown);
        // Its parameter is inferred, lifetimes and all.
        let attached = select(ENTRY)
            .unwrap()
            .attach_fn(move |event| kept.lock().unwrap().push(format!("{event:?} {}", event.thread())))
            .unwrap();
        thread::Builder::new().name("worker".to_owned()).spawn(|| run(1)).unwrap().join().unwrap();
        run(1);
        drop(attached);
        let shown = shown.lock().unwrap();
        let [one, other] = shown.as_slice() else { panic!("{shown:?}") };
        let start = r#"Event { path: "patching::attaching::work", kind: Entry, fields: {"n": 0, "name": x}, thread: "#;
        assert!(one.starts_with(start) && other.starts_with(start), "{shown:?}");
        // Names are read from Linux's kernel.
        let name = if cfg!(target_os = "linux") { "worker" } else { "" };
        assert!(one.contains(&format!(r#", name: "{name}", time: 20"#)), "{one}");
        let thread = |shown: &str| shown.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        assert_ne!(thread(one), thread(other));
        // One that writes it, and a function.
        let first = select(ENTRY).unwrap().attach(|event: &Event<'_>| told(event)).unwrap();
        let second = select(ENTRY).unwrap().attach(told).unwrap();
        run(2);
        drop((first, second));
        assert_eq!(TOLD.load(Relaxed), 4);
    });
}

#[test]
fn consumers_behind_pointers_are_themselves() {
    alone(|| {
        let boxed: Box<dyn Consumer> = Box::new(Count::new());
        let boxed = select(ENTRY).unwrap().attach(boxed).unwrap();
        let shared = Arc::new(Latency::new());
        let kept = select("patching::attaching::work").unwrap().attach(Arc::clone(&shared)).unwrap();
        let erased: Arc<dyn Consumer> = Arc::new(Count::new());
        let erased = select(ENTRY).unwrap().attach(erased).unwrap();
        run(5);
        assert_eq!([boxed.counts().total(), erased.counts().total()], [5, 5], "tallied, not called");
        drop((boxed, erased, kept));
        run(1);
        assert_eq!(shared.latencies().function("patching::attaching::work").unwrap().calls(), 5);
    });
}

#[test]
fn slow_calls_are_said_with_their_fields() {
    #[probe(args(ms))]
    fn pause(ms: u64) {
        thread::sleep(Duration::from_millis(ms));
        run(1);
    }

    alone(|| {
        pause(0);
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        let slow = Slow::over(Duration::from_secs(3600)).to(|call| panic!("{call}"));
        let never = select("patching::attaching::**::pause, patching::attaching::work")
            .unwrap()
            .attach(slow)
            .unwrap();
        let slow = Slow::over(Duration::from_millis(20)).at_most(100);
        let slow =
            slow.to(move |call| kept.lock().unwrap().push((call.fields().to_owned(), call.to_string())));
        let slow = select("patching::attaching::**::pause, patching::attaching::work")
            .unwrap()
            .attach(slow)
            .unwrap();
        pause(0);
        pause(25);
        pause(40);
        let calls = slow.slow_calls();
        // A loaded machine may make others slow, too.
        let pauses = calls.iter().find(|it| it.path().ends_with("::pause")).unwrap();
        assert!(pauses.calls() == 3 && pauses.slow() >= 2 && pauses.longest() >= 40_000_000, "{calls}");
        let all: u64 = calls.iter().map(FunctionSlow::slow).sum();
        let said = said.lock().unwrap();
        assert_eq!(said.len() as u64 + calls.unsaid(), all);
        assert!(
            said.iter().any(|(fields, line)| fields == "ms = 25" && line.contains("::pause took ")),
            "{said:?}"
        );
        assert!(never.failure().is_none() && never.slow_calls().iter().all(|it| it.slow() == 0));
        let json: serde_json::Value = serde_json::from_str(&calls.to_json()).unwrap();
        assert_eq!((&json["consumer"], &json["rows"][0]["slow"]), (&"slow".into(), &calls[0].slow().into()));
    });
    let error = "a=slow(over=5)".parse::<Spec>().unwrap_err().to_string();
    assert!(error.contains("column 13: `5` is not a span of time; write `500ms`"), "{error}");
}

#[test]
fn counts_from_a_baseline_on() {
    alone(|| {
        let hits = select("patching::attaching::work, patching::attaching::rest kind=entry")
            .unwrap()
            .attach(Count::new())
            .unwrap();
        run(3);
        let before = hits.counts();
        run(2);
        rest();
        let now = hits.counts();
        let since = now.since(&before);
        assert_eq!((now.total(), before.total(), since.total()), (11, 6, 5));
        assert_eq!(since.hits("patching::attaching::work", Kind::Entry), Some(2));
        assert_eq!(since.hits("patching::attaching::rest", Kind::Entry), Some(1));
        assert_eq!(before.since(&now).total(), 0, "never negative");
        assert_eq!(now.since(&now).len(), now.len(), "all probes stay");
        // Of nothing, it is all.
        assert_eq!(now.since(&probe_runtime::count::Counts::default()), now);
    });
}

/// Two threads reset while two hit: each hit is told once.
#[test]
fn resets_lose_no_hit_and_repeat_none() {
    alone(|| {
        let hits = select("patching::attaching::work").unwrap().attach(Count::new()).unwrap();
        let working = AtomicU64::new(2);
        let work = || {
            run(300_000);
            working.fetch_sub(1, Relaxed);
        };
        let resets = || {
            let mut told = Vec::new();
            while working.load(Relaxed) != 0 {
                told.push(hits.reset());
            }
            told
        };
        let mut told = thread::scope(|scope| {
            let _workers = [(); 2].map(|()| scope.spawn(work));
            let resetters = [scope.spawn(resets), scope.spawn(resets)];
            resetters.into_iter().flat_map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        told.push(hits.reset());
        for kind in [Kind::Entry, Kind::Exit] {
            let all: u64 = told.iter().map(|it| it.hits("patching::attaching::work", kind).unwrap()).sum();
            assert_eq!(all, 600_000, "{kind}");
        }
        assert_eq!((hits.total(), hits.counts().len()), (0, 2));
    });
}

#[test]
fn counts_begin_again_at_a_reset() {
    alone(|| {
        let hits = select(ENTRY).unwrap().attach(Count::new()).unwrap();
        let other = select(ENTRY).unwrap().attach(Count::new()).unwrap();
        run(3);
        let first = hits.counts();
        assert_eq!(hits.reset(), first);
        assert_eq!((hits.total(), other.total()), (0, 3));
        run(2);
        let second = hits.counts();
        assert_eq!(second.total(), 2);
        assert!(hits.to_string().ends_with("     2"), "{hits}");
        // A look from before a reset is no part of one after it, nor is another attachment's.
        assert_eq!(second.since(&first).total(), 2);
        assert_eq!(second.since(&other.counts()).total(), 2);
        run(4);
        assert_eq!(hits.counts().since(&second).total(), 4);
        assert_eq!((hits.reset().total(), hits.reset().total(), other.reset().total()), (6, 0, 9));
        let start = |counts: &probe_runtime::count::Counts| {
            let json: serde_json::Value = serde_json::from_str(&counts.to_json()).unwrap();
            json["start"].as_str().unwrap().to_owned()
        };
        assert!(start(&first) < start(&second), "it begins at the reset");
    });
}
