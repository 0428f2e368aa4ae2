//! Rules: a condition over the figures of probes, and actions for the time when it holds.
//!
//! ```text
//! when p99(net::handle) > 5ms for 2s until p99(net::handle) < 2ms then record db::* for 1s at most 3 times
//!
//! text ──▶ parse ──▶ rule (model) ──▶ check (when ∩ until = ∅) ──▶ engine ◀── readings, once a window
//!                                                                     └──▶ steps: fired, ended
//! ```
//! Life cycle: a text or a [file](file::rules) is parsed ▸ an [`Engine`] tells the consumers that
//! its rules' figures need ([`Engine::sources`]) ▸ its driver attaches these, and reads each of
//! them at the beginning, the baseline, and once a window ▸ [`Engine::step`] answers with the rules
//! that fired and ended ▸ the driver acts.
//!
//! The engine is pure: no I/O, no clock, no thread. The times of windows are given to it, and the
//! driver has all attachments. [`Output`] alone creates files, for drivers. A reading that failed
//! makes its figures unknown for that window. An unknown condition neither begins nor ends a rule,
//! and the engine counts such windows.
//!
//! Cost: nothing on a hit, beyond the consumers of the figures. A step compares two readings: time
//! in proportion to their rows.

mod check;
mod condition;
mod engine;
mod figure;
mod file;
mod holders;
mod output;
#[cfg(probe_agent)]
mod own;
mod parse;
mod patience;
mod phase;
mod reading;
mod rule;
mod window;

pub use engine::{Engine, Step};
pub use figure::{Figure, Unit, reasons};
#[cfg(probe_agent)]
pub(crate) use file::VARIABLE;
pub use file::{RuleError, rule, rules};
pub use holders::Holders;
pub use output::Output;
#[cfg(probe_agent)]
pub(crate) use own::own_rules;
pub use patience::Patience;
pub use phase::Totals;
pub use reading::{Bucket, Reading, Row, RowKind};
pub use rule::{Action, Rule, snapshot_recorder};
