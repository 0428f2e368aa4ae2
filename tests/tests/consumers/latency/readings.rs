//! Several readings of one attachment, with resets in between.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use probe_runtime::consumer::Clock;
use probe_runtime::latency::{FunctionLatency, Latencies};
use probe_runtime::{Latency, probe, select};
use probe_tests::scenario::in_a_child;

use crate::latency::spin;

#[probe]
#[inline(never)]
fn raced(ticks: u64) -> u64 {
    spin(Clock::new(), ticks)
}

#[probe]
#[inline(never)]
fn reset(ticks: u64) -> u64 {
    spin(Clock::new(), ticks)
}

#[probe]
#[inline(never)]
fn compared(ticks: u64) -> u64 {
    spin(Clock::new(), ticks)
}

/// Two threads reset while three call. The results of all resets add up to all calls, in each
/// bucket; so do the differences of successive readings.
#[test]
fn resets_lose_no_call_and_repeat_none() {
    let set = select("consumers::latency::readings::raced").unwrap();
    let (latency, whole) = (set.attach(Latency::new()).unwrap(), set.attach(Latency::new()).unwrap());
    let (mut told, mut before) = (Vec::new(), whole.latencies());
    let working = AtomicUsize::new(3);
    let calls = || {
        (0..10_000).for_each(|n| _ = raced(n % 50));
        working.fetch_sub(1, Relaxed);
    };
    let is_done = || working.load(Relaxed) == 0;
    thread::scope(|scope| {
        let workers = [(); 3].map(|()| scope.spawn(calls));
        let resets = || {
            let mut told = Vec::new();
            while !is_done() {
                told.push(latency.reset());
            }
            told
        };
        let resetters = [scope.spawn(resets), scope.spawn(resets)];
        let mut since = 0;
        while !is_done() {
            let now = whole.latencies();
            since += now.since(&before)[0].calls();
            before = now;
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        since += whole.latencies().since(&before)[0].calls();
        assert_eq!(since, 30_000);
        resetters.into_iter().for_each(|resetter| told.extend(resetter.join().unwrap()));
    });
    told.push(latency.reset());
    assert_eq!(told.iter().map(|it| it[0].calls()).sum::<u64>(), 30_000);
    let counted = |it: &Latencies| it[0].buckets().iter().map(|(_, calls)| calls).sum::<u64>();
    assert_eq!(told.iter().map(counted).sum::<u64>(), 30_000);
    let sums = |of: fn(&FunctionLatency) -> u64| told.iter().map(|it| of(&it[0])).sum::<u64>();
    // Each sum is rounded to nanoseconds, with the clock's rate known at that time.
    let (own, total) = (sums(FunctionLatency::own), sums(FunctionLatency::total));
    assert!(total > 0 && own.abs_diff(total) <= told.len() as u64, "{own} {total}");
    assert_eq!(latency.latencies()[0].calls(), 0);
    assert_eq!(latency.latencies().to_string().lines().count(), 1, "none was called since");
}

#[test]
fn what_is_read_after_a_reset_is_what_came_after_it() {
    let latency = select("consumers::latency::readings::reset").unwrap().attach(Latency::new()).unwrap();
    reset(20_000_000);
    let first = latency.latencies();
    assert_eq!(latency.reset(), first, "all so far");
    let nothing = latency.latencies();
    let function = &nothing[0];
    assert_eq!((function.calls(), function.total(), function.own(), function.busy()), (0, 0, 0, 0));
    assert_eq!((function.min(), function.max(), function.quantile(0.5)), (0, 0, 0));
    assert!(function.buckets().is_empty() && function.histogram().is_empty());
    let spun = (0..100).map(|n| reset(1_000 + n)).sum::<u64>();
    let spun = Clock::new().scale().nanoseconds(spun);
    let second = latency.latencies();
    let function = &second[0];
    assert_eq!((function.calls(), function.histogram().len()), (100, 100));
    assert!(function.total() >= spun - spun / 10_000 && function.total() == function.own());
    let times = [function.min(), function.quantile(0.0), function.quantile(0.5), function.quantile(1.0)];
    assert!(times.is_sorted() && times[3] <= function.max(), "{times:?} {function:?}");
    assert!(function.min() <= function.mean() && function.mean() <= function.max());
    // On a busy machine, one of these calls may be the longest of all.
    let is_bound = function.max() <= first[0].max();
    let table = latency.to_string();
    assert_eq!(table.contains("  ≤ "), is_bound, "{table}");
    // A reading before the reset is not subtracted from one after it, nor another attachment's.
    assert_eq!(second.since(&first), second);
    let other = select("consumers::latency::readings::reset").unwrap().attach(Latency::new()).unwrap();
    assert_eq!(other.latencies().since(&first)[0].calls(), 0);
    // A forked child continues from these counts, without a change to the parent's.
    let status = in_a_child(|| {
        reset(1);
        assert_eq!((latency.reset()[0].calls(), latency.reset()[0].calls()), (101, 0));
    });
    assert_eq!((status, latency.latencies()[0].calls()), (0, 100));
}

#[test]
fn differences_are_those_of_the_calls_in_between() {
    let latency = select("consumers::latency::readings::compared").unwrap().attach(Latency::new()).unwrap();
    let scale = || Clock::new().scale();
    compared(3_000_000);
    let before = latency.latencies();
    let mut read: Vec<_> = (0..1_000).map(|n| compared(1_000 + 40 * n)).collect();
    let now = latency.latencies();
    compared(1);
    let since = now.since(&before);
    read.sort_unstable();
    let function = since.function("consumers::latency::readings::compared").unwrap();
    assert_eq!((now[0].calls(), function.calls()), (1_001, 1_000));
    assert!(now[0].total() >= before[0].total() + function.total() - 2);
    // The time measured inside of a call is less than the call's; most calls are not interrupted.
    for (part, rank) in [(0.1, 99), (0.25, 249), (0.5, 499)] {
        let least = scale().nanoseconds(read[rank]);
        assert!(function.quantile(part) >= least - least / 50, "{part}: {least} {function:?}");
    }
    let least = scale().nanoseconds(read[0]);
    assert!(function.min() >= least - least / 30 && function.max() >= scale().nanoseconds(read[999]) - 1);
    let json = since.to_json();
    assert!(json.contains("\"calls\":1000,") && json.contains("\"consumer\":\"latency\""), "{json}");
    assert_eq!(before.since(&now)[0].calls(), 0, "never negative");
    assert_eq!(now.since(&Latencies::default()), now);
}

/// Buckets have numbers, so that two readings can be compared although a tick's length is known
/// more exactly later.
#[test]
fn buckets_are_in_json_where_they_are_asked_for() {
    #[probe]
    #[inline(never)]
    fn bucketed() {}
    bucketed();
    let asked = "**::bucketed=latency(buckets), **::bucketed=latency";
    let attached = probe_runtime::spec::attach_spec(asked).unwrap();
    (0..100).for_each(|_| bucketed());
    let rows = [0, 1].map(|at| {
        let json: serde_json::Value = serde_json::from_str(&attached[at].to_json()).unwrap();
        json["rows"][0].clone()
    });
    let buckets = rows[0]["buckets"].as_array().unwrap();
    let of = |name: &str| buckets.iter().map(|it| it[name].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((of("calls").iter().sum::<u64>(), &rows[0]["calls"]), (100, &100.into()));
    assert!(of("bucket").is_sorted() && of("time_ns").is_sorted(), "{buckets:?}");
    assert!(rows[1].get("buckets").is_none());
    let error = probe_runtime::spec::attach_spec("**::bucketed=latency(buckets=1)").unwrap_err().to_string();
    assert!(error.contains("`buckets` has no value; write `latency(buckets)`"), "{error}");
}
