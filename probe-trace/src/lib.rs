//! Traces of latent probes: the file's layout, and what its readers get.

#![forbid(unsafe_code)]

pub mod layout;

mod definition;
mod error;
mod item;
mod reader;
mod value;

pub use definition::{Definition, Kind};
pub use error::ReadError;
pub use item::{Gap, Item, Thread, ThreadId, TraceEvent};
pub use reader::{Items, Totals, Trace};
pub use value::FieldValue;
