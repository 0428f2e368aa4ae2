//! Parts of the texts that people write, and what may be wrong with them: options of consumers, spans
//! of time. Pure.

mod interval;
mod mistake;
mod options;

pub(crate) use interval::interval;
pub(crate) use mistake::Mistake;
pub(crate) use options::{Setting, TEXT, settings, split_options, text, with_options};
