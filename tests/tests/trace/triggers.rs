//! Triggers: what a long call sets off.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use probe_runtime::{Attachment, Trace, Trigger, probe, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;

#[probe(args(*))]
#[inline(never)]
fn query(number: u64) -> u64 {
    black_box(number)
}

#[probe]
#[inline(never)]
fn beside() {
    black_box(());
}

/// Every call takes longer.
const ALL: Duration = Duration::ZERO;
/// No call takes longer, and no rest ends.
const NEVER: Duration = Duration::from_secs(3600);

fn attach(trigger: Trigger) -> Attachment<Trigger> {
    query(0);
    select("**::triggers::query").unwrap().attach(trigger).unwrap()
}

/// The paths of the calls that triggered.
fn told(limit: Duration) -> (Trigger, Receiver<String>) {
    let (sender, receiver) = channel();
    (Trigger::over(limit, move |call| sender.send(call.path().to_owned()).unwrap()), receiver)
}

#[test]
fn a_long_call_runs_the_action_and_those_during_its_rest_are_counted() {
    let _turn = turn();
    let (trigger, told) = told(ALL);
    let trigger = attach(trigger.rest(NEVER));
    (0..5).for_each(|number| _ = query(number));
    assert_eq!(told.recv().unwrap(), "trace::triggers::query");
    (0..5).for_each(|number| _ = query(number));
    assert_eq!(trigger.ignored(), 9);
    // Dropping does not wait for the rest.
    drop(trigger);
    assert!(told.recv().is_err());
}

#[test]
fn short_calls_run_nothing() {
    let _turn = turn();
    let (trigger, told) = told(NEVER);
    let trigger = attach(trigger);
    (0..1000).for_each(|number| _ = query(number));
    assert_eq!(trigger.ignored(), 0);
    drop(trigger);
    assert!(told.recv().is_err());
}

#[test]
fn a_snapshot_has_the_calls_before() {
    let _turn = turn();
    let folder = Folder::new("trace-trigger");
    let path = folder.join("slow.probetrace");
    query(0);
    let recorder = Arc::new(select("**::triggers::query").unwrap().attach(Trace::recorder()).unwrap());
    (1..=10).for_each(|number| _ = query(number));
    let (sender, done) = channel();
    let (of_action, to) = (Arc::clone(&recorder), path.clone());
    let trigger = attach(Trigger::over(ALL, move |call| {
        assert!(call.thread() > 0 && call.elapsed() > Duration::ZERO);
        sender.send(of_action.snapshot(&to).unwrap()).unwrap();
    }));
    query(11);
    let totals = done.recv().unwrap();
    drop(trigger);
    let entries: Vec<_> = super::events(&path)
        .iter()
        .filter_map(|event| event.fields.first().map(ToString::to_string))
        .collect();
    let expected: Vec<_> = (1..=10).chain([0, 11]).map(|number: u64| number.to_string()).collect();
    assert_eq!((entries, totals.lost), (expected, 0));
}

#[test]
fn an_action_attaches_more_for_a_while() {
    let _turn = turn();
    let folder = Folder::new("trace-trigger-more");
    let path = folder.join("more.probetrace");
    let (sender, done) = channel();
    let to = path.clone();
    beside();
    let trigger = attach(
        Trigger::over(ALL, move |_| {
            let more = select("**::triggers::beside").unwrap().attach(Trace::recorder()).unwrap();
            while more.totals().written < 20 {
                thread::yield_now();
            }
            sender.send(more.snapshot(&to).unwrap().written).unwrap();
        })
        .rest(NEVER),
    );
    query(1);
    let written = loop {
        beside();
        if let Ok(written) = done.try_recv() {
            break written;
        }
    };
    drop(trigger);
    assert!(written >= 20);
    assert!(super::events(&path).len() >= 20);
}

#[test]
fn a_panic_ends_one_run() {
    let _turn = turn();
    let (sender, runs) = channel();
    let mut number = 0;
    let trigger = attach(
        Trigger::over(ALL, move |_| {
            number += 1;
            sender.send(number).unwrap();
            assert_ne!(number, 1, "the first run panics, as the test wants");
        })
        .rest(Duration::ZERO),
    );
    let mut seen = Vec::new();
    while seen.len() < 3 {
        query(1);
        seen.extend(runs.try_recv());
    }
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(trigger.failure(), None);
}

#[test]
fn an_action_may_drop_its_own_trigger() {
    let _turn = turn();
    let own: Arc<Mutex<Option<Attachment<Trigger>>>> = Arc::default();
    let (sender, done) = channel();
    let of_action = Arc::clone(&own);
    let trigger = attach(Trigger::over(ALL, move |_| {
        let attached = loop {
            if let Some(attached) = of_action.lock().unwrap().take() {
                break attached;
            }
        };
        drop(attached);
        sender.send(()).unwrap();
    }));
    *own.lock().unwrap() = Some(trigger);
    query(1);
    done.recv().unwrap();
}

#[test]
fn a_forked_child_has_no_trigger_and_the_parent_keeps_its_own() {
    let _turn = turn();
    let (trigger, told) = told(ALL);
    let trigger = attach(trigger);
    // SAFETY: the child takes no lock of another thread's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        query(1);
        let is_detached = trigger.failure().is_some_and(|why| why.contains("fork"));
        drop(trigger);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_detached)) };
    }
    let mut status = -1;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    query(2);
    assert_eq!(told.recv().unwrap(), "trace::triggers::query");
}
