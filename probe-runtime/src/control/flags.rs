//! The part of the control that knows of sites, where a flag is all that there is of them.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the same calls as where sites are patched"
)]

use std::ops::Range;

use super::state::{Control, Policy};
use super::switch::Run;
use crate::error::Error;
use crate::patch::{Refusal, RefusalReason, Report, SiteAddr};
use crate::registry::{ProbeId, ProbeState};

impl Control {
    /// The hook is the switch: shows or hides it.
    pub(super) fn switch_runs(&self, runs: &[Run], _active: bool, _is_open: bool, report: &mut Report) {
        for id in runs.iter().cloned().flatten().map(ProbeId::new) {
            let Some(members) = self.members(id) else { continue };
            let is_visible = self.state_of(id) == ProbeState::Active;
            let (switched, unchanged) = members.show(self.registry.definitions(id), is_visible);
            report.add_patched(switched);
            report.add_unchanged(unchanged);
        }
    }

    pub(super) fn open_text(
        &mut self,
        _ids: &[ProbeId],
        _policy: Policy,
    ) -> Result<Vec<Range<usize>>, Error> {
        Ok(Vec::new())
    }

    pub(super) fn close_text(&mut self, _text: &[Range<usize>], _report: &mut Report) {}

    pub(super) fn forget_unloaded_text(&mut self) {}

    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for _ in ids {
            report.refuse(Refusal::new(SiteAddr(0), reason.clone()));
        }
    }
}
