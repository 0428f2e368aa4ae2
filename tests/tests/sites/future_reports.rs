//! The three reports of calls mean the same by a call of a future, and by its polls. A process of
//! its own: all probes of it are attached for good.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use probe_report::Time;
use probe_runtime::call_tree::TreeNode;
use probe_runtime::profile::Budget;
use probe_runtime::{CallTree, Latency, Profiler, probe, select};

/// Two waits, three polls.
#[probe]
async fn answer() {
    for _ in 0..2 {
        let mut is_second = false;
        poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }
}

#[probe]
fn poll(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_call_is_all_of_its_polls_in_each_report() {
    let set = select("sites::future_reports::answer, sites::future_reports::poll").unwrap();
    let latency = set.attach(Latency::new()).unwrap();
    let calls = set.attach(CallTree::new()).unwrap();
    let profiler = set.attach(Profiler::new().stepped().budget(Budget::UNLIMITED)).unwrap();
    for _ in 0..20 {
        let mut future = pin!(answer());
        while !poll(future.as_mut()) {}
    }
    // One more that does not end.
    assert!(!poll(pin!(answer())));

    let latencies = latency.latencies();
    let answer = latencies.function("sites::future_reports::answer").unwrap();
    assert_eq!((answer.calls(), answer.polls(), answer.unpaired().cancelled), (20, 61, 1));
    assert_eq!(latencies.function("sites::future_reports::poll").unwrap().polls(), 0);
    let table = latencies.to_string();
    let heading: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heading[1..4], ["calls", "self", "total"], "{table}");
    assert_eq!(heading[8..10], ["polls", "elapsed"], "{table}");
    // The time of polls, as in a call tree.
    let row = table.lines().find(|it| it.contains("::answer")).unwrap();
    let total = Time(answer.busy()).to_string();
    assert_eq!(row.split("  ").filter(|it| !it.is_empty()).nth(3).unwrap().trim(), total, "{table}");

    let tree = calls.tree();
    let of = |name| -> &TreeNode { tree.iter().find(|node| node.name().ends_with(name)).unwrap() };
    assert_eq!((of("::answer").calls(), of("::answer").polls(), of("::answer").depth()), (20, 61, 1));
    assert_eq!((of("::poll").calls(), of("::poll").polls()), (61, 0));
    assert!(tree.to_string().contains("  calls  polls  call tree"), "{tree}");

    // It counts calls that began.
    let profile = profiler.profile();
    let answer = profile.function("sites::future_reports::answer").unwrap();
    let polls = answer.polls().unwrap();
    assert!((polls.value, polls.error) == (61.0, 0.0), "{polls:?}\n{profile}");
    let calls = answer.calls();
    assert!((calls.value - 21.0).abs() < 1e-9 && calls.error == 0.0, "{calls:?}\n{profile}");
    let (mean, total) = (answer.mean().unwrap(), answer.total().unwrap());
    assert!((mean.value * 21.0 / total.value - 1.0).abs() < 1e-6, "{mean:?} {total:?}");
    assert_eq!(profile.function("sites::future_reports::poll").unwrap().polls(), None);
    assert!(profile.to_string().lines().next().unwrap().trim_end().ends_with("polls  ±"), "{profile}");
}
