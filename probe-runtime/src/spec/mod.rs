//! What a text asks for: which probes get which consumer, and what these report.
//!
//! ```text
//! a::*, !a::b=latency, **=profile(budget=1%) ──▶ parse ▶ requests ▶ reporters ▶ attachments that report
//!                                                (pure)             (one table)
//! ```
//! `PROBES` is such a text.

mod attaching;
mod format;
mod interval;
mod options;
mod parse;
mod reported;
mod reporters;

pub use attaching::{Spec, SpecAttachment, SpecAttachments, attach_spec};
pub(crate) use format::{Format, endings};
pub(crate) use interval::interval;
pub(crate) use options::Setting;
#[cfg(all(test, any(feature = "perf", feature = "call-tree", feature = "latency")))]
pub(crate) use options::settings;
pub(crate) use parse::{Listening, Request, requests};
#[cfg(test)]
pub(crate) use reported::Report;
pub(crate) use reported::Reported;
pub(crate) use reporters::{FEATURES, REPORTERS, Reporter};
