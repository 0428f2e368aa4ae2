//! Parts of the texts that people write, and their mistakes: options of consumers, spans of time,
//! sizes, the beginning of a trigger. Pure.

mod error;
mod interval;
mod options;
#[cfg(feature = "trace")]
mod size;
mod trigger;

pub use error::ParseError;
pub(crate) use error::floor;
pub use interval::interval;
#[cfg(any(feature = "agent", feature = "trace"))]
pub(crate) use interval::time_len;
pub use options::Setting;
pub(crate) use options::{TEXT, settings, split_options, text, with_options};
#[cfg(feature = "trace")]
pub(crate) use size::size;
pub(crate) use trigger::{WHEN, begins_trigger};
