//! Traces of latent probes: the file's layout, and what its readers get.

#![forbid(unsafe_code)]

pub mod layout;

mod definition;
mod item;
mod value;

pub use definition::{Definition, Kind};
pub use item::{Gap, Item, Thread, ThreadId, TraceEvent};
pub use value::FieldValue;
