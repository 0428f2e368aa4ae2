//! Parts for the tools of the same version: of reports, so that both look alike, the engine of
//! rules, a test of the kernel's events, and the way from a note to its tables. Not public API: it
//! changes with any version.

#[cfg(feature = "perf")]
pub use crate::consumers::try_event;
pub use crate::report::{Table, Time, count, ending, shortened, was};
pub use probe_core::abi::noted::{Memory, Noted};

/// The engine of rules, for drivers outside of this crate.
#[cfg(feature = "agent")]
pub mod rules {
    pub use crate::session::rules::{
        Action, Bucket, Engine, Figure, Holders, Output, Patience, Reading, Row, RowKind, Rule, RuleError,
        Step, Totals, Unit, reasons, rule, rules, snapshot_recorder,
    };
}
