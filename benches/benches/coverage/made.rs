//! Programs with call patterns that are hard to estimate. Each does the same on every run.

use std::hint::black_box;
use std::thread;

use probe_runtime::probe;

/// Computes for about two nanoseconds a step, without a probe.
pub fn compute(steps: u64) -> u64 {
    (0..steps).fold(black_box(0x9e37_79b9_7f4a_7c15), |state: u64, _| next(state))
}

/// Returns the next pseudo-random number (xorshift64).
pub fn next(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ state << 17
}

pub mod bursts {
    use super::{black_box, compute, probe};

    #[probe]
    #[inline(never)]
    fn burst(x: u64) -> u64 {
        black_box(x.wrapping_mul(0x5bd1_e995) ^ x >> 15)
    }

    #[probe]
    fn steady() -> u64 {
        compute(20_000)
    }

    #[probe]
    fn calm(steps: u64) {
        (0..steps).for_each(|_| _ = black_box(steady()));
    }

    /// Makes a million calls in two bursts, with even work before, between and after.
    #[probe]
    pub fn run(work: u64) {
        calm(25 * work);
        for _ in 0..2 {
            (0..5_000 * work).for_each(|x| _ = burst(x));
            calm(25 * work);
        }
    }
}

pub mod phases {
    use super::{black_box, compute, next, probe};

    #[probe]
    fn read() -> u64 {
        compute(60)
    }

    #[probe]
    fn sort() -> u64 {
        compute(150)
    }

    #[probe]
    fn write() -> u64 {
        compute(30)
    }

    #[probe]
    fn check() -> u64 {
        compute(20)
    }

    #[probe]
    fn phase(work: u64, hot: u64) {
        let mut state = hot + 1;
        for _ in 0..work {
            state = next(state);
            // One call in 256 goes to another phase's function.
            let which = if state.is_multiple_of(256) { state / 256 } else { hot };
            black_box(match which % 3 {
                0 => read(),
                1 => sort(),
                _ => write(),
            });
            if state.is_multiple_of(7) {
                black_box(check());
            }
        }
    }

    /// Calls another function often in each third of the time.
    #[probe]
    pub fn run(work: u64) {
        (0..3).for_each(|hot| phase(6_000 * work / (1 + hot % 2), hot));
    }
}

pub mod startup {
    use super::{black_box, compute, probe};

    #[probe]
    fn parse(line: u64) -> u64 {
        compute(20 + line % 50)
    }

    #[probe]
    fn insert(value: u64) -> u64 {
        compute(10 + value % 5)
    }

    #[probe]
    fn load(file: u64) {
        for line in 0..500 {
            let value = black_box(parse(file * line));
            if value.is_multiple_of(2) || line.is_multiple_of(3) {
                black_box(insert(value));
            }
        }
    }

    /// Makes all calls in the first tenth of the time.
    pub fn run(work: u64) {
        (0..6 * work).for_each(load);
        black_box(compute(2_500_000 * work));
    }
}

pub mod recursion {
    use super::{black_box, probe};

    #[probe]
    #[inline(never)]
    fn deep(depth: u64) -> u64 {
        if depth == 0 { 0 } else { black_box(deep(depth - 1)) + depth }
    }

    #[probe]
    #[inline(never)]
    fn is_even(number: u64) -> bool {
        number == 0 || black_box(is_odd(number - 1))
    }

    #[probe]
    #[inline(never)]
    fn is_odd(number: u64) -> bool {
        number != 0 && black_box(is_even(number - 1))
    }

    #[probe]
    #[inline(never)]
    fn fibonacci(n: u64) -> u64 {
        if n < 2 { n } else { black_box(fibonacci(n - 1)) + fibonacci(n - 2) }
    }

    /// Recurses in three ways: ten thousand frames deep, mutually, and in a tree.
    #[probe]
    pub fn run(work: u64) {
        for round in 0..work {
            black_box(deep(black_box(10_000)));
            black_box(is_even(black_box(2_000 + round)));
            black_box(fibonacci(black_box(20)));
        }
    }
}

pub mod mixture {
    use super::{black_box, compute, next, probe, thread};

    #[probe]
    fn tiny() -> u64 {
        compute(5)
    }

    #[probe]
    fn short() -> u64 {
        compute(60)
    }

    #[probe]
    fn middling() -> u64 {
        compute(2_000)
    }

    #[probe]
    fn long() -> u64 {
        compute(100_000)
    }

    #[probe]
    fn rare() -> u64 {
        compute(50)
    }

    #[probe]
    fn one_thread(steps: u64, number: u64) {
        let mut state = 2 * number + 1;
        for _ in 0..steps {
            state = next(state);
            black_box(match state / 2 % 10_000 {
                0..7_000 => tiny(),
                7_000..9_900 => short(),
                9_900..9_990 => middling(),
                9_990..9_993 => long(),
                9_993..9_994 => rare(),
                _ => continue,
            });
        }
    }

    /// Makes calls of 10 ns to 200 µs in a random order, at even rates.
    #[probe]
    pub fn run(work: u64, threads: u64) {
        thread::scope(|scope| {
            for number in 0..threads {
                scope.spawn(move || one_thread(5_000 * work / threads, number));
            }
        });
    }
}
