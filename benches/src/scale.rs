//! How much is run: everything under `cargo bench`, a taste of it under `cargo test`.

use std::env;

/// Whether sites are patched in this build, so that there is something to measure.
pub const IS_PATCHED: bool =
    cfg!(all(target_arch = "x86_64", target_os = "linux", not(probe_off), not(probe_portable)));

/// How often a bench runs its cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// `cargo bench`: figures that mean something.
    Full,
    /// `cargo test --benches`: that it works.
    Smoke,
}

impl Scale {
    /// What cargo asks for: it passes `--bench` to a benchmark, and nothing to a test.
    pub fn from_args() -> Self {
        if env::args().any(|arg| arg == "--bench") { Self::Full } else { Self::Smoke }
    }

    /// The number asked for, or a taste of it.
    pub fn of(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Smoke => full.min(3),
        }
    }
}
