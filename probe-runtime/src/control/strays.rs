//! Sites whose bytes have changed since the last operation.
//!
//! An operation leaves sites in the mode that their probes' members want. Sites that it could not
//! switch are exceptions, and are remembered here.
//!
//! Cost: see [`patch::strays`]. Only operations that list probes look here. Others compare while
//! they switch ([`LastState`](patch::LastState)).

use std::collections::BTreeSet;

use super::runs::Run;
use super::state::Control;
use crate::patch::{self, Mode, Refusal, Site, SiteAddr};
use crate::registry::{ProbeId, ProbeState};

/// Sites that an operation could not switch although no other code had changed them: the text is
/// not writable, say.
pub(super) type Unswitched = BTreeSet<SiteAddr>;

impl Control {
    /// Returns the sites of these probes that are not as they were left.
    pub(super) fn strays(&self, ids: &[ProbeId]) -> Vec<(ProbeId, Refusal)> {
        let mut strays = Vec::new();
        let left_each = self.left_each(ids);
        for left in [Some(Mode::Counting), Some(Mode::Active), Some(Mode::Latent), None] {
            let ids = ids.iter().zip(&left_each).filter(|(_, it)| **it == left);
            let mut sites: Vec<_> =
                ids.flat_map(|(id, _)| self.registry.sites(*id).iter().map(|site| (*site, *id))).collect();
            self.look_at(&mut sites, left, &mut strays);
        }
        // Hooks switch these without the control.
        if self.registry.has_calls() {
            let calls = ids.iter().flat_map(|id| {
                let calls = self.registry.calls_of_run(id.index()..=id.index());
                calls.filter(|call| call.is_settled()).filter_map(|call| Some((call.site()?, *id)))
            });
            self.look_at(&mut calls.collect::<Vec<_>>(), None, &mut strays);
        }
        strays
    }

    fn look_at(
        &self,
        sites: &mut [(Site, ProbeId)],
        left: Option<Mode>,
        strays: &mut Vec<(ProbeId, Refusal)>,
    ) {
        sites.sort_unstable_by_key(|(site, _)| site.addr);
        let in_order: Vec<_> = sites.iter().map(|(site, _)| *site).collect();
        let unswitched = self.unswitched.borrow();
        for stray in patch::strays(&in_order, left) {
            let addr = SiteAddr(stray.site());
            let Ok(at) = sites.binary_search_by_key(&addr, |(site, _)| site.addr) else { continue };
            let (site, id) = sites[at];
            if !(unswitched.contains(&addr) && stray.holds_own(site)) {
                strays.push((id, stray));
            }
        }
    }

    /// Remembers the sites of these runs that this operation could not switch: `refused`, the new
    /// part of the report's list.
    #[cold]
    pub(super) fn remember_unswitched(&self, runs: &[Run], refused: &[SiteAddr]) {
        let mut unswitched = self.unswitched.borrow_mut();
        for site in runs.iter().flat_map(|run| self.sites_of_run(run)) {
            unswitched.remove(&site.addr);
        }
        unswitched.extend(refused);
    }

    /// Forgets refusals of sites in unloaded objects. Called after objects were loaded or unloaded.
    /// Sites of attachments are then switched, or refused, anew, so only held probes' sites are
    /// kept.
    pub(super) fn forget_unswitched(&mut self) {
        if self.unswitched.borrow().is_empty() {
            return;
        }
        let all = (0..self.registry.len()).map(ProbeId::new);
        let held = all.filter(|id| self.state_of(*id) == ProbeState::Held);
        let live: Unswitched = held.flat_map(|id| self.registry.sites(id)).map(|site| site.addr).collect();
        self.unswitched.borrow_mut().retain(|addr| live.contains(addr));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut control = Control::default();
        control.unswitched.get_mut().insert(SiteAddr(4096));
        control.forget_unswitched();
        assert!(control.unswitched.get_mut().is_empty());
    }
}
