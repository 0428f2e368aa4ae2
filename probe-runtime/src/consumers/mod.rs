//! The consumers that come with the runtime, each written against the public [`Consumer`](crate::Consumer) only.

mod count;
mod counts;
mod table;

pub use count::Count;
pub use counts::{Counts, ProbeCount};
