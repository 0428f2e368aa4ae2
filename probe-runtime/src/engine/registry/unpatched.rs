//! The registry for backends that patch no sites. Its definitions are those that `linkme` collected
//! in this binary, or those whose sites the program has passed.

#![expect(clippy::unused_self, reason = "the same calls as where sites are patched and objects unloaded")]

use super::provider::Provider;
use super::{Change, ProbeId};
use crate::engine::os::objects::{Frozen, KeptLoaded};
use probe_core::abi::{Definition, Type};

/// All probes of this binary; each counts as one site.
#[derive(Default)]
pub(crate) struct Registry {
    definitions: Vec<&'static Definition>,
}

impl Registry {
    /// Collects the probes. Returns the changes, if there are any, and the proof that all objects
    /// stay loaded: nothing is ever unloaded.
    #[cfg(probe_backend = "portable")]
    pub(crate) fn refresh<'a>(&mut self, _frozen: &'a Frozen) -> (Option<Change>, KeptLoaded<'a>) {
        // Neither list ever loses a definition.
        let known = self.definitions.len();
        #[cfg(probe_definitions = "linked")]
        let definitions = linked::definitions().iter();
        #[cfg(probe_definitions = "seen")]
        let definitions = probe_core::site::backend::seen::all().into_iter();
        self.definitions.extend(definitions.skip(known));
        let is_new = self.definitions.len() != known;
        (is_new.then(|| Change { is_list_new: true, ..Change::default() }), KeptLoaded::always())
    }

    /// Finds no changes, since there are no probes.
    #[cfg(probe_backend = "off")]
    pub(crate) fn refresh<'a>(&mut self, _frozen: &'a Frozen) -> (Option<Change>, KeptLoaded<'a>) {
        (None, KeptLoaded::always())
    }

    /// Returns the number of probes.
    pub(crate) fn len(&self) -> usize {
        self.definitions.len()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same call as where objects are unloaded")]
    pub(crate) fn definition<'a>(&self, id: ProbeId, _loaded: KeptLoaded<'a>) -> Option<&'a Definition> {
        Some(self.definitions[id.index()])
    }

    /// Returns the file of the object that has a probe: it is not known here.
    pub(crate) fn object_of(&self, _id: ProbeId) -> &'static str {
        ""
    }

    pub(crate) fn id_of(&self, definition: &Definition) -> Option<ProbeId> {
        self.definitions.iter().position(|known| std::ptr::eq(*known, definition)).map(ProbeId::new)
    }

    /// Returns a probe's only definition.
    pub(crate) fn definitions<'a>(
        &self,
        id: ProbeId,
        loaded: KeptLoaded<'a>,
    ) -> impl Iterator<Item = &'a Definition> {
        self.definition(id, loaded).into_iter()
    }

    /// Returns 1 for the flag in the probe's definition, or 0 for a function that was left out.
    pub(crate) fn site_count(&self, id: ProbeId) -> usize {
        usize::from(self.definitions[id.index()].skipped().is_none())
    }

    /// Returns `None`, since no provider works with this backend.
    pub(crate) fn provider(&mut self) -> Option<&mut dyn Provider> {
        None
    }

    /// Does nothing, since no provider works with this backend.
    pub(crate) fn name_pending(&mut self) {}

    /// Returns none, since no provider works with this backend.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn discovered_ids(&self) -> impl Iterator<Item = ProbeId> + use<> {
        std::iter::empty()
    }

    /// Returns none, since no provider works with this backend.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn calls_of(
        &self,
        _ids: &[ProbeId],
    ) -> impl Iterator<Item = &'static dyn crate::engine::registry::CallSite> + use<> {
        std::iter::empty()
    }

    /// Returns `false`, since no provider works with this backend.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(crate) fn was_reached(&self, _id: ProbeId) -> bool {
        false
    }

    /// Returns `false`, since no provider works with this backend.
    pub(crate) fn has_discovered(&self) -> bool {
        false
    }

    /// Returns `None`, since a flag does not record types.
    pub(crate) fn field_type(&self, _id: ProbeId, _field: usize) -> Option<Type> {
        None
    }

    /// Calls `run` with the proof that all objects stay loaded: nothing is ever unloaded.
    #[expect(clippy::unnecessary_wraps, reason = "the same call as where objects are unloaded")]
    pub(crate) fn with_kept_loaded<O, T>(
        owner: &mut O,
        _registry: impl FnOnce(&O) -> &Self,
        run: impl FnOnce(&mut O, KeptLoaded<'_>) -> T,
    ) -> Option<T> {
        Some(run(owner, KeptLoaded::always()))
    }

    /// Returns `true`, since nothing is ever unloaded.
    pub(crate) fn is_main_only(&self) -> bool {
        true
    }

    /// Returns `true`, since nothing is ever unloaded.
    pub(crate) fn is_in_main(&self, _id: ProbeId) -> bool {
        true
    }

    /// Returns 0, since there are no records.
    pub(crate) fn skipped(&self, _loaded: KeptLoaded<'_>) -> usize {
        0
    }
}

/// The definitions that the linker has collected in this binary, for any version of this crate.
///
/// `linkme` collects them. If two versions of this crate are in one program, `linkme` panics when
/// asked for them, since each version declares the slice and that looks like a mistake. It is not a
/// mistake here: definitions under the same name have the same layout (docs/abi.md). So if the
/// section's bounds have names, this module reads the section directly. On other systems (Apple's,
/// Windows, the BSDs, illumos) a program with two versions panics in `linkme` at the first use.
#[cfg(all(probe_backend = "portable", probe_definitions = "linked"))]
mod linked {
    // Safety: relies on the linker setting `__start_` and `__stop_` to the ends of a section, and
    // on `linkme` and the macros putting nothing but definitions into this one.
    #![cfg_attr(
        any(target_os = "linux", target_os = "android", target_os = "fuchsia"),
        expect(unsafe_code, reason = "see above")
    )]

    use probe_core::abi::Definition;

    /// Returns all definitions of this binary, in the order of the linker.
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    pub(super) fn definitions() -> &'static [Definition] {
        // SAFETY: the linker defines both; the section exists, since `linkme` keeps an empty array
        // in it.
        unsafe extern "C" {
            #[link_name = "__start_linkme_PROBE_DEFINITIONS_V1"]
            static START: [Definition; 0];
            #[link_name = "__stop_linkme_PROBE_DEFINITIONS_V1"]
            static STOP: [Definition; 0];
        }
        let (start, stop) = ((&raw const START).cast::<Definition>(), &raw const STOP);
        let len = (stop.addr() - start.addr()) / size_of::<Definition>();
        // SAFETY: the section's bytes are consecutive definitions, which live as long as the
        // program.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Returns all definitions of this binary, in the order of the linker.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia")))]
    pub(super) fn definitions() -> &'static [Definition] {
        probe_core::__private::v1::PROBE_DEFINITIONS_V1.static_slice()
    }
}
