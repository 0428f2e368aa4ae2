#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod calls;
pub mod export;
pub mod layout;

mod definition;
mod error;
mod item;
mod reader;
mod value;

#[cfg(test)]
mod fixtures;

pub use definition::{Definition, Kind};
pub use error::ReadError;
pub use item::{Gap, Item, Thread, ThreadId, TraceEvent};
pub use reader::{Followed, Items, Part, Rings, Totals, Trace};
pub use value::FieldValue;
