//! The probes of a file: its note ▸ its records and definitions ▸ probes with their sites.
//!
//! `docs/abi.md` has the layouts. Unreadable parts are counted and described, never guessed: see
//! [`Unread`].

mod definition;
mod grouped;
mod object;
mod probe;
mod record;
mod stub;
mod unread;

pub use object::{ObjectProbes, read};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use probe::NOP;
pub use probe::{FieldOf, Form, Probe, SITE_LEN, Site, SiteState};
pub use unread::Unread;
