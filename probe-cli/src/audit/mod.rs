//! Checks of each site of a file: where it lies, how it is switched, and whether its bytes, its
//! record and its stub agree.

mod check;
mod finding;

pub use check::{Audit, AuditedSite, audit};
pub use finding::{Finding, Findings};
