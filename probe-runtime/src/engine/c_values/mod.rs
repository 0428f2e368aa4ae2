//! Values of C functions that have no fields: their arguments at entries, their results at exits.
//!
//! Life cycle: attaching asks its consumer for names of fields ([`WantedFields`]) ▸ the probes of C
//! that lack some are looked up in the debug information of their objects ▸ the attachment keeps a
//! [`ValueTable`] with a program for each site, which its hits run
//! ([`site_values`](crate::engine::dispatch)). Probes that join are added, under the lock of joins.
//! Once an object goes, the probes of libraries have no values any more. All goes with the
//! attachment.
//!
//! | name | at an entry | at an exit |
//! |---|---|---|
//! | that of a parameter | the argument | – |
//! | `arg1`, … | the argument in this place | – |
//! | `ret` | – | the result, where a return follows the site |
//!
//! Without debug information, `arg1` to `arg6` are the registers that pass integers, at the entries
//! of functions with a global symbol, which follow the calling convention. `ret` is then `rax`.
//!
//! Cost: none without such names. Reading takes some 10 ms an object with some thousand functions;
//! its memory is freed at once. A site takes 64 bytes for each value.

#[cfg(probe_values)]
mod table;

#[cfg(probe_values)]
pub(crate) use table::{CProbe, ValueTable};

/// The names of fields that an attachment needs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum WantedFields {
    /// None.
    #[default]
    None,
    /// These.
    Named(Vec<String>),
    /// All that there are, and these.
    All(Vec<String>),
}

impl WantedFields {
    /// Returns these names; none if there are no names.
    pub(crate) fn named(names: Vec<String>) -> Self {
        if names.is_empty() { Self::None } else { Self::Named(names) }
    }

    /// Adds those of another consumer.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, it) | (it, Self::None) => it,
            (Self::Named(names), Self::Named(more)) => Self::Named([names, more].concat()),
            (Self::All(names), Self::Named(more) | Self::All(more))
            | (Self::Named(names), Self::All(more)) => Self::All([names, more].concat()),
        }
    }
}
