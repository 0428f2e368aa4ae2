//! Sites whose bytes have changed since the last operation.
//!
//! An operation leaves sites in the mode that their probes' members want. Sites that it could not
//! switch are exceptions, and are remembered here.
//!
//! Cost: see [`sites::foreign_writes`]. Only operations that list probes compare here. Others do so
//! while they switch ([`LastState`](patch::LastState)).

use std::cell::{Ref, RefCell};
use std::collections::BTreeSet;

use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{self, Mode, Refusal, Site, SiteAddr};

/// Sites that an operation could not switch although no other code had changed them: the text is
/// not writable, say.
#[derive(Default)]
pub(super) struct Unswitched(RefCell<BTreeSet<SiteAddr>>);

impl Unswitched {
    /// Returns all of them.
    #[inline(always)]
    pub(super) fn all(&self) -> Ref<'_, BTreeSet<SiteAddr>> {
        self.0.borrow()
    }

    /// Remembers which of an operation's sites it could not switch: `refused`, the new part of the
    /// report's list.
    #[cold]
    pub(super) fn remember<'a>(&self, sites: impl Iterator<Item = &'a Site>, refused: &[SiteAddr]) {
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
    /// `left_each` returns for each probe.
    pub(super) fn strays(
        &self,
        registry: &Registry,
        ids: &[ProbeId],
        left_each: impl FnOnce() -> Vec<Option<Mode>>,
        loaded: KeptLoaded<'_>,
    ) -> Vec<(ProbeId, Refusal)> {
        let mut strays = Vec::new();
        let left_each = left_each();
        for left in [Some(Mode::Counting), Some(Mode::Active), Some(Mode::Latent), None] {
            let ids = ids.iter().zip(&left_each).filter(|(_, it)| **it == left);
            let mut sites: Vec<_> =
                ids.flat_map(|(id, _)| registry.sites(*id).iter().map(|site| (*site, *id))).collect();
            self.compare(&mut sites, left, &mut strays, loaded);
        }
        // Hooks switch these without the control.
        if registry.has_calls() {
            let calls = ids.iter().flat_map(|id| {
                let calls = registry.calls_of_run(id.index()..=id.index());
                calls.filter(|call| call.is_settled()).filter_map(|call| Some((call.site()?, *id)))
            });
            self.compare(&mut calls.collect::<Vec<_>>(), None, &mut strays, loaded);
        }
        strays
    }

    fn compare(
        &self,
        sites: &mut [(Site, ProbeId)],
        left: Option<Mode>,
        strays: &mut Vec<(ProbeId, Refusal)>,
        loaded: KeptLoaded<'_>,
    ) {
        sites.sort_unstable_by_key(|(site, _)| site.addr);
        let in_order: Vec<_> = sites.iter().map(|(site, _)| *site).collect();
        let unswitched = self.all();
        for stray in sites::foreign_writes(&in_order, left, loaded) {
            let addr = SiteAddr(stray.site());
            let Ok(at) = sites.binary_search_by_key(&addr, |(site, _)| site.addr) else { continue };
            let (site, id) = sites[at];
            if !(unswitched.contains(&addr) && stray.holds_own(site)) {
                strays.push((id, stray));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut unswitched = Unswitched::default();
        unswitched.remember(iter::empty(), &[SiteAddr(4096)]);
        unswitched.retain(iter::empty());
        assert!(unswitched.all().is_empty());
    }
}
