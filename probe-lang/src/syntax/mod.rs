//! Parts of the texts that people write, and their mistakes: options of consumers, spans of time,
//! sizes, the beginning of a trigger. Pure.

mod error;
mod interval;
mod options;
mod size;
mod trigger;

pub use error::ParseError;
pub use error::floor;
pub use interval::interval;
pub use interval::time_len;
pub use options::Setting;
pub use options::{settings, split_options, with_options};
pub use size::size;
pub use trigger::{WHEN, begins_trigger};
