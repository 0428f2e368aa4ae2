//! Texts such as `PROBES`: which probes get which consumer, the consumers' reports, and triggers
//! that take snapshots.
//!
//! ```text
//! a::*, !a::b=latency, **=profile(budget=1%) ──▶ parse ▶ requests ▶ table ▶ attachments that report
//!                                                (pure)             (this crate's consumers, and registered ones)
//! ```

#[cfg(not(feature = "trace"))]
mod absent;
mod asked;
mod attaching;
mod built_in;
mod made;
mod parse;
mod reported;
mod reporter;
mod request;
mod table;
#[cfg(feature = "trace")]
mod trigger;
mod writes;

#[cfg(not(feature = "trace"))]
use absent as trigger;
pub(crate) use asked::{AttachedText, ReportFiles, own_file};
pub use attaching::{Spec, SpecAttachment, SpecAttachments, attach_spec};
#[cfg(probe_agent)]
pub(crate) use attaching::{attach_for_client, consumers_of};
pub use probe_lang::Format;
pub(crate) use probe_lang::format::endings;
#[cfg(probe_agent)]
pub(crate) use parse::check_for_client;
pub(crate) use parse::{Asked, asked, selector};
pub(crate) use reported::Reported;
pub use reporter::{Rendered, Reporter};
pub use table::register;
pub(crate) use table::{ConsumerRow, FEATURES};
pub(crate) use trigger::Triggers;
#[cfg(probe_agent)]
pub(crate) use writes::Opened;
pub(crate) use writes::Writes;
