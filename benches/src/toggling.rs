//! One thread toggles an instruction at a rate, and others execute it. The result is the number of
//! their calls.
//!
//! The patcher has the first processor to itself, and the executors share the others. If there are
//! fewer processors than threads, executors take turns; see [`is_crowded`].

use std::fmt;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::code::Patched;
use crate::ticks::{spin_until, ticks};
use crate::{monotonic_ns, pin, processors, thread_ns};

/// The rate of toggling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Times a second, evenly; 0 for never.
    PerSecond(u64),
    /// At full speed.
    FlatOut,
}

impl Rate {
    /// None, a thousand to a million a second in powers of ten, and full speed: from a profiler's
    /// rates to a stress test.
    pub const ALL: [Self; 6] = [
        Self::PerSecond(0),
        Self::PerSecond(1_000),
        Self::PerSecond(10_000),
        Self::PerSecond(100_000),
        Self::PerSecond(1_000_000),
        Self::FlatOut,
    ];
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerSecond(0) => f.pad("0"),
            Self::PerSecond(rate) if rate % 1_000_000 == 0 => f.pad(&format!("{}M", rate / 1_000_000)),
            Self::PerSecond(rate) => f.pad(&format!("{}k", rate / 1_000)),
            Self::FlatOut => f.pad("flat out"),
        }
    }
}

/// The results of one run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Calls a second, of all executors.
    pub calls_per_second: f64,
    /// Achieved toggles a second.
    pub toggles_per_second: f64,
    /// The mean of the calls' results.
    pub mean: f64,
    /// Whether each thread had its processor to itself for all but a fiftieth of the time.
    pub is_undisturbed: bool,
}

/// Returns whether executors have to share a processor.
pub fn is_crowded(executors: usize) -> bool {
    executors >= processors()
}

/// Calls between two checks of the stop flag: a third of a microsecond.
const CALLS: u64 = 256;

const READY: usize = 0;
const GO: usize = 1;
const STOP: usize = 2;

/// Keeps this thread on a processor for executors.
pub fn pin_executor(nth: usize) {
    pin(if processors() > 1 { 1 + nth % (processors() - 1) } else { 0 });
}

/// Repeats a run until it is undisturbed, so that a busy machine gives the results of an idle one.
/// There are a few attempts at most, and only one if executors are crowded, since those disturb
/// each other.
///
/// # Errors
/// The first error of `toggle`.
pub fn run_undisturbed<E>(
    code: Patched,
    executors: usize,
    rate: Rate,
    time: (u64, u64),
    mut toggle: impl FnMut(bool) -> Result<(), E>,
) -> Result<Run, E> {
    let mut tries = if is_crowded(executors) { 1 } else { TRIES };
    loop {
        let run = run(code, executors, rate, time, &mut toggle)?;
        tries -= 1;
        if run.is_undisturbed || tries == 0 {
            return Ok(run);
        }
    }
}

/// The largest number of attempts at an undisturbed run.
const TRIES: u32 = 5;

/// Runs executors for this many ticks, and calls `toggle` on this thread meanwhile with true,
/// false, true, …
///
/// # Errors
/// The first error of `toggle`, which ends the run.
pub fn run<E>(
    code: Patched,
    executors: usize,
    rate: Rate,
    (time, ticks_per_second): (u64, u64),
    mut toggle: impl FnMut(bool) -> Result<(), E>,
) -> Result<Run, E> {
    let phase = AtomicUsize::new(READY);
    let (ready, calls, sum) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let disturbed = AtomicBool::new(false);
    pin(0);
    let (toggles, elapsed, done) = thread::scope(|scope| {
        for nth in 0..executors {
            let (phase, ready, calls, sum, disturbed) = (&phase, &ready, &calls, &sum, &disturbed);
            scope.spawn(move || {
                pin_executor(nth);
                let (own_calls, own_sum, was_disturbed) = execute(code, phase, ready);
                disturbed.fetch_or(was_disturbed, Ordering::Relaxed);
                calls.fetch_add(own_calls, Ordering::Relaxed);
                sum.fetch_add(own_sum, Ordering::Relaxed);
            });
        }
        while ready.load(Ordering::Relaxed) < executors {
            thread::yield_now();
        }
        let own = OwnTime::start();
        phase.store(GO, Ordering::Relaxed);
        let start = ticks();
        let mut toggles = 0;
        let done = pace(rate, start, start + time, ticks_per_second, |on| {
            toggles += 1;
            toggle(on)
        });
        phase.store(STOP, Ordering::Relaxed);
        let elapsed = ticks() - start;
        disturbed.fetch_or(own.was_disturbed(), Ordering::Relaxed);
        (toggles, elapsed, done)
    });
    done?;
    let seconds = elapsed as f64 / ticks_per_second as f64;
    let (calls, sum) = (calls.into_inner() as f64, sum.into_inner() as f64);
    Ok(Run {
        calls_per_second: calls / seconds,
        toggles_per_second: f64::from(toggles) / seconds,
        mean: sum / calls.max(1.0),
        is_undisturbed: !disturbed.into_inner(),
    })
}

/// Calls until told to stop. Returns the number of calls since `GO`, the sum of their results, and
/// whether the thread was disturbed.
fn execute(code: Patched, phase: &AtomicUsize, ready: &AtomicUsize) -> (u64, u64, bool) {
    let function = black_box(code.function());
    let batch = || (0..CALLS).map(|_| u64::from(function())).sum::<u64>();
    batch();
    ready.fetch_add(1, Ordering::Relaxed);
    while phase.load(Ordering::Relaxed) == READY {
        spin_loop();
    }
    let (mut calls, mut sum, own) = (0, 0, OwnTime::start());
    while phase.load(Ordering::Relaxed) != STOP {
        sum += batch();
        calls += CALLS;
    }
    (calls, sum, own.was_disturbed())
}

/// A thread's share of its processor's time.
struct OwnTime {
    start: u64,
    own_start: u64,
}

impl OwnTime {
    fn start() -> Self {
        Self { start: monotonic_ns(), own_start: thread_ns() }
    }

    fn was_disturbed(&self) -> bool {
        let (all, own) = (monotonic_ns() - self.start, thread_ns() - self.own_start);
        own < all - all / 50
    }
}

/// Toggles at the rate, until `end`. Skips toggles that are late.
fn pace<E>(
    rate: Rate,
    start: u64,
    end: u64,
    ticks_per_second: u64,
    mut toggle: impl FnMut(bool) -> Result<(), E>,
) -> Result<(), E> {
    let period = match rate {
        Rate::PerSecond(0) => {
            spin_until(end);
            return Ok(());
        }
        Rate::PerSecond(rate) => ticks_per_second / rate,
        Rate::FlatOut => 0,
    };
    let (mut next, mut on) = (start + period, true);
    while next < end {
        spin_until(next);
        toggle(on)?;
        on = !on;
        next = (next + period).max(ticks());
    }
    spin_until(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Place, mov};

    #[test]
    fn toggles_alternate_at_the_rate() {
        let mut seen = Vec::new();
        let start = ticks();
        let toggle = |on| {
            seen.push(on);
            Ok::<_, ()>(())
        };
        assert_eq!(pace(Rate::PerSecond(1_000), start, start + 10, 1_000_000, toggle), Ok(()));
        assert!(seen.is_empty(), "the first period is longer");
        let mut left = 3;
        let toggle = |_| {
            left -= 1;
            if left == 0 { Err("over") } else { Ok(()) }
        };
        assert_eq!(pace(Rate::FlatOut, ticks(), u64::MAX, 1, toggle), Err("over"));
    }

    #[test]
    fn executors_return_the_values_of_the_site() {
        let code = Patched::new(Place::Aligned, |_| mov(7));
        let run = run(code, 2, Rate::PerSecond(0), (1_000_000, 1_000_000_000), |_| Ok::<_, ()>(())).unwrap();
        assert!((run.mean - 7.0).abs() < 1e-9 || run.calls_per_second < 1.0, "{run:?}");
        assert!(run.toggles_per_second < 1.0, "{run:?}");
    }

    #[test]
    fn rates_are_named_briefly() {
        assert_eq!(Rate::ALL.map(|rate| rate.to_string()).join(" "), "0 1k 10k 100k 1M flat out");
        assert_eq!(format!("{:>5}", Rate::PerSecond(1_000)), "   1k");
    }
}
