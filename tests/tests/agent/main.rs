//! Other processes ask a running program: they list its probes, attach, read, detach, and get
//! killed. The program is a child of the test, which tells it by its standard input to call its
//! functions, to compare its text with its file, to fork, to exit. Each file has a user's folder of
//! its own, so it finds its own sockets only.
#![cfg(all(target_os = "linux", not(probe_portable), not(probe_off)))]

mod bounded;
mod hostile;
mod idle;
mod killed;
mod lives;
mod own;
mod places;
mod ruled;
mod sessions;
mod strict;
mod target;
mod traces;

probe_tests::a_process_for_each_file!(ruled, hostile, sessions, lives);

use probe_runtime::probe;

/// The functions that are probed.
#[probe(args(x), group = "agents", doc = "the work of the program")]
#[inline(never)]
fn work(x: u64) -> u64 {
    if x.is_multiple_of(2) {
        probe!("even", half = x / 2);
    }
    x * 3 + 1
}

/// The result of this many calls.
fn worked(calls: u64) -> u64 {
    (0..calls).fold(0, |sum, x| sum.wrapping_add(work(x)))
}
