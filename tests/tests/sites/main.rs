//! `#[probe]`, `probe!` and `replace`: sites, their values, and the code around them.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.

mod backtrace;
mod capture_faults;
mod captures;
mod fields;
mod future_captures;
mod future_reports;
mod future_unchanged;
mod futures;
mod futures_forms;
mod futures_threads;
mod macros;
mod registers;
mod replace;
mod replace_fork;
mod replace_refused;
mod replace_threads;
mod replace_values;
mod schemas;
mod slow;
mod tables;
mod ways;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(futures_threads);
