//! Forcing probes off.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::lock::operate;
use super::state::{Policy, settle};
use crate::patch::Report;
use crate::registry::ProbeId;

/// Keeps probes latent while it lives, whoever is attached to them. From [`ProbeSet::hold`](super::ProbeSet::hold).
#[must_use = "dropping the hold lets the probes go"]
pub struct Hold {
    ids: Arc<[ProbeId]>,
    policy: Policy,
    report: Report,
    text: Vec<Range<usize>>,
}

impl Hold {
    pub(super) fn new(ids: Arc<[ProbeId]>, policy: Policy, report: Report, text: Vec<Range<usize>>) -> Self {
        Self { ids, policy, report, text }
    }

    /// What making the sites latent did.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        operate(|control| control.release(&self.ids, &self.text));
        settle(self.policy.visibility);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("probes", &self.ids.len()).finish_non_exhaustive()
    }
}
