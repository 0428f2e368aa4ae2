//! Bringing attachments up to date with loaded and unloaded objects and discovered call sites; and
//! the data of probes, which is copied so that the counts of unloaded ones keep their names.
//!
//! Cost: after an unload, a pass over all probes and attachments. After loads or discoveries alone,
//! a pass over the new probes and their attachments. Otherwise a query of the dynamic linker.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lock::Control;
use super::reclaim::Reclaimable;
use super::site_backend::{exclude_taken_sites, forget_unloaded_text, refuse_taken_sites};
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
            self.apply(change, frozen, loaded);
        }
        loaded
    }

    fn apply(&mut self, change: Change, frozen: &Frozen, loaded: KeptLoaded<'_>) {
        self.changes += 1;
        forget_unloaded_text(&change.gone);
        if self.attachments.any_persistent() {
            if change.is_list_new {
                self.attachments.forget_unloaded(&self.registry, loaded);
            }
            let all = || (0..self.registry.len()).map(ProbeId::new).collect::<Vec<_>>();
            let all = change.is_list_new.then(all);
            let mut found: Vec<_> = change.found.iter().map(|(id, _)| *id).collect();
            found.sort_unstable();
            let ids = all.as_ref().unwrap_or(&change.new_probes);
            self.attachments.note_new(ids, &found, &self.registry, loaded);
        }
        if !change.is_list_new {
            self.adopt_call_sites(&change.found, false, loaded);
            self.extend_to_copies(change.new_probes, frozen, loaded);
            self.join_without_calls(loaded);
            return;
        }
        #[cfg(probe_backend = "patched")]
        self.forget_unswitched();
        for unloaded in change.unloaded {
            self.has_unloaded_calls = true;
            self.reclaimer.retire(Epoch::UNKNOWN, Reclaimable::Provider(unloaded));
        }
        self.adopt_call_sites(&change.found, true, loaded);
        // No probe above these ever had an attachment.
        let known = self.attachments.known_probes().collect();
        let attached = self.show_copies(known, frozen, loaded);
        self.keep_infos(&attached, loaded);
        for at in self.attachments.numbers() {
            if let Some(record) = self.attachments.record(at) {
                let ids = Arc::clone(&record.ids);
                self.switch_unasked(at, &ids, loaded);
            }
        }
        self.join_without_calls(loaded);
    }

    /// Extends attachments to the new copies of these probes.
    fn extend_to_copies(&mut self, mut ids: Vec<ProbeId>, frozen: &Frozen, loaded: KeptLoaded<'_>) {
        ids.sort_unstable();
        ids.dedup();
        let attached = self.show_copies(ids, frozen, loaded);
        self.keep_infos(&attached, loaded);
        let mut by_attachment: BTreeMap<usize, Vec<ProbeId>> = BTreeMap::new();
        for id in attached {
            for attachment in self.attachments.attachments_of(id) {
                by_attachment.entry(attachment).or_default().push(id);
            }
        }
        by_attachment.into_iter().for_each(|(attachment, ids)| self.switch_unasked(attachment, &ids, loaded));
    }

    /// Points the definitions of attached probes to their hooks. Returns the attached ones of these
    /// probes.
    fn show_copies(
        &mut self,
        mut ids: Vec<ProbeId>,
        frozen: &Frozen,
        loaded: KeptLoaded<'_>,
    ) -> Vec<ProbeId> {
        ids.retain(|id| self.attachments.is_attached(*id));
        exclude_taken_sites(&mut self.registry, &ids, frozen, loaded);
        self.attachments.show(&ids, &self.registry, loaded);
        ids
    }

    /// Switches the sites of some of an attachment's probes to their mode. No caller asked for it,
    /// so the result becomes the attachment's late report.
    pub(super) fn switch_unasked(&mut self, attachment: usize, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        let mut late = Report::default();
        refuse_taken_sites(&self.registry, ids, &mut late);
        let transition =
            self.attachments.record(attachment).map(|record| record.subscription.begin_transition());
        self.switch_probes(ids, &[], self.access_to_new(), &mut late, loaded);
        if let (Some(record), Some(transition)) = (self.attachments.record(attachment), transition) {
            record.subscription.commit_locked(transition);
        }
        self.attachments.set_late_report(attachment, late);
    }

    /// Forgets refusals of sites in unloaded objects. Called after objects were loaded or unloaded.
    /// Sites of attachments are then switched, or refused, anew, so only held probes' sites are
    /// kept.
    #[cfg(probe_backend = "patched")]
    fn forget_unswitched(&mut self) {
        if self.unswitched.borrow().is_empty() {
            return;
        }
        let held =
            self.attachments.known_probes().filter(|id| self.attachments.state_of(*id) == ProbeState::Held);
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
        self.with_foreign_writes(ids, loaded, Self::info).map(|(_, info)| info).collect()
    }

    /// Returns attached probes in their present state, including changed bytes, or from the copy if
    /// they are unloaded.
    pub(super) fn attached_infos(
        &self,
        ids: &[ProbeId],
        loaded: KeptLoaded<'_>,
    ) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        self.with_foreign_writes(ids, loaded, Self::attached_info)
    }

    /// Returns the sites of these probes that are not as they were left.
    pub(super) fn foreign_writes(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) -> Vec<(ProbeId, Refusal)> {
        self.unswitched.foreign_writes(&self.registry, ids, || self.attachments.modes_left(ids), loaded)
    }

    fn with_foreign_writes(
        &self,
        ids: &[ProbeId],
        loaded: KeptLoaded<'_>,
        info: fn(&Self, ProbeId, KeptLoaded<'_>) -> Option<ProbeInfo>,
    ) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        let mut writes = self.foreign_writes(ids, loaded);
        crate::engine::order::sort_by(&mut writes, |(a, _), (b, _)| a.cmp(b));
        ids.iter().filter_map(move |id| {
            let own = &writes[writes.partition_point(|(of, _)| of < id)..];
            let own = own.iter().take_while(|(of, _)| of == id).map(|(_, write)| write.clone());
            Some((*id, info(self, *id, loaded)?.with_foreign(own.collect())))
        })
    }

    /// Returns an attached probe in its present state, or from the copy if it is unloaded.
    pub(super) fn attached_info(&self, id: ProbeId, loaded: KeptLoaded<'_>) -> Option<ProbeInfo> {
        self.info(id, loaded).or_else(|| self.kept_infos.get(&id).map(ProbeInfo::unloaded))
    }

    /// Copies the data of attached probes that may be unloaded. Probes of the executable stay.
    pub(super) fn keep_infos(&mut self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        if self.registry.is_main_only() {
            return;
        }
        for &id in ids {
            if self.registry.is_in_main(id) || self.kept_infos.contains_key(&id) {
                continue;
            }
            if let Some(info) = self.info(id, loaded) {
                self.kept_infos.insert(id, info);
            }
        }
    }

    /// Drops the copies of probes that have no attachment any more.
    pub(super) fn drop_infos(&mut self, ids: &[ProbeId]) {
        if self.kept_infos.is_empty() {
            return;
        }
        for id in ids {
            if !self.attachments.is_attached(*id) {
                self.kept_infos.remove(id);
            }
        }
    }
}
