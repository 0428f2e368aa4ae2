//! Running programs: the choice of one, the time for watching it, and the screen.
//!
//! The agent in the program makes everything latent when the connection ends. So nothing stays
//! behind if `probectl` is killed, or its terminal is closed.

mod brought;
mod pace;
mod program;
mod recorders;
mod screen;
mod started;
mod stop;

pub use pace::Pace;
pub use program::{Process, Program, bring, connect, failure};
pub use recorders::{ending, recorder, recorders};
pub use screen::Screen;
pub use stop::{LOOK, Stop, Watched, watch, watch_at};
