//! What is known of probes: of those that are loaded, from their definitions; of those that are attached to and have
//! been unloaded since, from a copy, so that what they counted keeps its name.

use super::members::Members;
use super::state::Control;
use crate::registry::{ProbeId, ProbeInfo};

impl Control {
    /// A probe as it is now; `None` once it is unloaded.
    pub(super) fn info(&self, id: ProbeId) -> Option<ProbeInfo> {
        let definition = self.registry.definition(id)?;
        let ty = |field| self.registry.field_type(id, field).or_else(|| definition.field_type(field));
        Some(ProbeInfo::new(id, definition, ty, self.registry.site_count(id), self.state_of(id)))
    }

    /// Probes as they are now, their sites' bytes looked at; those that are unloaded are left out.
    pub(super) fn infos(&self, ids: &[ProbeId]) -> Vec<ProbeInfo> {
        self.looked_at(ids, Self::info).map(|(_, info)| info).collect()
    }

    /// Attached probes as they are now, their sites' bytes looked at, or as they were.
    pub(super) fn attached_infos(&self, ids: &[ProbeId]) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        self.looked_at(ids, Self::attached_info)
    }

    fn looked_at(
        &self,
        ids: &[ProbeId],
        info: fn(&Self, ProbeId) -> Option<ProbeInfo>,
    ) -> impl Iterator<Item = (ProbeId, ProbeInfo)> {
        let mut strays = self.strays(ids);
        crate::order::sort_by(&mut strays, |(a, _), (b, _)| a.cmp(b));
        ids.iter().filter_map(move |id| {
            let own = &strays[strays.partition_point(|(of, _)| of < id)..];
            let own = own.iter().take_while(|(of, _)| of == id).map(|(_, stray)| stray.clone());
            Some((*id, info(self, *id)?.with_foreign(own.collect())))
        })
    }

    /// An attached probe as it is now, or as it was.
    pub(super) fn attached_info(&self, id: ProbeId) -> Option<ProbeInfo> {
        self.info(id).or_else(|| self.remembered.get(&id).map(ProbeInfo::unloaded))
    }

    /// Copies what is known of attached probes, while it is there: those of the executable stay.
    pub(super) fn remember(&mut self, ids: &[ProbeId]) {
        if self.registry.is_main_only() {
            return;
        }
        for &id in ids {
            if self.registry.is_in_main(id) || self.remembered.contains_key(&id) {
                continue;
            }
            if let Some(info) = self.info(id) {
                self.remembered.insert(id, info);
            }
        }
    }

    /// Forgets those of the probes to which nobody is attached any more.
    pub(super) fn forget(&mut self, ids: &[ProbeId]) {
        if self.remembered.is_empty() {
            return;
        }
        for id in ids {
            if !self.members(*id).is_some_and(Members::has_parts) {
                self.remembered.remove(id);
            }
        }
    }
}
