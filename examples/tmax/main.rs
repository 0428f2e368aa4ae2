//! How long must a patcher wait? Calibrates `T_max` for this machine, as "Living on the edge",
//! section 8.1, does.
//!
//! ```text
//! cargo run --release --example tmax                     # the paper's matrix, some 25 minutes; draws tmax.svg
//! cargo run --release --example tmax -- --quick          # a short run
//! cargo run --release --example tmax -- --without-int3   # the hazard that the protocol's trap prevents
//! cargo run --release --example tmax -- --help
//! ```
//!
//! No single write can replace an instruction that lies across two cache lines. The patch engine
//! writes an `int3` to its first byte, waits, writes the rest, waits, and writes the first byte.
//! Each wait must outlast the use of any bytes that a processor has fetched before: `T_max`.
//! `Wait::Barrier`, the default, lets the system ensure that. `Wait::Tmax` takes a number, which is
//! cheaper; this program measures that number.
//!
//! One thread toggles a call on and off, and other threads execute it. Each combination of split,
//! number of threads and wait runs in a process of its own, since a wait that is too short may
//! crash it:
//! ```text
//! args ▶ trial (one combination) ▶ matrix (child processes) ▶ report (table, T_max), chart (SVG)
//!                                     └─ child ▶ site: stress, visibility
//! ```

use std::process::ExitCode;

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_off, probe_portable, probe_seen))))]
mod run;

#[cfg(not(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(probe_off, probe_portable, probe_seen))
)))]
mod run {
    /// Returns an error: this build does not patch instructions.
    pub fn run() -> Result<(), &'static str> {
        Err("instructions are patched on x86-64 Linux only, and not with --cfg probe_off or probe_portable")
    }
}

fn main() -> ExitCode {
    match run::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tmax: {error}");
            ExitCode::FAILURE
        }
    }
}
