//! Programs that pause, or whose threads end soon.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::probe;

use super::made::{compute, next};

pub mod pauses {
    use super::{Duration, Instant, black_box, compute, next, probe, thread};

    /// The length of the profiler's epoch.
    const PERIOD: Duration = Duration::from_millis(10);

    #[probe]
    fn read(state: u64) -> u64 {
        compute(20 + state % 64)
    }

    #[probe]
    fn write(state: u64) -> u64 {
        compute(200 + state % 128)
    }

    #[probe]
    fn sleep(until: Instant) {
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Works for some 3 ms.
    #[probe]
    fn batch(mut state: u64) -> u64 {
        for _ in 0..20_000 {
            state = next(state);
            black_box(if state.is_multiple_of(16) { write(state) } else { read(state) });
        }
        state
    }

    /// Works for 3 ms of each 10, and sleeps the rest.
    #[probe]
    pub fn run(work: u64) {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut until = Instant::now();
        for _ in 0..work {
            until += PERIOD;
            state = batch(state);
            sleep(until);
        }
    }
}

pub mod churn {
    use super::{black_box, compute, next, probe, thread};

    #[probe]
    #[inline(never)]
    fn hash(state: u64) -> u64 {
        black_box(state.wrapping_mul(0x5bd1_e995) ^ state >> 15)
    }

    #[probe]
    fn parse(state: u64) -> u64 {
        compute(20 + state % 32)
    }

    #[probe]
    fn job(number: u64) {
        let mut state = 2 * number + 1;
        for _ in 0..300 + 50 * (number % 8) {
            state = next(state);
            black_box(if state.is_multiple_of(4) { parse(state) } else { hash(state) });
        }
    }

    /// Runs four threads at a time, each for one job of some 20 µs.
    #[probe]
    pub fn run(work: u64) {
        for four in 0..10 * work {
            thread::scope(|scope| (0..4).for_each(|of| _ = scope.spawn(move || job(4 * four + of))));
        }
    }
}
