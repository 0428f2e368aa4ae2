//! Switching sites, opening their text, and finding their places in machine code, on backends that
//! patch them.
//!
//! An operation leaves sites in the mode that their probes' attachments want. Sites that it could
//! not switch are exceptions ([`UnswitchedSites`]).
//!
//! Text is opened and sealed while its objects stay loaded, since the program may map pages of its
//! own in the place of one that is gone.
//!
//! Cost of finding foreign writes: see [`sites::foreign_writes`]. Only operations that list probes
//! compare all sites. Others compare those that they switch ([`LastState`]).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use super::lock::{Control, lock};
use super::probe_attachments::claim;
use super::sites::{IdRange, PatchPolicy, Switching, id_ranges};
use super::switch::Switch;
use crate::engine::error::Error;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::{self, Frozen, Generation, KeptLoaded};
use crate::engine::registry::provider::CallSite;
use crate::engine::registry::{ProbeId, ProbeState};
use crate::engine::sites::{
    self, Access, Batch, LastState, Mode, OpenText, Refusal, RefusalReason, Report, Site, SiteAddr,
    TextError, TextPolicy,
};

/// Sites that an operation could not switch although no other code had changed them: the text is
/// not writable, say.
pub(super) type UnswitchedSites = RefCell<BTreeSet<SiteAddr>>;

impl Control {
    /// Switches all sites of these ranges to `mode`. `left` is the mode in which the last operation
    /// left them, if that is known.
    #[inline(always)]
    pub(super) fn switch_ranges(
        &self,
        ranges: &[IdRange],
        mode: Mode,
        left: Option<Mode>,
        switching: &mut Switching<'_>,
    ) {
        let (registry, Switching { access, report, loaded }) = (&self.registry, switching);
        let (access, loaded) = (*access, *loaded);
        let refused_before = report.unswitched().len();
        let unswitched = self.unswitched.borrow();
        let has_unswitched = !unswitched.is_empty();
        let left = LastState { mode: left, but: has_unswitched.then_some(&*unswitched) };
        let mut batch = Batch::new(mode, report, loaded).last_state(left);
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
            registry.switch_calls(ranges, mode != Mode::Latent, access, report, loaded);
        }
        drop(unswitched);
        if has_unswitched || report.unswitched().len() != refused_before {
            self.note_unswitched(ranges, &report.unswitched()[refused_before..]);
        }
    }

    /// Notes which sites of these ranges an operation could not switch: `refused`, the new part of
    /// the report's list.
    #[cold]
    fn note_unswitched(&self, ranges: &[IdRange], refused: &[SiteAddr]) {
        let mut unswitched = self.unswitched.borrow_mut();
        for site in ranges.iter().flat_map(|range| self.registry.sites_of_run(range)) {
            unswitched.remove(&site.addr);
        }
        unswitched.extend(refused);
    }

    /// Refuses these probes' sites.
    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.sites(*id)) {
            report.refuse(Refusal::new(site.addr, reason.clone()));
        }
    }

    /// Reports the sites of other runtimes as refused.
    pub(super) fn refuse_taken_sites(&self, ids: &[ProbeId], report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.owned_elsewhere(*id)) {
            report.refuse(Refusal::new(site.addr, RefusalReason::Taken));
        }
    }

    /// Excludes sites in new objects whose definitions another runtime has taken first.
    pub(super) fn exclude_taken_sites(&mut self, ids: &[ProbeId], frozen: &Frozen, loaded: KeptLoaded<'_>) {
        let definitions = |id: &ProbeId| {
            let id = *id;
            self.registry.definitions(id, loaded).map(move |definition| (id, definition))
        };
        let definitions = ids.iter().flat_map(definitions);
        let taken: Vec<_> = definitions.filter(|(_, definition)| !claim(definition)).collect();
        if !taken.is_empty() {
            self.registry.cede(frozen, &taken);
        }
    }

    /// Forgets open text of unloaded objects: the same object may have been loaded there again,
    /// sealed, or the program may use the range for something else by now. If the list of sites is
    /// new, forgets which could not be switched: those of attachments are then switched, or
    /// refused, anew, so only held probes' sites are kept.
    pub(super) fn forget_unloaded(&mut self, text: &[Range<usize>], is_list_new: bool) {
        sites::forget_gone(text);
        if !is_list_new || self.unswitched.borrow().is_empty() {
            return;
        }
        let known = self.attachments.probes.known_probes();
        let held = known.filter(|id| self.attachments.state_of(*id) == ProbeState::Held);
        let kept: BTreeSet<_> = held.flat_map(|id| self.registry.sites(id)).map(|site| site.addr).collect();
        self.unswitched.get_mut().retain(|addr| kept.contains(addr));
    }

    /// Returns the sites of these probes that are not as they were left.
    pub(super) fn foreign_writes(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) -> Vec<(ProbeId, Refusal)> {
        let (registry, mut writes) = (&self.registry, Vec::new());
        let modes_left = self.attachments.modes_left(ids);
        for left in [Some(Mode::Counting), Some(Mode::Active), Some(Mode::Latent), None] {
            let ids = ids.iter().zip(&modes_left).filter(|(_, it)| **it == left);
            let sites = ids.flat_map(|(id, _)| registry.sites(*id).iter().map(|site| (*site, *id)));
            self.compare(sites.collect(), left, &mut writes, loaded);
        }
        // Hooks switch these without the control.
        if registry.has_calls() {
            let calls = ids.iter().flat_map(|id| {
                let calls = registry.calls_of_run(id.index()..=id.index());
                calls.filter(|call| call.is_settled()).filter_map(|call| Some((call.site()?, *id)))
            });
            self.compare(calls.collect(), None, &mut writes, loaded);
        }
        writes
    }

    fn compare(
        &self,
        mut sites: Vec<(Site, ProbeId)>,
        left: Option<Mode>,
        writes: &mut Vec<(ProbeId, Refusal)>,
        loaded: KeptLoaded<'_>,
    ) {
        sites.sort_unstable_by_key(|(site, _)| site.addr);
        let in_order: Vec<_> = sites.iter().map(|(site, _)| *site).collect();
        let unswitched = self.unswitched.borrow();
        for write in sites::foreign_writes(&in_order, left, loaded) {
            let addr = SiteAddr(write.site());
            let Ok(at) = sites.binary_search_by_key(&addr, |(site, _)| site.addr) else { continue };
            let (site, id) = sites[at];
            if !(unswitched.contains(&addr) && write.holds_own(site)) {
                writes.push((id, write));
            }
        }
    }

    /// Opens the text of these probes, if the policy asks for it.
    pub(super) fn open_text(
        &self,
        ids: &[ProbeId],
        policy: PatchPolicy,
        _loaded: KeptLoaded<'_>,
    ) -> Result<HeldText, Error> {
        if policy.text != TextPolicy::Open {
            return Ok(HeldText::default());
        }
        let (registry, ranges) = (&self.registry, id_ranges(ids));
        let calls = ranges.iter().flat_map(|range| registry.calls_of_run(range.clone()));
        let calls: Vec<Site> = calls.filter_map(CallSite::site).collect();
        let sites = || ranges.iter().flat_map(|range| registry.sites_of_run(range)).chain(&calls);
        let open = |text: Range<usize>| {
            OpenText::new(text.clone()).map_err(|error| {
                let is_policy =
                    matches!(error, TextError::Protected { errno: libc::EPERM | libc::EACCES, .. });
                let alternative = (is_policy && sites::alias_works()).then_some(TextPolicy::Alias);
                Error::TextProtected { text, error: io::Error::from(error), alternative }
            })
        };
        // If one can't be opened, those before it are dropped, which seals them.
        Ok(HeldText(registry.text_of(sites).into_iter().map(open).collect::<Result<_, _>>()?))
    }
}

/// The text that an attachment or a hold keeps open.
#[derive(Default)]
pub(super) struct HeldText(Vec<OpenText>);

impl HeldText {
    /// Returns whether the text is still writable. Another copy of this crate may have sealed it.
    pub(super) fn is_still_open(&self, _loaded: KeptLoaded<'_>) -> bool {
        self.0.iter().all(|segment| sites::renew(segment).is_ok())
    }

    /// Seals text that no other attachment holds open.
    pub(super) fn close(self, report: &mut Report, _loaded: KeptLoaded<'_>) {
        for segment in self.0 {
            if segment.close().is_err() {
                report.add_unsealed();
            }
        }
    }
}

/// A site in machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SitePlace {
    pub(crate) addr: usize,
    pub(crate) probe: ProbeId,
    /// The machine function around it.
    pub(crate) around: Range<usize>,
}

impl Switch {
    /// Returns the sites of these probes that lie in functions with tables for unwinding, by their
    /// addresses. They are as they are while no object is loaded or unloaded: as of this
    /// [generation](code_generation).
    pub(crate) fn places(probes: &[ProbeId]) -> (Generation, Vec<SitePlace>) {
        let mut probes = probes.to_vec();
        probes.sort_unstable();
        let mut locked = lock();
        let _whole = Uncancellable::new();
        locked.registry.name_pending();
        objects::freeze(|frozen| {
            locked.refresh(frozen);
            let registry = &locked.registry;
            let linked =
                probes.iter().flat_map(|id| registry.sites(*id).iter().map(move |site| (site.addr.0, *id)));
            let calls = registry.calls_of(&probes);
            let calls = calls.filter_map(|call| Some((call.site()?.addr.0, call.probe()?)));
            let mut sites: Vec<_> = linked.chain(calls).collect();
            sites.sort_unstable();
            sites.dedup();
            let addrs: Vec<_> = sites.iter().map(|(addr, _)| *addr).collect();
            let around = frozen.functions_around(&addrs);
            let place =
                |((addr, probe), around): (_, Option<_>)| Some(SitePlace { addr, probe, around: around? });
            (frozen.generation(), sites.into_iter().zip(around).filter_map(place).collect())
        })
    }
}

/// Returns how often objects were loaded and unloaded. Cost: some 50 ns.
pub(crate) fn code_generation() -> Generation {
    objects::freeze(Frozen::generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unloaded_sites_are_forgotten() {
        let mut control = Control::default();
        control.unswitched.get_mut().insert(SiteAddr(4096));
        control.forget_unloaded(&[], false);
        assert!(!control.unswitched.get_mut().is_empty());
        control.forget_unloaded(&[], true);
        assert!(control.unswitched.get_mut().is_empty());
    }
}
