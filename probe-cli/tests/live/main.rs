//! `probectl` on running programs. The program is a child of the test: it works all the time,
//! checks its own results, and compares its text with its file when it is asked.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(probe_portable), not(probe_off)))]

mod coldpatched;
mod coldpatched_objects;
mod commands;
mod contained;
mod endings;
mod flicker;
mod forked;
mod hooks;
mod hooks_listed;
mod hostile;
mod injected;
mod injected_into;
mod injected_life;
mod later;
mod linked;
#[path = "../../../probe-trace/tests/hostile/made.rs"]
#[allow(dead_code, reason = "the tests of `probe-trace` use more of it")]
mod made;
mod meanwhile;
mod names;
mod outside;
mod outside_hooks;
mod outside_meanwhile;
mod outside_stub;
mod preloaded;
mod program;
mod progress;
mod recorded;
mod refreshed;
mod run;
mod screens;
mod service;
mod shown;
mod sleds;
mod terminal;
mod toggled;
mod top;
mod traced;
mod watched;
mod watched_levels;
mod watched_lost;
mod watched_stopped;

probe_tests::a_process_for_each_file!(names, outside_meanwhile, injected, flicker, watched, run, outside);
