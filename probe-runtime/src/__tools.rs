//! Parts of reports for the tools of the same version, so that both look alike. Not public API: it
//! changes with any version.

pub use crate::report::{Table, Time, count, was};
pub use crate::syntax::interval;
