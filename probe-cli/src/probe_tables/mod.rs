//! The probes of a file: its note ▸ its records and definitions ▸ probes with their sites.
//!
//! `docs/abi.md` has the layouts. Unreadable parts are counted and described, never guessed: see
//! [`Unread`].

mod definitions;
mod object;
mod probe;
mod records;

pub use object::{ObjectProbes, Unread, read};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use probe::NOP;
pub use probe::{FieldOf, Form, Probe, SITE_LEN, Site, SiteState};
