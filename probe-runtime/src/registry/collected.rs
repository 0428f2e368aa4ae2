//! The registry where nothing is patched: the definitions that `linkme` collected in this binary, or those that have
//! been seen.

use super::{Probe, ProbeId};

/// All probes of this binary; each counts as one site.
#[derive(Default)]
pub(crate) struct Registry {
    probes: Vec<Probe>,
}

impl Registry {
    /// Collects the probes. Returns whether the list has changed.
    #[cfg(probe_backend = "portable")]
    pub(crate) fn refresh(&mut self) -> bool {
        // Neither list ever loses a definition.
        let known = self.probes.len();
        #[cfg(probe_definitions = "linked")]
        let definitions = crate::__private::v1::PROBE_DEFINITIONS_V1.static_slice().iter();
        #[cfg(probe_definitions = "seen")]
        let definitions = super::seen::all().into_iter();
        self.probes.extend(definitions.skip(known).map(Probe::new));
        self.probes.len() != known
    }

    /// There are no probes.
    #[cfg(probe_backend = "off")]
    #[expect(clippy::unused_self, reason = "the same call as where there are probes")]
    pub(crate) fn refresh(&mut self) -> bool {
        false
    }

    pub(crate) fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// A definition's flag is its one site.
    pub(crate) fn site_count(&self, id: ProbeId) -> usize {
        self.probes[id.index()].definitions().count()
    }

    /// There are no records.
    #[expect(clippy::unused_self, reason = "the same call as where there are records")]
    pub(crate) fn skipped(&self) -> usize {
        0
    }
}
