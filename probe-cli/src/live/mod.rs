//! Running programs: the choice of one, the time for watching it, and the screen.
//!
//! The agent in the program makes everything latent when the connection ends. So nothing stays
//! behind if `probectl` is killed, or its terminal is closed.

mod child;
mod flight_recorders;
mod injected_agent;
mod program;
mod screen;
mod stop;

pub use child::{ChildProgram, failure_note};
pub use flight_recorders::{flight_recorders, only_flight_recorder, snapshot_format};
pub use program::{Process, Program, attachment_notes, connect, unless_ended};
pub use screen::{Screen, Shown};
pub use stop::{POLL_INTERVAL, Schedule, Stop, WatchEnd, watch};
