//! Rules on a running program: conditions over figures of its probes, and actions.
//!
//! ```text
//! windows ▶ the rules' driver ▶ host ─┬▶ connection: arm, disarm, record, snapshot ◀▶ the program
//!                         ◀ readings ◀┤
//!                                     ├▶ shell_commands (processes of their own)
//!                                     └▶ log (a line for each event)
//! ```
//! Life cycle: the consumers that the conditions need are attached, and read once: the baseline ▸
//! once a window they are read again, and the engine says which rules fired and ended ▸ at the end
//! all is detached, recordings are finished, and each rule's numbers are logged. The connection's
//! end does the same in the program, so nothing stays behind if this process is killed.
//!
//! A program that gives no answer loses its connection, so that it detaches everything once it
//! resumes. It is asked again, after pauses that grow until it answers. No refusal ends the watch.
//! A stopped program is waited for, also if it stops while it is asked.
//!
//! Cost: that of the consumers, and of a report of each of them in each window. Here, a thread for
//! each request.

mod connection;
mod host;
mod log;
mod readings;
mod shell_commands;
mod windows;

pub use log::Log;
pub use windows::Watch;
