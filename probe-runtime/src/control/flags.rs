//! The part of the control that knows of sites, where a flag is all that there is of them.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the same calls as where sites are patched"
)]

use std::ops::Range;

use super::attached::Policy;
use super::state::Control;
use super::switch::Run;
use crate::error::Error;
use crate::os::objects::Frozen;
use crate::patch::{Access, Mode, Refusal, RefusalReason, Report, SiteAddr};
use crate::registry::{ProbeId, ProbeState};

/// No text is patched, so none is open.
#[derive(Default)]
pub(super) struct HeldText {
    _nothing: (),
}

impl Control {
    /// The hook is the switch: shows or hides it.
    pub(super) fn change_runs(
        &self,
        runs: &[Run],
        _mode: Mode,
        _access: Access,
        _left: Option<Mode>,
        report: &mut Report,
    ) {
        for id in runs.iter().cloned().flatten().map(ProbeId::new) {
            let Some(members) = self.members(id) else { continue };
            let is_visible = self.state_of(id) == ProbeState::Active;
            let (switched, unchanged) = members.show(self.registry.definitions(id), is_visible);
            report.add_patched(switched);
            report.add_unchanged(unchanged);
        }
    }

    pub(super) fn strays(&self, _ids: &[ProbeId]) -> Vec<(ProbeId, Refusal)> {
        Vec::new()
    }

    pub(super) fn open_text(&self, _ids: &[ProbeId], _policy: Policy) -> Result<HeldText, Error> {
        Ok(HeldText::default())
    }

    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for _ in ids {
            report.refuse(Refusal::new(SiteAddr(0), reason.clone()));
        }
    }

    /// There is one runtime.
    pub(super) fn leave_taken(&mut self, _frozen: &Frozen, _attached: &[ProbeId]) {}

    /// There is one runtime.
    pub(super) fn refuse_taken(&self, _ids: &[ProbeId], _report: &mut Report) {}
}

/// Nothing is written.
pub(super) fn is_still_open(_text: &HeldText) -> bool {
    true
}

/// Nothing was opened.
pub(super) fn close_text(_text: HeldText, _report: &mut Report) {}

/// Nothing was open.
pub(super) fn forget_unloaded_text(_unloaded: &[Range<usize>]) {}
