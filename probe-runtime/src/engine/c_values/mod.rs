//! Values of C functions that have no fields: their arguments at entries, their results at exits.
//!
//! Life cycle: attaching asks its consumer for names of fields ([`WantedFields`]) ▸ the probes of C
//! that lack some are looked up in the debug information of their objects, outside of all locks ▸
//! the attachment keeps a [`ValueTable`] with a program for each site, which its hits run
//! ([`site_values`](crate::engine::dispatch)) ▸ probes that join are added ▸ all goes with the
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
    /// All that there are.
    All,
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
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, it) | (it, Self::None) => it,
            (Self::Named(mut names), Self::Named(more)) => {
                names.extend(more);
                Self::Named(names)
            }
        }
    }
}
