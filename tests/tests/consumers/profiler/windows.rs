//! Windows, while the test's clock runs, and polls are made when they are due.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use probe_runtime::profile::{Budget, Estimated};
use probe_runtime::{Profiler, probe};

use super::{ALONE, LATER, NOW, around, cold, exactly, hot, now, pass, profiled};

/// Polls whenever that is due.
struct Polls<'a> {
    profiler: &'a Profiler,
    due: Cell<u64>,
}

impl<'a> Polls<'a> {
    fn at(profiler: &'a Profiler) -> Self {
        Self { profiler, due: Cell::new(now()) }
    }

    fn poll(&self) {
        if now() >= self.due.get() {
            self.due.set(now() + u64::try_from(self.profiler.poll().as_nanos()).unwrap());
        }
    }

    /// Calls for this many seconds, of a clock that nobody else moves: calls of this length, with
    /// such pauses. Returns how many.
    fn calls(&self, seconds: u64, length: u64, pause: u64) -> u64 {
        let (end, mut calls) = (now() + seconds * 1_000_000_000, 0);
        while now() < end {
            hot(length);
            pass(pause);
            calls += 1;
            self.poll();
        }
        calls
    }
}

#[test]
fn what_is_too_much_for_the_budget_is_estimated_from_windows() {
    let _alone = ALONE.lock().unwrap();
    NOW.store(LATER, Relaxed);
    let budget = Budget::calls_per_second(1000.0);
    let profiler = profiled("consumers::profiler::hot", Profiler::with_clock(now).stepped().budget(budget));
    // 100,000 a second.
    let truth = Polls::at(&profiler).calls(20, 10_000, 0);
    let profile = profiler.profile();
    let of_hot = &profile[0];
    let Estimated { value, error } = of_hot.calls();
    let truth = truth as f64;
    assert!((value - truth).abs() <= error && error < 0.1 * truth, "{value} ± {error}, not {truth}");
    // A window has a hundred calls at most, and is paid for.
    assert!((100..20_000).contains(&of_hot.counted()), "{profiler}");
    assert!(profile.cost().calls < 20_000, "{profiler}");
    let mean = of_hot.mean().unwrap();
    // Longer calls may have been missed by this many windows.
    assert!((mean.value - 10_000.0).abs() < 1e-6 && mean.error < 1000.0, "{mean:?}");
    let own = of_hot.own().unwrap().value;
    assert!((own / (10_000.0 * value) - 1.0).abs() < 1e-6, "{own}");
}

/// Three polls, of which the last one is the longest.
#[probe]
async fn thrice(length: u64) {
    for _ in 0..2 {
        pass(length);
        let mut is_second = false;
        poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }
    pass(2 * length);
}

#[test]
fn calls_of_a_future_are_estimated_as_those_of_functions() {
    let _alone = ALONE.lock().unwrap();
    NOW.store(LATER, Relaxed);
    let budget = Budget::calls_per_second(1000.0);
    let profiler = Profiler::with_clock(now).stepped().budget(budget);
    let profiler = profiled("consumers::profiler::windows::thrice", profiler);
    let polls = Polls::at(&profiler);
    let (end, mut truth) = (now() + 20_000_000_000, 0.0);
    while now() < end {
        let mut future = pin!(thrice(2_500));
        while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            polls.poll();
        }
        truth += 1.0;
        polls.poll();
    }
    let profile = profiler.profile();
    let of_calls = profile[0].calls();
    let is_near = |it: Estimated, truth: f64| (it.value - truth).abs() <= it.error && it.error < 0.15 * truth;
    assert!(!of_calls.is_exact() && is_near(of_calls, truth), "{of_calls:?}, not {truth}");
    let of_polls = profile[0].polls().unwrap();
    assert!(is_near(of_polls, 3.0 * truth), "{of_polls:?}, not {}", 3.0 * truth);
    let mean = profile[0].mean().unwrap();
    assert!((mean.value - 10_000.0).abs() <= mean.error && mean.error < 2_500.0, "{mean:?}");
    assert!((profile[0].rate() / (truth / 20.0) - 1.0).abs() < 0.15, "{profiler}");
}

#[test]
fn a_burst_of_calls_that_are_timed_each_is_noticed() {
    let _alone = ALONE.lock().unwrap();
    NOW.store(LATER, Relaxed);
    let budget = Budget::calls_per_second(1000.0);
    let profiler = profiled("consumers::profiler::hot", Profiler::with_clock(now).stepped().budget(budget));
    let polls = Polls::at(&profiler);
    // Seldom called, it is timed at each call; and a long time from one survey to the next.
    polls.calls(20, 10_000, 100_000_000);
    let before = profiler.profile()[0].samples();
    assert!(before > 150, "{profiler}");
    // For two seconds, a million times a second.
    polls.calls(2, 1000, 0);
    let samples = profiler.profile()[0].samples() - before;
    // Until the next survey.
    assert!((1000..500_000).contains(&samples), "{profiler}");
}

#[test]
fn what_is_inside_of_calls_is_not_their_own() {
    let _alone = ALONE.lock().unwrap();
    NOW.store(LATER, Relaxed);
    let budget = Budget::calls_per_second(300_000.0);
    let profiler = profiled("consumers::profiler::*", Profiler::with_clock(now).stepped().budget(budget));
    let polls = Polls::at(&profiler);
    // `around` is timed at each call, 36 a second; the others are called 39,000 times each, and
    // timed in windows.
    for round in 0..500_000 {
        if round % 1000 == 0 {
            // As windows are anywhere. Not before it is timed: of a call that has begun by then,
            // nothing tells how long it took.
            let poll = || _ = (round > 50_000).then(|| polls.poll());
            around(&|| {
                (0..800).for_each(|_| {
                    pass(10_000);
                    poll();
                });
                (0..100).for_each(|_| {
                    cold();
                    poll();
                });
            });
        }
        cold();
        pass(18_999);
        polls.poll();
    }
    let profile = profiler.profile();
    let own = |path: &str| profile.function(path).unwrap().own().unwrap();
    let calls = |path: &str| profile.function(path).unwrap().calls();
    assert_eq!(
        ["consumers::profiler::cold", "consumers::profiler::around"].map(calls),
        [exactly(550_000.0), exactly(500.0)]
    );
    assert!((own("consumers::profiler::cold").value / 5.5e8 - 1.0).abs() < 1e-3, "{profiler}");
    // Calls of a nanosecond: longer ones may have been missed by this many windows.
    let of_hot = own("consumers::profiler::hot");
    assert!(of_hot.is_at_least() && (0.9..=1.0).contains(&(of_hot.value / 5.5e5)), "{profiler}");
    // Windows tell how much of its time is in calls.
    let of_around = own("consumers::profiler::around");
    assert!((of_around.value - 4e9).abs() <= of_around.error && of_around.error < 1e9, "{profiler}");
}
