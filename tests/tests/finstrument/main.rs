//! Code with the hooks of `-finstrument-functions`.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.

mod finstrument_blocked;
mod finstrument_denied;
mod finstrument_first;
mod finstrument_forms;
mod finstrument_jumps;
mod finstrument_life;
mod finstrument_linked;
mod finstrument_names;
mod finstrument_nested;
mod finstrument_pause;
mod finstrument_pending;
mod finstrument_places;
mod finstrument_reloads;
mod finstrument_replaced;
mod finstrument_shared;
mod finstrument_shared_late;
mod finstrument_signals;
mod finstrument_splits;
mod finstrument_stubless;
mod finstrument_tails;
mod finstrument_threads;

#[cfg(unix)]
probe_tests::a_process_for_each_file!(finstrument_linked);
