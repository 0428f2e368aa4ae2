//! Real programs, of several threads, all of whose own functions have probes.
//!
//! | program | work | whose functions are |
//! |---|---|---|
//! | [`nbody`] | bodies that attract each other, step by step | tiny, called in a row |
//! | [`options`] | prices of options after Black and Scholes | short, floating-point |
//! | [`hull`] | convex hulls by quickhull | recursive, longer |
//! | [`json`] | a large JSON file, read by `serde_json` | visitors that the crate calls back |
//! | [`patterns`] | regular expressions, run over a real text by `regex` | around long calls of the crate |
//!
//! The result of each is the same on every run, on any number of threads, and each knows how often it has called its functions: examples
//! show it, tests hold probes against it, benchmarks measure with it.

mod command;
pub mod hull;
pub mod json;
pub mod nbody;
pub mod options;
pub mod patterns;

pub use command::main;

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, and that of the example.
    pub name: &'static str,
    /// Selects the probes of all its functions.
    pub probes: &'static str,
    /// What a unit of work is.
    pub unit: &'static str,
    /// As much work as takes a tenth of a second or so.
    pub work: u64,
    /// Does so much work on so many threads, at least one.
    pub run: fn(work: u64, threads: usize) -> Done,
}

/// All of them.
pub const ALL: [Program; 5] =
    [nbody::PROGRAM, options::PROGRAM, hull::PROGRAM, json::PROGRAM, patterns::PROGRAM];

/// What a program has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// What came of it.
    pub result: String,
    /// Its functions' paths, from the program's module on, and how often each was called; those that were not are left out.
    pub calls: Vec<(&'static str, u64)>,
}

impl Done {
    /// How often a function was called.
    pub fn calls_of(&self, function: &str) -> u64 {
        self.calls.iter().find(|(path, _)| *path == function).map_or(0, |(_, calls)| *calls)
    }
}

/// The next of a row of pseudo-random numbers (xorshift64), the same on every run.
const fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The beginning of the row of this number.
const fn seed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Does the same on so many threads; returns what came of each.
fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, T>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    })
}
