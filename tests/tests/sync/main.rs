//! Probes in locks and channels (`probe-sync`): which are hit, in which order, and with which
//! values.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`. A thread waits until
//! another one has asked for a lock or a place in a queue: its hit tells.

mod asynchronous;
mod channels;
mod locks;
mod raw;
mod recorder;

#[cfg(unix)]
probe_tests::a_process_for_each_file!();
