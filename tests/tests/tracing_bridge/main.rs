//! The bridge to `tracing`: subscribers get exact sequences of spans and events, whatever ends a
//! call. A process of its own: subscribers' interests are the whole process's.

mod asynchronous;
mod recorder;
mod subscribers;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};

use probe_runtime::spec::attach_spec;
use probe_runtime::tracing::tracing_core::Level;
use probe_runtime::tracing::tracing_core::dispatcher::with_default;
use probe_runtime::{Attachment, Tracing, probe, select};
use probe_tests::turn::turn;
use recorder::Recorder;

#[probe(args(n, ?text, negative, share, is_on), ret)]
#[inline(never)]
fn outer(n: u64, text: &str, negative: i32, share: f64, is_on: bool) -> Result<u64, String> {
    probe!("reached", half = n / 2, letter = 'é', bytes = text.as_bytes(), %text);
    inner(n);
    if n == 3 { Err("three".to_owned()) } else { Ok(n) }
}

#[probe]
#[inline(never)]
fn inner(n: u64) {
    assert_ne!(n, 13, "the call ends by a panic, as the test wants");
    if n > 100 {
        inner(n - 100);
    }
}

#[probe(group = "named")]
#[inline(never)]
fn named() {
    probe!("said", message = "its own text", other = 1_u8);
}

fn call(n: u64) -> Result<u64, String> {
    outer(n, "some\ntext", -1, 0.5, true)
}

fn attach(tracing: Tracing, selector: &str) -> Attachment<Tracing> {
    let _ = call(0);
    named();
    select(selector).unwrap().attach(tracing).unwrap()
}

const ALL: &str =
    "tracing_bridge::outer, tracing_bridge::inner, tracing_bridge::reached, tracing_bridge::outer::reached";

#[test]
fn calls_are_spans_and_points_are_events() {
    let _turn = turn();
    let shown = attach(Tracing::new(), ALL);
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || _ = call(7));
    drop(shown);
    assert_eq!(
        recorder.lines(),
        [
            r#"new 1 INFO tracing_bridge outer n=7 text="some\ntext" negative=-1 share=0.5 is_on=true"#,
            "enter 1",
            "event INFO tracing_bridge reached half=3 letter=é bytes=[73 6f 6d 65 0a 74 65 78 74] text=some\ntext",
            "new 2 INFO tracing_bridge inner",
            "enter 2",
            "exit 2",
            "close 2",
            "record 1 outcome=ok ret=Ok(7)",
            "exit 1",
            "close 1",
        ]
    );
}

#[test]
fn recursion_and_panics_leave_what_they_entered() {
    let _turn = turn();
    let shown = attach(Tracing::new(), "tracing_bridge::outer, tracing_bridge::inner");
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || {
        inner(201);
        assert!(catch_unwind(AssertUnwindSafe(|| call(13))).is_err());
        assert!(call(3).is_err());
    });
    let lines: Vec<_> =
        recorder.lines().iter().map(|line| line.split(" INFO").next().unwrap().to_owned()).collect();
    let expected = "new 1, enter 1, new 2, enter 2, new 3, enter 3, exit 3, close 3, exit 2, close 2, exit 1, close 1, \
                    new 4, enter 4, new 5, enter 5, exit 5, close 5, record 4 outcome=panic, exit 4, close 4, \
                    new 6, enter 6, new 7, enter 7, exit 7, close 7, record 6 outcome=err ret=Err(\"three\"), exit 6, close 6";
    assert_eq!(lines.join(", "), expected);
    let totals = shown.totals();
    assert_eq!((totals.spans, totals.events, totals.disabled, totals.unpaired), (7, 0, 0, 0));
    assert_eq!(shown.failure(), None);
}

#[test]
fn subscribers_get_what_they_want() {
    let _turn = turn();
    let shown = attach(Tracing::new().level(Level::DEBUG), ALL);
    // No subscriber, and then one for one callsite.
    let _ = call(7);
    assert_eq!((shown.totals().spans, shown.totals().disabled), (0, 3));
    let (recorder, subscriber) = Recorder::new(|metadata| metadata.name() == "inner");
    with_default(&subscriber, || _ = call(7));
    assert_eq!(recorder.lines(), ["new 1 DEBUG tracing_bridge inner", "enter 1", "exit 1", "close 1"]);
    let totals = shown.totals();
    assert_eq!((totals.spans, totals.events, totals.disabled), (1, 0, 5));
    // The subscriber is asked once for each callsite: it always gives the same answer.
    assert_eq!(recorder.asked(), 0);
    let (recorder, subscriber) = Recorder::sometimes(|metadata| !metadata.is_span());
    with_default(&subscriber, || _ = call(7));
    assert_eq!((recorder.lines().len(), recorder.asked()), (1, 3));
}

#[test]
fn callsites_are_made_once() {
    let _turn = turn();
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || {
        let registered: Vec<_> = (0..3)
            .map(|_| {
                drop(attach(Tracing::new(), "tracing_bridge::named"));
                recorder.registered()
            })
            .collect();
        assert_eq!(registered, [registered[0]; 3]);
    });
}

#[test]
fn probes_without_a_partner_are_events() {
    let _turn = turn();
    let shown = attach(Tracing::new(), "tracing_bridge::outer kind=exit, tracing_bridge::inner kind=entry");
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || _ = call(7));
    drop(shown);
    assert_eq!(
        recorder.lines(),
        [
            "event INFO tracing_bridge entry inner",
            "event INFO tracing_bridge exit outer outcome=ok ret=Ok(7)"
        ]
    );
}

#[test]
fn a_points_own_message_is_its_text() {
    let _turn = turn();
    let shown = attach(Tracing::new(), "group=named, tracing_bridge::**::said, tracing_bridge::said");
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, named);
    drop(shown);
    assert!(
        recorder.lines().contains(&"event INFO tracing_bridge its own text other=1".to_owned()),
        "{:?}",
        recorder.lines()
    );
}

#[test]
fn what_is_open_ends_with_the_consumer() {
    let _turn = turn();
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || {
        let mut shown = None;
        // Attached in the middle of a call, and detached in the middle of another one.
        around(|| shown = Some(attach_around()));
        around(|| drop(shown.take()));
    });
    assert_eq!(recorder.lines(), ["new 1 INFO tracing_bridge around", "enter 1", "exit 1", "close 1"]);
}

#[probe]
#[inline(never)]
fn around(run: impl FnOnce()) {
    run();
}

fn attach_around() -> Attachment<Tracing> {
    select("tracing_bridge::around").unwrap().attach(Tracing::new()).unwrap()
}

#[test]
fn calls_from_before_and_switched_sites_are_counted() {
    let _turn = turn();
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || {
        let mut shown = None;
        around(|| shown = Some(attach_around()));
        let shown = shown.unwrap();
        assert_eq!(shown.totals().unpaired, 1);
        around(|| {
            shown.pause();
            shown.resume();
        });
        assert_eq!(shown.totals().unpaired, 3);
        around(|| ());
    });
    let ends = "new 1, enter 1, exit 1, close 1, new 2, enter 2, exit 2, close 2";
    let lines: Vec<_> =
        recorder.lines().iter().map(|line| line.split(" INFO").next().unwrap().to_owned()).collect();
    assert_eq!(lines.join(", "), ends);
}

#[test]
fn specs_name_it() {
    let _turn = turn();
    let _ = call(0);
    let attached = attach_spec("tracing_bridge::inner=tracing(level=warn)").unwrap();
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || inner(1));
    assert_eq!(recorder.lines()[0], "new 1 WARN tracing_bridge inner");
    assert_eq!(
        attached[0].to_string(),
        "spans: 1, events: 0, not wanted by the subscriber: 0, without a partner: 0"
    );
    for level in ["loud", "", "3"] {
        let error = attach_spec(&format!("a=tracing(level={level})")).unwrap_err().to_string();
        let problem =
            format!("column 17: `{level}` is not a level; there are trace, debug, info, warn and error");
        assert!(error.contains(&problem), "{error}");
    }
}

#[test]
fn it_is_attached_once() {
    let _turn = turn();
    let shown = std::sync::Arc::new(Tracing::new());
    let set = select("tracing_bridge::named").unwrap();
    let first = set.attach(std::sync::Arc::clone(&shown)).unwrap();
    let error = set.attach(shown).unwrap_err();
    assert!(error.to_string().contains("can be attached only once"), "{error}");
    drop(first);
}
