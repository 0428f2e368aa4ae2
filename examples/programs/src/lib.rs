//! Real multithreaded programs whose own functions all have probes.
//!
//! | program | work | whose functions are |
//! |---|---|---|
//! | [`nbody`] | bodies that attract each other, step by step | tiny, called in a row |
//! | [`options`] | prices of options after Black and Scholes | short, floating-point |
//! | [`hull`] | convex hulls by quickhull | recursive, longer |
//! | [`json`] | a large JSON file, read by `serde_json` | visitors that the crate calls back |
//! | [`patterns`] | regular expressions, run over a real text by `regex` | around long calls of the crate |
//!
//! The result of each program is the same on every run, on any number of threads. Each program
//! knows how often it has called its functions. Examples show these programs, tests check probes
//! against them, and benchmarks measure with them.

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
    /// The name of the program and of its example.
    pub name: &'static str,
    /// Selects the probes of all its functions.
    pub probes: &'static str,
    /// The unit of work, in the plural.
    pub unit: &'static str,
    /// Work for about a tenth of a second.
    pub work: u64,
    /// Does this much work on this many threads, at least one.
    pub run: fn(work: u64, threads: usize) -> Done,
}

/// All programs.
pub const ALL: [Program; 5] =
    [nbody::PROGRAM, options::PROGRAM, hull::PROGRAM, json::PROGRAM, patterns::PROGRAM];

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The result, as one line of text.
    pub result: String,
    /// The paths of the called functions, relative to the program's module, and the number of their
    /// calls.
    pub calls: Vec<(&'static str, u64)>,
}

impl Done {
    /// Returns the number of calls of a function.
    pub fn calls_of(&self, function: &str) -> u64 {
        self.calls.iter().find(|(path, _)| *path == function).map_or(0, |(_, calls)| *calls)
    }
}

/// Returns the next pseudo-random number (xorshift64), the same on every run.
const fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Returns the initial state of a sequence of random numbers.
const fn seed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Runs `work` on this many threads; returns the result of each.
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
