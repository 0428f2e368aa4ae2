//! The amount of work: everything under `cargo bench`, a little of it under `cargo test`.

use std::env;

/// Whether this build patches sites, so that there is something to measure.
pub const IS_PATCHED: bool =
    cfg!(all(target_arch = "x86_64", target_os = "linux", not(probe_off), not(probe_portable)));

/// The number of times that a bench runs its cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// `cargo bench`: real measurements.
    Full,
    /// `cargo test --benches`: a check that the bench works.
    Smoke,
}

impl Scale {
    /// Returns the scale that cargo requests: it passes `--bench` to a benchmark, and nothing to a
    /// test.
    pub fn from_args() -> Self {
        if env::args().any(|arg| arg == "--bench") { Self::Full } else { Self::Smoke }
    }

    /// Returns `full`, or a small part of it.
    pub fn of(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Smoke => full.min(3),
        }
    }
}
