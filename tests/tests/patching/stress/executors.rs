//! Threads that execute functions in a tight loop while others patch them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use probe_tests::stops::Stops;

use super::code::Function;
use super::tally::{Register, Tally};

/// Rounds of each function in focus, in each pass of an executor.
const ROUNDS: u64 = 64;
/// Rounds of each other function, in turn.
const PASSING: u64 = 4;
/// The focus of a patcher that has chosen no function: executors execute all of them.
const ALL: usize = usize::MAX;

/// The executors, as patchers see them.
pub struct Executors<'a> {
    functions: &'a [Function],
    /// One for each executor and function.
    tallies: Vec<Vec<Tally>>,
    passes: Vec<AtomicU64>,
    focus: Vec<AtomicUsize>,
    /// Executors that never rest; the others leave the patchers some of the processors.
    restless: usize,
    stop: AtomicBool,
}

/// The effects of a function that all executors together have seen.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    pub rax: [u64; 3],
    pub rcx: [u64; 3],
    pub rounds: u64,
}

/// Runs `patch` on `patchers` threads while executors execute the functions. Returns the patchers'
/// results and the seen effects of each function. Panics if any execution has a wrong result.
pub fn while_executed<T: Send>(
    functions: &[Function],
    executors: usize,
    patchers: usize,
    patch: impl Fn(usize, &Executors<'_>) -> T + Sync,
) -> (Vec<T>, Vec<Seen>) {
    let all = Executors {
        functions,
        tallies: (0..executors).map(|_| functions.iter().map(|_| Tally::default()).collect()).collect(),
        passes: (0..executors).map(|_| AtomicU64::new(0)).collect(),
        focus: (0..patchers).map(|_| AtomicUsize::new(ALL)).collect(),
        restless: thread::available_parallelism().map_or(1, |processors| (processors.get() - 1).max(1)),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let stops = Stops(&all.stop);
        let (all, patch) = (&all, &patch);
        let executors: Vec<_> =
            (0..executors).map(|number| scope.spawn(move || all.execute(number))).collect();
        let patchers: Vec<_> = (0..patchers).map(|number| scope.spawn(move || patch(number, all))).collect();
        let results = patchers.into_iter().map(|patcher| patcher.join().unwrap()).collect();
        drop(stops);
        let rounds: Vec<_> = executors.into_iter().map(|executor| executor.join().unwrap()).collect();
        let seen = (0..functions.len()).map(|function| all.check(function, &rounds)).collect();
        (results, seen)
    })
}

impl Executors<'_> {
    /// Runs one executor until all patchers are done; returns the rounds of each function.
    fn execute(&self, number: usize) -> Vec<u64> {
        let mut rounds = vec![0; self.functions.len()];
        let mut next = number % self.functions.len();
        let mut run = |function: usize, times| {
            self.functions[function].run(times, &self.tallies[number][function]);
            rounds[function] += times;
        };
        while !self.stop.load(Ordering::Relaxed) {
            for focus in &self.focus {
                match focus.load(Ordering::Relaxed) {
                    ALL => (0..self.functions.len()).for_each(|function| run(function, PASSING)),
                    function => run(function, ROUNDS),
                }
            }
            run(next, PASSING);
            next = (next + 1) % self.functions.len();
            self.passes[number].fetch_add(1, Ordering::Release);
            if number >= self.restless {
                thread::sleep(Duration::from_micros(100));
            }
        }
        rounds
    }

    /// Makes executors execute one function for this patcher, instead of all of them.
    pub fn focus(&self, patcher: usize, function: usize) {
        self.focus[patcher].store(function, Ordering::Relaxed);
    }

    /// Waits until every executor has executed its functions, from the first instruction on.
    pub fn settle(&self) {
        let before: Vec<_> = self.passes.iter().map(|passes| passes.load(Ordering::Acquire)).collect();
        for (passes, before) in self.passes.iter().zip(before) {
            // The pass under way, and a whole one.
            while passes.load(Ordering::Acquire) < before + 2 {
                thread::yield_now();
            }
        }
    }

    /// Returns how often executors have seen each value of a register.
    pub fn seen(&self, function: usize, register: Register) -> [u64; 3] {
        sum(self.tallies.iter().map(|tallies| tallies[function].seen(register)))
    }

    /// Checks that every round of a function is counted, and that none had a wrong result.
    fn check(&self, function: usize, rounds: &[Vec<u64>]) -> Seen {
        for (tallies, rounds) in self.tallies.iter().zip(rounds) {
            let (tally, rounds) = (&tallies[function], rounds[function]);
            for register in [Register::Rax, Register::Rcx] {
                let (wrong, value) = tally.wrong(register);
                assert_eq!(wrong, 0, "function {function}: {register:?} was {value:#x}");
                let seen: u64 = tally.seen(register).iter().sum();
                assert!(
                    seen == 0 || seen == rounds,
                    "function {function}: {seen} of {rounds} rounds in {register:?}"
                );
            }
        }
        Seen {
            rax: self.seen(function, Register::Rax),
            rcx: self.seen(function, Register::Rcx),
            rounds: rounds.iter().map(|rounds| rounds[function]).sum(),
        }
    }
}

fn sum(counts: impl Iterator<Item = [u64; 3]>) -> [u64; 3] {
    counts.fold([0; 3], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1], sum[2] + counts[2]])
}
