//! A function's entry or exit, as the registry and the control see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::engine::dispatch::Reading;
use crate::engine::entry::backend::wrapper::after_sites;
use crate::engine::os::objects::Frozen;
use crate::engine::registry::ProbeId;
use crate::engine::registry::provider::{CallSite, ListedProbe, OwnValues};
use crate::engine::sites::Site;
use probe_core::abi::{Definition, Kind};

/// The entry or exit of one function, in all of its wrappers.
pub(super) struct ModuleSite {
    /// The function's number.
    pub(super) function: usize,
    pub(super) definition: &'static Definition,
    values: &'static [(String, Reading)],
    is_active: AtomicBool,
    /// The number of words that lead to the function.
    places: AtomicUsize,
    probe: ListedProbe,
}

impl ModuleSite {
    pub(super) fn new(
        function: usize,
        definition: &'static Definition,
        values: &'static [(String, Reading)],
    ) -> Self {
        let (is_active, places) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { function, definition, values, is_active, places, probe: ListedProbe::new() }
    }

    /// Returns whether hits are wanted.
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Sets whether hits are wanted. Returns whether that is new.
    pub(super) fn set_active(&self, active: bool) -> bool {
        self.is_active.swap(active, Ordering::Relaxed) != active
    }

    pub(super) fn set_places(&self, places: usize) {
        self.places.store(places, Ordering::Relaxed);
    }
}

impl CallSite for ModuleSite {
    fn definition<'a>(&'static self, _frozen: &'a Frozen) -> Option<&'a Definition> {
        Some(self.definition)
    }

    fn site(&'static self) -> Option<Site> {
        None
    }

    fn is_settled(&self) -> bool {
        false
    }

    fn places(&self) -> usize {
        self.places.load(Ordering::Relaxed)
    }

    fn was_reached(&self) -> bool {
        false
    }

    fn probe(&self) -> Option<ProbeId> {
        self.probe.get()
    }

    fn set_probe(&self, id: ProbeId) {
        self.probe.set(id);
    }

    fn counter(&self) -> Option<usize> {
        None
    }

    fn own_values(&'static self) -> Option<OwnValues> {
        let [entry, exit] = after_sites();
        let after = if self.definition.kind() == Kind::Entry { entry } else { exit };
        Some(OwnValues { after, values: self.values })
    }
}
