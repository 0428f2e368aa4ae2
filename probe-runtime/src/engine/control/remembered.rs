//! Data of probes: from the definition while a probe is loaded, and from a copy once an attached
//! probe is unloaded, so that its counts keep their name.

use super::state::Control;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, ProbeInfo};
use crate::engine::sites::Refusal;

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
