//! Specs, such as `PROBES`: which probes get which consumer, the consumers' reports, and triggers
//! that take snapshots.
//!
//! ```text
//! a::*, !a::b=latency, **=profile(budget=1%) ──▶ parse ▶ items, with consumers that are built ▶ attachments that report
//!                                                (pure)  (table: this crate's consumers, and registered ones)
//! ```

mod attach;
mod attaching;
mod builder;
mod built_in;
mod parse;
mod reported;
mod reporter;
mod table;
#[cfg(feature = "trace")]
mod trigger;

pub(crate) use attach::{AttachedText, ReportFiles, Triggers, attach_ast, own_file};
#[cfg(probe_agent)]
pub(crate) use attaching::ClientSpec;
pub use attaching::{Spec, SpecAttachment, SpecAttachments, attach_spec};
#[cfg(probe_agent)]
pub(crate) use builder::Opened;
pub(crate) use builder::OutputPolicy;
#[cfg(probe_agent)]
pub(crate) use parse::parse_client_spec;
pub(crate) use parse::{SpecAst, parse};
pub use probe_lang::Format;
pub(crate) use reported::Reported;
pub use reporter::{Rendered, Reporter};
pub use table::register;
pub(crate) use table::{ConsumerRow, FEATURES};
