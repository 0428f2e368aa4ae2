//! Specs such as `PROBES`: which probes get which consumer, and triggers that take snapshots.
//!
//! ```text
//! a::*[n > 1]=sum(n) by(s), b=trace(flight), when latency(a) > 5ms then snapshot
//! text ──▶ expressions, triggers (blanked) ▶ parse ──▶ items: selector, predicate, consumer
//! ```
//! Life cycle: a text is parsed once, when it is written. The items are attached without their
//! texts.

mod expressions;
mod parse;
mod trigger;

use expressions::{blank_expressions, is_aggregation};
#[cfg(feature = "counted")]
pub use parse::PARSED;
pub use parse::{ConsumerText, Selected, SpecAst, SpecItem, parse_selector, parse_spec, selected};
pub use trigger::CallTrigger;
