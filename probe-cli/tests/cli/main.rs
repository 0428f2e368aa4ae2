//! `probectl` as people and scripts run it: its output to the letter, and its exit codes.

mod audited;
mod bridged;
mod coldpatched;
mod command_line;
mod compiled;
mod hooked;
mod linked;
mod listed;
#[path = "../../../probe-trace/tests/hostile/made.rs"]
#[allow(dead_code, reason = "the tests of `probe-trace` use more of it")]
mod made;
mod ran;
mod traces;
