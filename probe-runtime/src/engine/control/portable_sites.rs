//! Switching sites, on backends where a site is only a flag: nothing is patched, no text is opened,
//! and there is one runtime.

#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "the same calls as where sites are patched"
)]

use std::ops::Range;

use super::lock::Control;
use super::sites::{IdRange, PatchPolicy, Switching};
use crate::engine::error::Error;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::ProbeId;
use crate::engine::sites::{Mode, Refusal, RefusalReason, Report, SiteAddr};

impl Control {
    /// Shows or hides the hooks of the probes in these ranges.
    pub(super) fn switch_ranges(
        &self,
        ranges: &[IdRange],
        mode: Mode,
        _left: Option<Mode>,
        Switching { report, loaded, .. }: &mut Switching<'_>,
    ) {
        for id in ranges.iter().cloned().flatten().map(ProbeId::new) {
            let definitions = self.registry.definitions(id, *loaded);
            let (switched, unchanged) = self.attachments.probes.show(id, definitions, mode != Mode::Latent);
            report.add_patched(switched);
            report.add_unchanged(unchanged);
        }
    }

    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for _ in ids {
            report.refuse(Refusal::new(SiteAddr(0), reason.clone()));
        }
    }

    /// Does nothing: there is one runtime.
    pub(super) fn refuse_taken_sites(&self, _ids: &[ProbeId], _report: &mut Report) {}

    /// Does nothing: there is one runtime.
    pub(super) fn exclude_taken_sites(&self, _ids: &[ProbeId], _frozen: &Frozen, _loaded: KeptLoaded<'_>) {}

    /// Does nothing: no text was open, and all sites were switched.
    pub(super) fn forget_unloaded(&self, _text: &[Range<usize>], _is_list_new: bool) {}

    /// Returns none: no other code changes flags.
    pub(super) fn foreign_writes(&self, _: &[ProbeId], _: KeptLoaded<'_>) -> Vec<(ProbeId, Refusal)> {
        Vec::new()
    }

    /// Opens nothing: no text is written.
    pub(super) fn open_text(
        &self,
        _ids: &[ProbeId],
        _policy: PatchPolicy,
        _loaded: KeptLoaded<'_>,
    ) -> Result<HeldText, Error> {
        Ok(HeldText)
    }
}

/// The text that an attachment or a hold keeps open: none.
#[derive(Default)]
pub(super) struct HeldText;

impl HeldText {
    /// Returns `true`: no text is written.
    pub(super) fn is_still_open(&self, _loaded: KeptLoaded<'_>) -> bool {
        true
    }

    pub(super) fn close(self, _report: &mut Report, _loaded: KeptLoaded<'_>) {}
}
