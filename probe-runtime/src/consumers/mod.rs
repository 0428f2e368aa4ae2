//! The consumers that come with the runtime, each written against the public [`Consumer`](crate::Consumer) only.

mod count;
mod counts;
mod report;

#[cfg(feature = "latency")]
mod latency;

pub use count::Count;
pub use counts::{Counts, ProbeCount};
#[cfg(feature = "latency")]
pub use latency::{FunctionLatency, Latencies, Latency};
