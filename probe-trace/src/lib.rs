#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod calls;
pub mod export;
pub mod layout;

mod item;
mod reader;

#[cfg(test)]
mod fixtures;

pub use item::{Definition, FieldValue, Gap, Item, Kind, Thread, ThreadId, TraceEvent};
pub use reader::{Followed, Items, Part, ReadError, Rings, Totals, Trace};
