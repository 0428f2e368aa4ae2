//! The registry where nothing is patched: the definitions that `linkme` collected in this binary.

use super::{Probe, ProbeId};

/// All probes of this binary; each counts as one site.
#[derive(Default)]
pub(crate) struct Registry {
    probes: Vec<Probe>,
}

impl Registry {
    /// Collects the probes, once. Returns whether the list has changed.
    #[cfg(probe_backend = "portable")]
    pub(crate) fn refresh(&mut self) -> bool {
        if self.probes.is_empty() {
            let definitions = crate::__private::v1::PROBE_DEFINITIONS_V1.static_slice();
            self.probes.extend(definitions.iter().map(Probe::new));
        }
        false
    }

    /// There are no probes.
    #[cfg(probe_backend = "off")]
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
    pub(crate) fn skipped(&self) -> usize {
        0
    }
}
