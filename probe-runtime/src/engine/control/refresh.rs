//! Updating attachments for loaded and unloaded objects, and for discovered call sites.
//!
//! Cost: after an unload, a pass over all probes and attachments. After loads or discoveries alone,
//! a pass over the new probes and their attachments. Otherwise a query of the dynamic linker.
//!
//! Data of probes: from the definition while a probe is loaded, and from a copy once an attached
//! probe is unloaded, so that its counts keep their name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lock::Control;
use super::reclaim::Garbage;
use super::site_backend::{forget_unloaded_text, leave_taken, refuse_taken};
use crate::engine::dispatch::Epoch;
use crate::engine::os::objects::{Frozen, KeptLoaded};
#[cfg(probe_backend = "patched")]
use crate::engine::registry::ProbeState;
use crate::engine::registry::{Change, ProbeId, ProbeInfo};
use crate::engine::sites::{Refusal, Report};

impl Control {
    /// Looks for loaded, unloaded and discovered probes, and switches new sites to the mode that
    /// their probes want. Returns the proof that all known objects stay loaded.
    pub(super) fn refresh<'a>(&mut self, frozen: &'a Frozen) -> KeptLoaded<'a> {
        let (change, loaded) = self.registry.refresh(frozen);
        if let Some(change) = change {
            self.take_over(change, frozen, loaded);
        }
        loaded
    }

    fn take_over(&mut self, change: Change, frozen: &Frozen, loaded: KeptLoaded<'_>) {
        self.changes += 1;
        forget_unloaded_text(&change.gone);
        if self.attachments.any_persistent() {
            if change.is_list_new {
                self.attachments.note_gone(&self.registry, loaded);
            }
            let all = || (0..self.registry.len()).map(ProbeId::new).collect::<Vec<_>>();
            let all = change.is_list_new.then(all);
            let mut found: Vec<_> = change.found.iter().map(|(id, _)| *id).collect();
            found.sort_unstable();
            let ids = all.as_ref().unwrap_or(&change.new_probes);
            self.attachments.note_late(ids, &found, &self.registry, loaded);
        }
        if !change.is_list_new {
            self.adopt(&change.found, false, loaded);
            self.take_in(change.new_probes, frozen, loaded);
            self.join_at_once(loaded);
            return;
        }
        #[cfg(probe_backend = "patched")]
        self.forget_unswitched();
        for unloaded in change.unloaded {
            self.has_unloaded = true;
            self.reclaimer.retire(Epoch::UNKNOWN, Garbage::Provider(unloaded));
        }
        self.adopt(&change.found, true, loaded);
        // No probe above these ever had members.
        let attached = self.attachments.known().collect();
        let attached = self.show_new(attached, frozen, loaded);
        self.remember(&attached, loaded);
        for at in self.attachments.numbers() {
            if let Some(attached) = self.attachments.attached(at) {
                let ids = Arc::clone(&attached.ids);
                self.switch_late(at, &ids, loaded);
            }
        }
        self.join_at_once(loaded);
    }

    /// Extends attachments to the new copies of these probes.
    fn take_in(&mut self, mut ids: Vec<ProbeId>, frozen: &Frozen, loaded: KeptLoaded<'_>) {
        ids.sort_unstable();
        ids.dedup();
        let attached = self.show_new(ids, frozen, loaded);
        self.remember(&attached, loaded);
        let mut by_attachment: BTreeMap<usize, Vec<ProbeId>> = BTreeMap::new();
        for id in attached {
            for attachment in self.attachments.attachments_of(id) {
                by_attachment.entry(attachment).or_default().push(id);
            }
        }
        by_attachment.into_iter().for_each(|(attachment, ids)| self.switch_late(attachment, &ids, loaded));
    }

    /// Points the definitions of attached probes to their hooks. Returns the attached ones of these
    /// probes.
    fn show_new(&mut self, mut ids: Vec<ProbeId>, frozen: &Frozen, loaded: KeptLoaded<'_>) -> Vec<ProbeId> {
        ids.retain(|id| self.attachments.has_parts(*id));
        leave_taken(&mut self.registry, &ids, frozen, loaded);
        self.attachments.show(&ids, &self.registry, loaded);
        ids
    }

    /// Switches the sites of some of an attachment's probes to their mode, without a call that
    /// asked for it, and keeps the result as its late report.
    pub(super) fn switch_late(&mut self, attachment: usize, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        let mut late = Report::default();
        refuse_taken(&self.registry, ids, &mut late);
        let unsettled =
            self.attachments.attached(attachment).map(|attached| attached.subscription.begin_transition());
        self.switch_each(ids, &[], self.access_to_new(), &mut late, loaded);
        if let (Some(attached), Some(unsettled)) = (self.attachments.attached(attachment), unsettled) {
            attached.subscription.commit_locked(unsettled);
        }
        self.attachments.keep_late(attachment, late);
    }

    /// Forgets refusals of sites in unloaded objects. Called after objects were loaded or unloaded.
    /// Sites of attachments are then switched, or refused, anew, so only held probes' sites are
    /// kept.
    #[cfg(probe_backend = "patched")]
    fn forget_unswitched(&mut self) {
        if self.unswitched.all().is_empty() {
            return;
        }
        let held = self.attachments.known().filter(|id| self.attachments.state_of(*id) == ProbeState::Held);
        self.unswitched.retain(held.flat_map(|id| self.registry.sites(id)));
    }
}

impl Control {
    /// Returns a probe in its present state; `None` once it is unloaded.
    pub(super) fn info(&self, id: ProbeId, loaded: KeptLoaded<'_>) -> Option<ProbeInfo> {
        let definition = self.registry.definition(id, loaded)?;
        let ty = |field| self.registry.field_type(id, field).or_else(|| definition.field_type(field));
        let info =
            ProbeInfo::new(id, definition, ty, self.registry.site_count(id), self.attachments.state_of(id));
        Some(info.found_by_hit(self.registry.was_reached(id)))
    }

    /// Returns probes in their present state, including changed bytes of their sites. Omits
    /// unloaded probes.
    pub(super) fn infos(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) -> Vec<ProbeInfo> {
        self.with_strays(ids, loaded, Self::info).map(|(_, info)| info).collect()
    }

    /// Returns attached probes in their present state, including changed bytes, or from the copy if
    /// they are unloaded.
    pub(super) fn attached_infos(
        &self,
        ids: &[ProbeId],
        loaded: KeptLoaded<'_>,
    ) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        self.with_strays(ids, loaded, Self::attached_info)
    }

    /// Returns the sites of these probes that are not as they were left.
    pub(super) fn strays(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) -> Vec<(ProbeId, Refusal)> {
        self.unswitched.strays(&self.registry, ids, || self.attachments.left_each(ids), loaded)
    }

    fn with_strays(
        &self,
        ids: &[ProbeId],
        loaded: KeptLoaded<'_>,
        info: fn(&Self, ProbeId, KeptLoaded<'_>) -> Option<ProbeInfo>,
    ) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        let mut strays = self.strays(ids, loaded);
        crate::engine::order::sort_by(&mut strays, |(a, _), (b, _)| a.cmp(b));
        ids.iter().filter_map(move |id| {
            let own = &strays[strays.partition_point(|(of, _)| of < id)..];
            let own = own.iter().take_while(|(of, _)| of == id).map(|(_, stray)| stray.clone());
            Some((*id, info(self, *id, loaded)?.with_foreign(own.collect())))
        })
    }

    /// Returns an attached probe in its present state, or from the copy if it is unloaded.
    pub(super) fn attached_info(&self, id: ProbeId, loaded: KeptLoaded<'_>) -> Option<ProbeInfo> {
        self.info(id, loaded).or_else(|| self.remembered.get(&id).map(ProbeInfo::unloaded))
    }

    /// Copies the data of attached probes that may be unloaded. Probes of the executable stay.
    pub(super) fn remember(&mut self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        if self.registry.is_main_only() {
            return;
        }
        for &id in ids {
            if self.registry.is_in_main(id) || self.remembered.contains_key(&id) {
                continue;
            }
            if let Some(info) = self.info(id, loaded) {
                self.remembered.insert(id, info);
            }
        }
    }

    /// Drops the copies of probes that have no attachment any more.
    pub(super) fn forget(&mut self, ids: &[ProbeId]) {
        if self.remembered.is_empty() {
            return;
        }
        for id in ids {
            if !self.attachments.has_parts(*id) {
                self.remembered.remove(id);
            }
        }
    }
}
