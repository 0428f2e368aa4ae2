//! What a text asks for: which probes get which consumer, and what these report.
//!
//! ```text
//! a::*, !a::b=latency, **=profile(budget=1%) ──▶ parse ▶ requests ▶ reporters ▶ attachments that report
//!                                                (pure)             (one table)
//! ```
//! `PROBES` is such a text.

mod attaching;
mod format;
mod parse;
mod reported;
mod reporters;

pub use attaching::{Spec, SpecAttachment, SpecAttachments, attach_spec};
pub(crate) use format::{Format, endings};
pub(crate) use parse::{Listening, Request, requests};
#[cfg(test)]
pub(crate) use reported::Report;
pub(crate) use reported::Reported;
pub(crate) use reporters::{FEATURES, REPORTERS, Reporter};
