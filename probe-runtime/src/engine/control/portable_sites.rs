//! Switching sites, on backends where a site is only a flag: nothing is patched, no text is opened,
//! and there is one runtime.

#![expect(clippy::unnecessary_wraps, reason = "the same calls as where sites are patched")]

use std::ops::Range;

use super::sites::PatchPolicy;
use crate::engine::error::Error;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{Mode, Refusal, RefusalReason, Report, SiteAddr};

/// No site is ever refused.
#[derive(Default)]
pub(super) struct UnswitchedSites;

impl UnswitchedSites {
    /// Returns none: no other code changes flags.
    #[expect(clippy::unused_self, reason = "the same call as where sites are patched")]
    pub(super) fn foreign_writes(
        &self,
        _registry: &Registry,
        _ids: &[ProbeId],
        _modes_left: impl FnOnce() -> Vec<Option<Mode>>,
        _loaded: KeptLoaded<'_>,
    ) -> Vec<(ProbeId, Refusal)> {
        Vec::new()
    }
}

/// No text is patched, so none is open.
#[derive(Default)]
pub(super) struct HeldText {
    _nothing: (),
}

pub(super) fn open_text(
    _registry: &Registry,
    _ids: &[ProbeId],
    _policy: PatchPolicy,
    _loaded: KeptLoaded<'_>,
) -> Result<HeldText, Error> {
    Ok(HeldText::default())
}

pub(super) fn refuse(_registry: &Registry, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
    for _ in ids {
        report.refuse(Refusal::new(SiteAddr(0), reason.clone()));
    }
}

/// Does nothing: there is one runtime.
pub(super) fn exclude_taken_sites(
    _registry: &mut Registry,
    _attached: &[ProbeId],
    _frozen: &Frozen,
    _loaded: KeptLoaded<'_>,
) {
}

/// Does nothing: there is one runtime.
pub(super) fn refuse_taken_sites(_registry: &Registry, _ids: &[ProbeId], _report: &mut Report) {}

/// Returns `true`: no text is written.
pub(super) fn is_still_open(_text: &HeldText, _loaded: KeptLoaded<'_>) -> bool {
    true
}

/// Does nothing: no text was opened.
pub(super) fn close_text(_text: HeldText, _report: &mut Report, _loaded: KeptLoaded<'_>) {}

/// Does nothing: no text was open.
pub(super) fn forget_unloaded_text(_unloaded: &[Range<usize>]) {}
