//! Numbers and times of the calls in traces, by function.
//!
//! ```text
//! files ──▶ items ▶ calls (probe-trace) ──▶ functions ──▶ rows: report, diff
//!                                              └─ durations: quantiles, the mean with its error, and their spread
//! ```

mod compare;
mod durations;
mod functions;
mod read;
mod report;
mod spread;

pub use compare::{Compared, Comparison, Worse, compare};
#[cfg(test)]
pub use durations::Durations;
pub use read::{Measured, measure, open};
pub use report::{FunctionRow, Losses, Report};
pub use spread::{Spread, of_both};
