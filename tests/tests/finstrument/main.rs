//! Code with the hooks of `-finstrument-functions`.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`. Those without a
//! feature are for optimised builds, too.

#[cfg(feature = "unoptimised")]
mod finstrument_activated;
#[cfg(feature = "unoptimised")]
mod finstrument_ahead;
#[cfg(feature = "unoptimised")]
mod finstrument_blocked;
#[cfg(feature = "unoptimised")]
mod finstrument_denied;
#[cfg(feature = "unoptimised")]
mod finstrument_first;
#[cfg(feature = "unoptimised")]
mod finstrument_forms;
#[cfg(feature = "unoptimised")]
mod finstrument_jumps;
#[cfg(feature = "unoptimised")]
mod finstrument_life;
#[cfg(feature = "unoptimised")]
mod finstrument_linked;
#[cfg(feature = "unoptimised")]
mod finstrument_names;
#[cfg(feature = "unoptimised")]
mod finstrument_nested;
#[cfg(feature = "unoptimised")]
mod finstrument_pause;
#[cfg(feature = "unoptimised")]
mod finstrument_pending;
#[cfg(feature = "unoptimised")]
mod finstrument_places;
#[cfg(feature = "unoptimised")]
mod finstrument_redirected;
#[cfg(feature = "unoptimised")]
mod finstrument_reloads;
#[cfg(feature = "unoptimised")]
mod finstrument_replaced;
#[cfg(feature = "unoptimised")]
mod finstrument_shared;
#[cfg(feature = "unoptimised")]
mod finstrument_shared_late;
#[cfg(feature = "unoptimised")]
mod finstrument_signals;
#[cfg(feature = "unoptimised")]
mod finstrument_splits;
#[cfg(feature = "unoptimised")]
mod finstrument_stubless;
#[cfg(feature = "unoptimised")]
mod finstrument_tails;
mod finstrument_threads;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(
    finstrument_linked, finstrument_signals, finstrument_blocked, finstrument_threads
);
