//! Parts for the tools of the same version: of reports, so that both look alike, the files of
//! rules, a test of the kernel's events, and the way from a note to its tables. Not public API: it
//! changes with any version.

#[cfg(feature = "perf")]
pub use crate::consumers::try_event;
pub use crate::report::{Output, Table, Time, count, ending, shortened, was};
pub use probe_core::abi::noted::{Memory, Noted};
