//! Rules: a condition over the figures of probes, and actions for the time when it holds.
//!
//! ```text
//! when p99(net::handle) > 5ms for 2s until p99(net::handle) < 2ms then record db::* for 1s at most 3 times
//!
//! text ──▶ parse ──▶ rule (model) ──▶ check (when ∩ until = ∅) ──▶ engine ◀── readings, once a window
//!                                                                     └──▶ steps ──▶ driver ──▶ host
//! ```
//! Life cycle: a text or a [file](rule::rules) is parsed ▸ an [`Engine`] tells the consumers that
//! its rules' figures need ([`Engine::sources`]) ▸ a [`RuleDriver`] attaches these, and reads each
//! of them at the beginning, the baseline, and once a window ▸ [`Engine::step`] answers with the
//! rules that fired and ended ▸ the driver acts.
//!
//! Engine and driver are pure: no I/O, no clock, no thread. The times of windows are given to them.
//! The program's agent and `probectl watch` each implement [`RuleHost`], which attaches and logs. A
//! reading that failed makes its figures unknown for that window. An unknown condition neither
//! begins nor ends a rule, and the engine counts such windows.
//!
//! Cost: nothing on a hit, beyond the consumers of the figures. A step compares two readings: time
//! in proportion to their rows.

mod condition;
mod driver;
mod engine;
mod figure;
mod host;
mod parse;
mod ref_counted;
mod rule;
mod window;

pub use driver::{Backoff, RuleDriver};
pub use engine::{Engine, Step, Totals};
pub use figure::{Figure, Unit, reasons};
pub use host::{Answer, Event, Firing, HostError, RuleHost};
pub(crate) use parse::{AT_MOST, Verb, When, when_at};
pub use parse::{WHEN, begins_when, parse};
pub use ref_counted::RefCountedSpecs;
pub use rule::{Action, Rule, RuleError, checked_rules, rule, rules, snapshot_recorder};
pub use window::{Bucket, Reading, Row, RowKind};
