//! Traces of latent probes: the file's layout, what its readers get, and what becomes of it.

#![forbid(unsafe_code)]

pub mod calls;
pub mod export;
pub mod layout;

mod definition;
mod item;
mod value;

#[cfg(test)]
mod story;

pub use definition::{Definition, Kind};
pub use item::{Gap, Item, Thread, ThreadId, TraceEvent};
pub use value::FieldValue;
