//! The consumers that come with the runtime, each written against the public [`Consumer`](crate::Consumer) only.

mod count;
mod table;

pub use count::Count;
