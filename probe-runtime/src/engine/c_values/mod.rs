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
mod function_type;
#[cfg(probe_values)]
mod table;

#[cfg(probe_values)]
pub(crate) use function_type::FunctionType;
#[cfg(probe_values)]
pub use function_type::{CSignature, CType};
#[cfg(probe_values)]
pub(crate) use table::{CProbe, CSite, ValueTable};

/// The fields that an attachment needs.
#[derive(Clone, Default, Debug)]
pub struct WantedFields {
    /// Whether it needs all that there are.
    is_all: bool,
    /// Those that it needs by their names.
    names: Vec<String>,
    /// Whether it needs them only where no debug information is read for them.
    only_known: bool,
}

impl WantedFields {
    /// Returns all that there are.
    pub(crate) fn all() -> Self {
        Self { is_all: true, ..Self::default() }
    }

    /// Returns all of functions of modules, and the like, whose debug information nobody reads.
    pub(crate) fn all_known() -> Self {
        Self { is_all: true, only_known: true, ..Self::default() }
    }

    /// Returns those with these names.
    pub(crate) fn named(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Returns those with these names, of functions of modules alone.
    pub(crate) fn of_modules(names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self { names, only_known: true, ..Self::default() }
    }

    /// Adds those of another consumer.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let is_all = self.is_all || other.is_all;
        let only_known = self.only_known && other.only_known;
        Self { is_all, names: [self.names, other.names].concat(), only_known }
    }
}

#[cfg(probe_values)]
impl WantedFields {
    /// Returns whether it needs none.
    pub(crate) fn is_none(&self) -> bool {
        !self.is_all && self.names.is_empty()
    }

    /// Returns whether it needs values of a function, whose sites may know them.
    fn concerns(&self, knows_values: bool) -> bool {
        knows_values || !self.only_known
    }

    /// Returns whether it needs a field.
    fn has(&self, name: &str) -> bool {
        self.is_all || self.names(name)
    }

    /// Returns whether it needs a field by its name.
    fn names(&self, name: &str) -> bool {
        self.names.iter().any(|it| it == name)
    }
}
