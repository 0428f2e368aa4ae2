//! Parts for the tools of the same version: of reports, so that both look alike, the files of
//! rules, and a test of the kernel's events. Not public API: it changes with any version.

pub use crate::report::Output;
