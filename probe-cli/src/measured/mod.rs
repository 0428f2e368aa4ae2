//! Numbers and times of the calls in traces, by function.
//!
//! ```text
//! files ──▶ items ▶ calls (probe-trace) ──▶ functions ──▶ rows: report, diff
//!                                              └─ durations: quantiles, and the mean with its error
//! ```

mod durations;
mod functions;
mod read;
mod report;

pub use read::{Measured, measure, open};
pub use report::{FunctionRow, Losses, Report};
