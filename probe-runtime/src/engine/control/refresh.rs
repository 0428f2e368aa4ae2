//! Bringing attachments up to date with loaded and unloaded objects and discovered call sites; and
//! the data of probes, which is copied so that the counts of unloaded ones keep their names.
//!
//! Cost: after an unload, a pass over all probes and attachments. After loads or discoveries alone,
//! a pass over the new probes and their attachments. Otherwise a query of the dynamic linker.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lock::Control;
use super::reclaim::Reclaimable;
use super::sites::Switching;
use crate::engine::dispatch::Epoch;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::{Change, ProbeId, ProbeInfo, ProbeState};
use crate::engine::sites::Report;

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
        self.forget_unloaded(&change.gone, change.is_list_new);
        self.note_change(&change, loaded);
        for unloaded in change.unloaded {
            self.has_unloaded_calls = true;
            self.reclaimer.retire(Epoch::UNKNOWN, Reclaimable::Provider(unloaded));
        }
        #[cfg(probe_values)]
        if change.is_list_new {
            self.forget_values();
        }
        self.adopt_call_sites(&change.found, change.is_list_new, loaded);
        let mut ids = change.new_probes;
        if change.is_list_new {
            // No probe above these ever had an attachment.
            ids = self.attachments.probes.known_probes().collect();
        }
        ids.retain(|id| self.attachments.probes.is_attached(*id));
        ids.sort_unstable();
        ids.dedup();
        self.extend_to_copies(&ids, frozen, loaded);
        self.join_without_calls(loaded);
    }

    /// Points all definitions of these attached probes to their hooks, and switches all sites to
    /// their mode.
    fn extend_to_copies(&mut self, ids: &[ProbeId], frozen: &Frozen, loaded: KeptLoaded<'_>) {
        self.exclude_taken_sites(ids, frozen, loaded);
        let mut by_attachment: BTreeMap<usize, Vec<ProbeId>> = BTreeMap::new();
        for &id in ids {
            for slot in self.attachments.probes.slots(id) {
                by_attachment.entry(slot.attachment()).or_default().push(id);
            }
        }
        let records = by_attachment.keys().filter_map(|attachment| self.attachments.record(*attachment));
        records.for_each(|record| record.subscription.look_at_objects());
        for &id in ids {
            let is_visible =
                cfg!(probe_backend = "patched") || self.attachments.state_of(id) == ProbeState::Active;
            self.attachments.probes.show(id, self.registry.definitions(id, loaded), is_visible);
        }
        self.keep_infos(ids, loaded);
        by_attachment.into_iter().for_each(|(attachment, ids)| self.switch_unasked(attachment, &ids, loaded));
    }

    /// Switches the sites of some of an attachment's probes to their mode. No caller asked for it,
    /// so the result becomes the attachment's late report.
    fn switch_unasked(&mut self, attachment: usize, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        let mut late = Report::default();
        self.refuse_taken_sites(ids, &mut late);
        let Some(record) = self.attachments.record(attachment) else { return };
        let subscription = Arc::clone(&record.subscription);
        let transition = subscription.begin_transition();
        let (access, report) = (self.access_to_new(), &mut late);
        self.switch_probes(ids, &[], Switching { access, report, loaded });
        subscription.commit_locked(transition);
        self.attachments.set_late_report(attachment, late);
    }

    /// Returns all probes, including unloaded ones.
    pub(super) fn all_ids(&self) -> Vec<ProbeId> {
        (0..self.registry.len()).map(ProbeId::new).collect()
    }

    /// Returns a probe in its present state; `None` once it is unloaded.
    pub(super) fn info(&self, id: ProbeId, loaded: KeptLoaded<'_>) -> Option<ProbeInfo> {
        let definition = self.registry.definition(id, loaded)?;
        let ty = |field| self.registry.field_type(id, field).or_else(|| definition.field_type(field));
        let info =
            ProbeInfo::new(id, definition, ty, self.registry.site_count(id), self.attachments.state_of(id));
        Some(info.found_by_hit(self.registry.was_reached(id)))
    }

    /// Returns probes in their present state, including changed bytes of their sites. Of unloaded
    /// probes, returns the copies of attached ones.
    pub(super) fn infos(
        &self,
        ids: &[ProbeId],
        loaded: KeptLoaded<'_>,
    ) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        let mut writes = self.foreign_writes(ids, loaded);
        crate::engine::order::sort_by(&mut writes, |(a, _), (b, _)| a.cmp(b));
        ids.iter().filter_map(move |id| {
            let own = &writes[writes.partition_point(|(of, _)| of < id)..];
            let own = own.iter().take_while(|(of, _)| of == id).map(|(_, write)| write.clone());
            let copy = || self.kept_infos.get(id).map(ProbeInfo::unloaded);
            Some((*id, self.info(*id, loaded).or_else(copy)?.with_foreign(own.collect())))
        })
    }

    /// Returns [`infos`](Self::infos) without unloaded probes.
    pub(super) fn loaded_infos(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) -> Vec<ProbeInfo> {
        let infos = self.infos(ids, loaded).map(|(_, info)| info);
        infos.filter(|info| info.state() != ProbeState::Unloaded).collect()
    }

    /// Copies the data of attached probes that may be unloaded. Probes of the executable stay.
    pub(super) fn keep_infos(&mut self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        if self.registry.is_main_only() {
            return;
        }
        for &id in ids {
            if !(self.registry.is_in_main(id) || self.kept_infos.contains_key(&id))
                && let Some(info) = self.info(id, loaded)
            {
                self.kept_infos.insert(id, info);
            }
        }
    }

    /// Drops the copies of probes that have no attachment any more.
    pub(super) fn drop_infos(&mut self, ids: &[ProbeId]) {
        if !self.kept_infos.is_empty() {
            let is_attached = |id: &ProbeId| self.attachments.probes.is_attached(*id);
            ids.iter().filter(|id| !is_attached(id)).for_each(|id| _ = self.kept_infos.remove(id));
        }
    }
}
