//! Parts of the texts that people write, and their mistakes: options of consumers, spans of time.
//! Pure.

mod error;
mod interval;
mod options;

pub use error::ParseError;
pub(crate) use interval::interval;
pub use options::Setting;
pub(crate) use options::{TEXT, settings, split_options, text, with_options};
