//! The registry where nothing is patched: the definitions that `linkme` collected in this binary, or those that have
//! been seen.

use super::provider::Provider;
use super::{Change, ProbeId};
use crate::abi::{Definition, Type};
use crate::os::objects::Frozen;

/// All probes of this binary; each counts as one site.
#[derive(Default)]
pub(crate) struct Registry {
    definitions: Vec<&'static Definition>,
}

impl Registry {
    /// Collects the probes. Returns what has changed, if anything has.
    #[cfg(probe_backend = "portable")]
    pub(crate) fn refresh(&mut self, _frozen: &Frozen) -> Option<Change> {
        // Neither list ever loses a definition.
        let known = self.definitions.len();
        #[cfg(probe_definitions = "linked")]
        let definitions = super::linked::definitions().iter();
        #[cfg(probe_definitions = "seen")]
        let definitions = super::seen::all().into_iter();
        self.definitions.extend(definitions.skip(known));
        (self.definitions.len() != known).then(|| Change { is_list_new: true, ..Change::default() })
    }

    /// There are no probes.
    #[cfg(probe_backend = "off")]
    #[expect(clippy::unused_self, reason = "the same call as where there are probes")]
    pub(crate) fn refresh(&mut self, _frozen: &Frozen) -> Option<Change> {
        None
    }

    /// How many probes there are.
    pub(crate) fn len(&self) -> usize {
        self.definitions.len()
    }

    /// A probe's definition.
    #[expect(clippy::unnecessary_wraps, reason = "the same call as where objects are unloaded")]
    pub(crate) fn definition(&self, id: ProbeId) -> Option<&'static Definition> {
        Some(self.definitions[id.index()])
    }

    /// The probe of a definition.
    pub(crate) fn id_of(&self, definition: &Definition) -> Option<ProbeId> {
        self.definitions.iter().position(|known| std::ptr::eq(*known, definition)).map(ProbeId::new)
    }

    /// A probe's definitions: one.
    pub(crate) fn definitions(&self, id: ProbeId) -> impl Iterator<Item = &'static Definition> + '_ {
        self.definition(id).into_iter()
    }

    /// A definition's flag is its one site, but of functions that were left out.
    pub(crate) fn site_count(&self, id: ProbeId) -> usize {
        self.definitions(id).filter(|definition| definition.skipped().is_none()).count()
    }

    /// No provider finds anything here.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn provider(&mut self) -> Option<&mut dyn Provider> {
        None
    }

    /// No provider finds anything here.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn name_pending(&mut self) {}

    /// No provider finds anything here.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn has_discovered(&self) -> bool {
        false
    }

    /// Flags say nothing of types.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn field_type(&self, _id: ProbeId, _field: usize) -> Option<Type> {
        None
    }

    /// Nothing is ever unloaded.
    #[expect(clippy::unused_self, reason = "the same call as where objects are unloaded")]
    pub(crate) fn is_main_only(&self) -> bool {
        true
    }

    /// Nothing is ever unloaded.
    #[expect(clippy::unused_self, reason = "the same call as where objects are unloaded")]
    pub(crate) fn is_in_main(&self, _id: ProbeId) -> bool {
        true
    }

    /// There are no records.
    #[expect(clippy::unused_self, reason = "the same call as where there are records")]
    pub(crate) fn skipped(&self) -> usize {
        0
    }
}
