//! The part of the control that deals with sites, on backends where a site is only a flag.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the same calls as where sites are patched"
)]

use std::ops::Range;

use super::attached::Policy;
use super::runs::Run;
use super::state::Control;
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
    /// Shows or hides the hooks of these probes, which switches them here.
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

    /// Does nothing: there is one runtime.
    pub(super) fn leave_taken(&mut self, _frozen: &Frozen, _attached: &[ProbeId]) {}

    /// Does nothing: there is one runtime.
    pub(super) fn refuse_taken(&self, _ids: &[ProbeId], _report: &mut Report) {}
}

/// Returns `true`: no text is written.
pub(super) fn is_still_open(_text: &HeldText) -> bool {
    true
}

/// Does nothing: no text was opened.
pub(super) fn close_text(_text: HeldText, _report: &mut Report) {}

/// Does nothing: no text was open.
pub(super) fn forget_unloaded_text(_unloaded: &[Range<usize>]) {}
