#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod calls;
pub mod export;
pub mod layout;

mod item;
mod reader;

#[cfg(test)]
mod tests;

pub use item::{Definition, FieldValue, Gap, Item, Off, SystemCall, Thread, ThreadId, TraceEvent};
pub use probe_core::abi::Kind;
pub use reader::{Followed, Items, Part, ReadError, Rings, Totals, Trace};
