#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod calls;
pub mod export;
pub mod layout;

mod error;
mod item;
mod reader;

#[cfg(test)]
mod fixtures;

pub use error::ReadError;
pub use item::{Definition, FieldValue, Gap, Item, Kind, Thread, ThreadId, TraceEvent};
pub use reader::{Followed, Items, Part, Rings, Totals, Trace};
