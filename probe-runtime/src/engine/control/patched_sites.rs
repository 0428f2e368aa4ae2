//! Switching sites and opening their text, on backends that patch them.
//!
//! An operation leaves sites in the mode that their probes' attachments want. Sites that it could
//! not switch are exceptions ([`UnswitchedSites`]).
//!
//! Text is opened and sealed while its objects stay loaded, since the program may map pages of its
//! own in the place of one that is gone.
//!
//! Cost of finding foreign writes: see [`sites::foreign_writes`]. Only operations that list probes
//! compare all sites. Others compare those that they switch ([`LastState`]).

use std::cell::{Ref, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use super::probe_attachments::claim;
use super::sites::{IdRange, PatchPolicy, id_ranges};
use crate::engine::error::Error;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::provider::CallSite;
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{
    self, Access, Batch, LastState, Mode, OpenText, Refusal, RefusalReason, Report, Site, SiteAddr,
    TextError, TextPolicy,
};

/// All sites, and those of them that an operation could not switch.
pub(super) struct Sites<'a> {
    pub(super) registry: &'a Registry,
    pub(super) unswitched: &'a UnswitchedSites,
    /// The objects of all sites stay loaded.
    pub(super) loaded: KeptLoaded<'a>,
}

impl Sites<'_> {
    /// Switches all sites of these ranges to `mode`. `left` is the mode in which the last operation
    /// left them, if that is known.
    #[inline(always)]
    pub(super) fn switch(
        self,
        ranges: &[IdRange],
        mode: Mode,
        access: Access,
        left: Option<Mode>,
        report: &mut Report,
    ) {
        let registry = self.registry;
        let refused_before = report.unswitched().len();
        let unswitched = self.unswitched.borrow();
        let has_unswitched = !unswitched.is_empty();
        let left = LastState { mode: left, but: has_unswitched.then_some(&*unswitched) };
        let mut batch = Batch::new(mode, report, self.loaded).last_state(left);
        match ranges {
            _ if access == Access::Held => {
                ranges.iter().for_each(|range| batch.switch(registry.sites_of_run(range), Access::Held));
            }
            [range] if registry.sites_of_run(range).is_sorted_by_key(|site| site.addr) => {
                batch.switch(registry.sites_of_run(range), access);
            }
            // Sites in ascending order let each run of pages be opened once. An inlined probe's
            // sites are scattered, and so are those of several ranges.
            ranges => {
                let mut sites: Vec<Site> =
                    ranges.iter().flat_map(|range| registry.sites_of_run(range)).copied().collect();
                sites.sort_unstable_by_key(|site| site.addr);
                batch.switch(&sites, access);
            }
        }
        if registry.has_calls() {
            registry.switch_calls(ranges, mode != Mode::Latent, access, report, self.loaded);
        }
        drop(unswitched);
        if has_unswitched || report.unswitched().len() != refused_before {
            let all = ranges.iter().flat_map(|range| registry.sites_of_run(range));
            self.unswitched.update(all, &report.unswitched()[refused_before..]);
        }
    }
}

/// Refuses these probes' sites.
pub(super) fn refuse(registry: &Registry, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
    for site in ids.iter().flat_map(|id| registry.sites(*id)) {
        report.refuse(Refusal::new(site.addr, reason.clone()));
    }
}

/// Excludes sites in new objects whose definitions another runtime has taken first.
pub(super) fn exclude_taken_sites(
    registry: &mut Registry,
    attached: &[ProbeId],
    frozen: &Frozen,
    loaded: KeptLoaded<'_>,
) {
    let definitions = |id: &ProbeId| {
        let id = *id;
        registry.definitions(id, loaded).map(move |definition| (id, definition))
    };
    let taken: Vec<_> =
        attached.iter().flat_map(definitions).filter(|(_, definition)| !claim(definition)).collect();
    if !taken.is_empty() {
        registry.cede(frozen, &taken);
    }
}

/// Reports the sites of other runtimes as refused.
pub(super) fn refuse_taken_sites(registry: &Registry, ids: &[ProbeId], report: &mut Report) {
    for site in ids.iter().flat_map(|id| registry.owned_elsewhere(*id)) {
        report.refuse(Refusal::new(site.addr, RefusalReason::Taken));
    }
}

/// Sites that an operation could not switch although no other code had changed them: the text is
/// not writable, say.
#[derive(Default)]
pub(super) struct UnswitchedSites(RefCell<BTreeSet<SiteAddr>>);

impl UnswitchedSites {
    #[inline(always)]
    pub(super) fn borrow(&self) -> Ref<'_, BTreeSet<SiteAddr>> {
        self.0.borrow()
    }

    /// Notes which of an operation's sites it could not switch: `refused`, the new part of the
    /// report's list.
    #[cold]
    pub(super) fn update<'a>(&self, sites: impl Iterator<Item = &'a Site>, refused: &[SiteAddr]) {
        let mut all = self.0.borrow_mut();
        for site in sites {
            all.remove(&site.addr);
        }
        all.extend(refused);
    }

    /// Forgets all but these sites.
    pub(super) fn retain<'a>(&mut self, kept: impl Iterator<Item = &'a Site>) {
        let kept: BTreeSet<_> = kept.map(|site| site.addr).collect();
        self.0.get_mut().retain(|addr| kept.contains(addr));
    }

    /// Returns the sites of these probes that are not as they were left: in the mode that
    /// `modes_left` returns for each probe.
    pub(super) fn foreign_writes(
        &self,
        registry: &Registry,
        ids: &[ProbeId],
        modes_left: impl FnOnce() -> Vec<Option<Mode>>,
        loaded: KeptLoaded<'_>,
    ) -> Vec<(ProbeId, Refusal)> {
        let mut writes = Vec::new();
        let modes_left = modes_left();
        for left in [Some(Mode::Counting), Some(Mode::Active), Some(Mode::Latent), None] {
            let ids = ids.iter().zip(&modes_left).filter(|(_, it)| **it == left);
            let mut sites: Vec<_> =
                ids.flat_map(|(id, _)| registry.sites(*id).iter().map(|site| (*site, *id))).collect();
            self.compare(&mut sites, left, &mut writes, loaded);
        }
        // Hooks switch these without the control.
        if registry.has_calls() {
            let calls = ids.iter().flat_map(|id| {
                let calls = registry.calls_of_run(id.index()..=id.index());
                calls.filter(|call| call.is_settled()).filter_map(|call| Some((call.site()?, *id)))
            });
            self.compare(&mut calls.collect::<Vec<_>>(), None, &mut writes, loaded);
        }
        writes
    }

    fn compare(
        &self,
        sites: &mut [(Site, ProbeId)],
        left: Option<Mode>,
        writes: &mut Vec<(ProbeId, Refusal)>,
        loaded: KeptLoaded<'_>,
    ) {
        sites.sort_unstable_by_key(|(site, _)| site.addr);
        let in_order: Vec<_> = sites.iter().map(|(site, _)| *site).collect();
        let unswitched = self.borrow();
        for write in sites::foreign_writes(&in_order, left, loaded) {
            let addr = SiteAddr(write.site());
            let Ok(at) = sites.binary_search_by_key(&addr, |(site, _)| site.addr) else { continue };
            let (site, id) = sites[at];
            if !(unswitched.contains(&addr) && write.holds_own(site)) {
                writes.push((id, write));
            }
        }
    }
}

/// The text that an attachment or a hold keeps open.
pub(super) type HeldText = Vec<OpenText>;

/// Opens the text of these probes, if the policy asks for it.
pub(super) fn open_text(
    registry: &Registry,
    ids: &[ProbeId],
    policy: PatchPolicy,
    _loaded: KeptLoaded<'_>,
) -> Result<HeldText, Error> {
    if policy.text != TextPolicy::Open {
        return Ok(Vec::new());
    }
    let ranges = id_ranges(ids);
    let calls = ranges.iter().flat_map(|range| registry.calls_of_run(range.clone()));
    let calls: Vec<Site> = calls.filter_map(CallSite::site).collect();
    let sites = || ranges.iter().flat_map(|range| registry.sites_of_run(range)).chain(&calls);
    let open = |text: Range<usize>| {
        OpenText::new(text.clone()).map_err(|error| {
            let is_policy = matches!(error, TextError::Protected { errno: libc::EPERM | libc::EACCES, .. });
            let alternative = (is_policy && sites::alias_works()).then_some(TextPolicy::Alias);
            Error::TextProtected { text, error: io::Error::from(error), alternative }
        })
    };
    // If one can't be opened, those before it are dropped, which seals them.
    registry.text_of(sites).into_iter().map(open).collect()
}

/// Returns whether the text is still writable. Another copy of this crate may have sealed it.
pub(super) fn is_still_open(text: &HeldText, _loaded: KeptLoaded<'_>) -> bool {
    text.iter().all(|segment| sites::renew(segment).is_ok())
}

/// Seals text that no other attachment holds open.
pub(super) fn close_text(text: HeldText, report: &mut Report, _loaded: KeptLoaded<'_>) {
    for segment in text {
        if segment.close().is_err() {
            report.add_unsealed();
        }
    }
}

/// Forgets that these address ranges were open. The same object may have been loaded there again,
/// sealed, or the program may use the range for something else by now.
pub(super) fn forget_unloaded_text(unloaded: &[Range<usize>]) {
    sites::forget_gone(unloaded);
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn unloaded_sites_are_forgotten() {
        let mut unswitched = UnswitchedSites::default();
        unswitched.update(iter::empty(), &[SiteAddr(4096)]);
        unswitched.retain(iter::empty());
        assert!(unswitched.borrow().is_empty());
    }
}
