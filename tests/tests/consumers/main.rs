//! Consumers and their reports.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`. Those without a
//! feature are for optimised builds, too.

mod callers;
mod calls;
#[cfg(feature = "unoptimised")]
mod consumer_faults;
#[cfg(feature = "unoptimised")]
mod counting;
#[cfg(feature = "unoptimised")]
mod counting_order;
#[cfg(feature = "unoptimised")]
mod in_thread;
#[cfg(feature = "unoptimised")]
mod intervals;
mod latency;
#[cfg(feature = "unoptimised")]
mod metrics;
mod perf;
mod perf_events;
mod perf_life;
mod perf_permits;
#[cfg(feature = "unoptimised")]
mod predicates;
#[cfg(feature = "unoptimised")]
mod profiler;
#[cfg(feature = "unoptimised")]
mod profiler_coverage;
#[cfg(feature = "unoptimised")]
mod profiler_fork;
#[cfg(feature = "unoptimised")]
mod serialized;
mod stacks;
mod waits;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(profiler_coverage, counting, profiler, latency, waits);
