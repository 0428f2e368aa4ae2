//! `#[probe]`, `probe!` and `replace`: sites, their values, and the code around them.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`. Those without a
//! feature are for optimised builds, too.

mod backtrace;
#[cfg(feature = "unoptimised")]
mod capture_faults;
#[cfg(feature = "unoptimised")]
mod captures;
#[cfg(feature = "unoptimised")]
mod fields;
#[cfg(feature = "unoptimised")]
mod future_captures;
#[cfg(feature = "unoptimised")]
mod future_reports;
#[cfg(feature = "unoptimised")]
mod future_unchanged;
#[cfg(feature = "unoptimised")]
mod futures;
#[cfg(feature = "unoptimised")]
mod futures_forms;
#[cfg(feature = "unoptimised")]
mod futures_threads;
mod macros;
mod registers;
#[cfg(feature = "unoptimised")]
mod replace;
#[cfg(feature = "unoptimised")]
mod replace_fork;
#[cfg(feature = "unoptimised")]
mod replace_refused;
#[cfg(feature = "unoptimised")]
mod replace_threads;
#[cfg(feature = "unoptimised")]
mod replace_values;
#[cfg(feature = "unoptimised")]
mod schemas;
#[cfg(feature = "unoptimised")]
mod slow;
#[cfg(feature = "unoptimised")]
mod tables;
mod ways;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(backtrace, ways, futures_threads);
