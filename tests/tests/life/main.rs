//! Processes, threads, signals and plugins that begin and end beside probes.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.

mod finstrument_reload;
mod fork;
mod late_arrivals;
mod life_cancel;
mod life_exit;
mod life_fork;
mod life_text;
mod signals;
mod threads;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(life_cancel, life_exit, life_text);
