//! Triggers in a text: `when latency(db::query) > 5ms: snapshot`.
//!
//! Life cycle: [`text`] parses a trigger ▸ its probes are selected ▸ its [`Trigger`] is
//! attached after the flight recorders of the same text, so that a recorder has the end of a call
//! that triggers ▸ a call takes too long ▸ the trigger's thread arms more probes for a while, if
//! the text says so, and writes a [snapshot](snapshots) of each recorder.
//!
//! [`Trigger`]: crate::Trigger

mod armed;
mod keep;
mod snapshots;
mod text;

pub(super) use armed::Selected;
pub(crate) use armed::Triggers;
pub(super) use text::TriggerRequest;
