//! Replaces millions of instructions while other threads execute them in a loop.
//!
//! Each scenario runs in a child process: executors loop around generated instructions, while
//! patchers replace them. Every execution must have the effect of the old or the new instruction.
//! At the end, every byte of the code must be that of the last patch, and every toggle is counted.
//!
//! Scenarios play every split of every length, at the boundary of a word, a cache line, and a page;
//! with 2 to 16 executors; in text that is kept open, opened for each patch, or written by the
//! kernel.
//!
//! All scenarios together have five million toggles with `PROBE_TEST_WHOLE=1`. Without, they have
//! about an eightieth of that: two plays of each scenario if the code is optimised, else one.
//! `PROBE_STRESS_SEED` repeats a run; `PROBE_SOAK_TOGGLES` asks for more toggles,
//! `PROBE_SOAK_SECONDS` for more time.
//! A process of its own, and one for each scenario: a torn instruction ends in a signal.
#![cfg(not(probe_portable))]

mod arena;
mod call;
mod child;
mod code;
mod contention;
mod executors;
mod forms;
mod mixed;
mod random;
mod scenario;
mod tally;
mod teeth;
mod word;

use scenario::play;

macro_rules! scenarios {
    ($($name:ident: $part:literal $play:path;)*) => {
        $(
            #[test]
            fn $name() {
                child::run(stringify!($name));
            }
        )*

        /// The scenarios, which share the requested seconds.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// The scenarios of the children.
        #[test]
        #[ignore = "other tests play it, in children"]
        fn in_a_child() {
            let (scenario, seed) = child::scenario();
            match scenario.as_str() {
                $(stringify!($name) => play(stringify!($name), $part, seed, |it| $play(&it)),)*
                "torn" => play("torn", 0, seed, |it| teeth::torn(&it)),
                "illegal" => play("illegal", 0, seed, |it| teeth::illegal(&it)),
                other => panic!("no scenario {other}"),
            }
            println!("done: {scenario}");
        }
    };
}

// The number of toggles of each scenario.
scenarios! {
    word_synchronous: 300_000 word::synchronous;
    word_asynchronous: 900_000 word::asynchronous;
    word_strict: 40_000 word::strict;
    word_timed: 10_000 word::timed;
    word_contention: 20_000 contention::contention;
    calls: 3_020_000 call::calls;
    mixed: 1_000_000 mixed::mixed;
}
