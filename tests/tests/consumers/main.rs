//! Consumers and their reports.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.

mod calls;
mod consumer_faults;
mod counting;
mod counting_order;
mod latency;
mod metrics;
mod perf;
mod perf_events;
mod perf_life;
mod perf_permits;
mod predicates;
mod profiler;
mod profiler_coverage;
mod profiler_fork;
mod serialized;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(profiler_coverage, profiler);
