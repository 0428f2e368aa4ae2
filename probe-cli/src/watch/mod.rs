//! Rules on a running program: conditions over figures of its probes, and actions.
//!
//! ```text
//! rules ▶ engine ◀── readings ◀── link (attached consumers; upkeep) ◀── the program
//!            └──▶ steps ▶ watching ─┬▶ link: arm, disarm, record, snapshot
//!                                   ├▶ commands (processes of their own)
//!                                   └▶ log (a line for each event)
//! ```
//! Life cycle: the consumers that the conditions need are attached, and read once: the baseline ▸
//! once a window they are read again, and the engine says which rules fired and ended ▸ at the end
//! all is detached, recordings are finished, and each rule's numbers are logged. The connection's
//! end does the same in the program, so nothing stays behind if this process is killed.
//!
//! A program that gives no answer loses its connection, so that it detaches everything once it goes
//! on. It is asked again, after pauses that grow until it answers. No refusal ends the watch. A
//! stopped program is waited for, also if it stops while it is asked.
//!
//! Cost: that of the consumers, and of a report of each of them in each window. Here, a thread for
//! each request.

mod actions;
mod connection;
mod keep_alive;
mod log;
mod readings;
mod recordings;
mod rule_driver;
mod shell_commands;

use std::time::Duration;

use probe_lang::rules::Engine;

use crate::live::{Program, Stop};
use crate::output::{Failure, Output};
use log::Log;
use rule_driver::RuleDriver;

/// How to watch.
pub struct Options {
    /// The time of a window.
    pub every: Duration,
    /// The time of the whole.
    pub time: Option<Duration>,
    /// Whether the log is JSON.
    pub is_json: bool,
}

/// Watches a program until the time is over, the signal comes, or the program ends.
///
/// # Errors
/// If the program finds a text malformed, or nobody reads the log any further.
pub fn watch(program: Program, engine: Engine, options: &Options, stop: &Stop) -> Result<Output, Failure> {
    let mut watching = RuleDriver::new(program, engine, Log::stdout(options.is_json), stop.clone());
    watching.start()?;
    watching.run(options.every, options.time)?;
    let process = watching.finish()?;
    let notes = if stop.is_set() { None } else { process.finish() };
    Ok(Output { notes: notes.into_iter().collect(), ..Output::text(String::new()) })
}
