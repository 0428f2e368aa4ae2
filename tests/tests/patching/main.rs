//! Sites that are switched while threads run: words, calls, pages of text, traps.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`. Those without a
//! feature are for optimised builds, too.

#[cfg(feature = "unoptimised")]
mod attach_memory;
#[cfg(feature = "unoptimised")]
mod attaching;
mod call;
#[cfg(feature = "unoptimised")]
mod call_far;
mod call_threads;
mod called_sites;
#[cfg(feature = "unoptimised")]
mod counted_in_place;
#[cfg(feature = "unoptimised")]
mod debugged;
mod live;
#[cfg(feature = "quick")]
mod quick;
#[cfg(feature = "unoptimised")]
mod refusals;
#[cfg(feature = "unoptimised")]
mod self_test;
mod stress;
#[cfg(feature = "unoptimised")]
mod switch;
#[cfg(feature = "unoptimised")]
mod switch_counting;
#[cfg(feature = "unoptimised")]
mod text;
#[cfg(feature = "unoptimised")]
mod text_cancel;
#[cfg(feature = "unoptimised")]
mod text_denied;
#[cfg(feature = "unoptimised")]
mod text_run;
mod text_unknown;
#[cfg(feature = "unoptimised")]
mod toggled;
mod trap_blocked;
mod traps;
#[cfg(feature = "unoptimised")]
mod truth_table;
mod unrelated;
#[cfg(feature = "unoptimised")]
mod uprobes;
mod usdt;
mod word;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(
    stress, usdt, uprobes, truth_table, debugged, unrelated, call, live, counted_in_place
);
