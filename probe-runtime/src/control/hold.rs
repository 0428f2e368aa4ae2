//! Forcing probes off.

use std::fmt;
use std::sync::Arc;

use super::HeldText;
use super::lock::lock;
use super::state::{Policy, settle};
use crate::patch::Report;
use crate::registry::ProbeId;

/// Keeps probes latent while it lives, whoever is attached to them. From [`ProbeSet::hold`](super::ProbeSet::hold).
#[must_use = "dropping the hold lets the probes go"]
pub struct Hold {
    ids: Arc<[ProbeId]>,
    policy: Policy,
    report: Report,
    text: HeldText,
}

impl Hold {
    pub(super) fn new(ids: Arc<[ProbeId]>, policy: Policy, report: Report, text: HeldText) -> Self {
        Self { ids, policy, report, text }
    }

    /// What making the sites latent did.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        lock().release(&self.ids, self.policy, std::mem::take(&mut self.text));
        settle(self.policy.visibility);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("probes", &self.ids.len()).finish_non_exhaustive()
    }
}
