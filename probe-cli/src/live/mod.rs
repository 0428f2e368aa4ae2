//! Running programs: the choice of one, the time for watching it, and the screen.
//!
//! The agent in the program makes everything latent when the connection ends. So nothing stays
//! behind if `probectl` is killed, or its terminal is closed.

mod program;
mod screen;
mod started;
mod stop;

pub use program::{Program, failure};
pub use screen::Screen;
pub use stop::{Stop, Watched, watch};
