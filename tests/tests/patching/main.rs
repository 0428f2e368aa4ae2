//! Sites that are switched while threads run: words, calls, pages of text, traps.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.

mod attach_memory;
mod attaching;
mod call;
mod call_far;
mod call_threads;
mod called_sites;
mod counted_in_place;
mod debugged;
mod live;
mod refusals;
mod self_test;
mod stress;
mod switch;
mod switch_counting;
mod text;
mod text_cancel;
mod text_denied;
mod text_run;
mod text_unknown;
mod toggled;
mod trap_blocked;
mod traps;
mod truth_table;
mod unrelated;
mod uprobes;
mod word;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(stress, live, debugged, counted_in_place);
