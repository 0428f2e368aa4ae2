//! Parts of the texts that people write, and their mistakes: options of consumers, spans of time,
//! sizes.
//! Pure.

mod error;
mod interval;
mod options;
#[cfg(feature = "trace")]
mod size;

pub use error::ParseError;
pub(crate) use interval::interval;
pub use options::Setting;
pub(crate) use options::{TEXT, settings, split_options, text, with_options};
#[cfg(feature = "trace")]
pub(crate) use size::size;
