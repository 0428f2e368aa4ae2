//! Texts such as `PROBES`: which probes get which consumer, and the consumers' reports.
//!
//! ```text
//! a::*, !a::b=latency, **=profile(budget=1%) ──▶ parse ▶ requests ▶ table ▶ attachments that report
//!                                                (pure)             (this crate's consumers, and registered ones)
//! ```

mod attaching;
mod built_in;
mod format;
mod parse;
mod reported;
mod reporter;
mod table;

pub use attaching::{Spec, SpecAttachment, SpecAttachments, attach_spec};
pub use format::Format;
pub(crate) use format::endings;
pub(crate) use parse::{Listening, Request, requests};
pub(crate) use reported::Reported;
pub use reporter::{Rendered, Reporter};
pub use table::register;
pub(crate) use table::{ConsumerRow, FEATURES};
