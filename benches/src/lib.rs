//! Measurement: interleaved runs, medians, figures, and programs with a given number of sites.
//!
//! The life of a figure: [`Scale`] sets the number of runs ▸ [`interleave`] runs all [`Case`]s of
//! a bench in rotation, in one process ▸ [`Medians`] compares each with its baseline, round by
//! round ▸ [`figure`] prints.
//!
//! For instructions that are patched while other threads execute them: [`code`] makes such a
//! function, [`ticks`] is the clock of all processors, `toggled` has the ways to patch,
//! [`toggling`] runs executors beside a patcher, [`plot`] draws.
//!
//! Only for x86-64 Linux, like the measured code.

#![deny(unsafe_code)]

mod calls;
mod figure;
mod generated;
mod process;
mod rounds;
mod scale;

pub mod baseline;
pub mod bulk;
pub mod callgrind;
pub mod code;
pub mod cost;
pub mod functions;
pub mod instrumented;
pub mod plot;
pub mod spans;
pub mod table;
pub mod tally;
pub mod ticks;
#[cfg(not(any(probe_off, probe_portable, probe_seen)))]
pub mod toggled;
pub mod toggling;
pub mod yielding;

pub use calls::aligned;
pub use figure::{figure, timing};
pub use process::{monotonic_ns, pin, preemptions, process_ns, processors, thread_ns};
pub use rounds::{Case, Medians, interleave, median};
pub use scale::{IS_PATCHED, Scale};
