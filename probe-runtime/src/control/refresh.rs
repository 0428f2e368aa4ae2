//! Updating attachments for loaded and unloaded objects, and for discovered call sites.
//!
//! Cost: after an unload, a pass over all probes and attachments. After loads or discoveries alone,
//! a pass over the new probes and their attachments. Otherwise a query of the dynamic linker.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::forget_unloaded_text;
use super::garbage::Garbage;
use super::members::Members;
use super::state::Control;
use crate::dispatch::Era;
use crate::os::objects::Frozen;
use crate::patch::{Access, Report, TextPolicy};
use crate::registry::{ProbeId, ProbeState};

impl Control {
    /// Looks for loaded, unloaded and discovered probes, and switches new sites to the mode that
    /// their probes want.
    pub(super) fn refresh(&mut self, frozen: &Frozen) {
        let Some(change) = self.registry.refresh(frozen) else { return };
        forget_unloaded_text(&change.gone);
        if !change.is_list_new {
            self.adopt(&change.found);
            self.take_in(frozen, change.arrived);
            return;
        }
        #[cfg(probe_backend = "patched")]
        self.forget_unswitched();
        for unloaded in change.unloaded {
            self.has_unloaded = true;
            self.limbo.retire(Era::UNKNOWN, Garbage::Provider(unloaded));
        }
        self.adopt(&change.found);
        // Only these probes ever had members.
        let attached: Vec<_> = (0..self.members.len()).map(ProbeId::new).collect();
        let attached = self.show_new(frozen, attached);
        self.remember(&attached);
        for at in self.numbers() {
            self.settle_growth(at);
            let ids = self.attached(at).map(|attached| Arc::clone(&attached.ids));
            ids.into_iter().for_each(|ids| self.switch_late(at, &ids));
        }
    }

    /// Extends attachments to the new copies of these probes.
    fn take_in(&mut self, frozen: &Frozen, mut ids: Vec<ProbeId>) {
        ids.sort_unstable();
        ids.dedup();
        let attached = self.show_new(frozen, ids);
        self.remember(&attached);
        let mut by_attachment: BTreeMap<usize, Vec<ProbeId>> = BTreeMap::new();
        for id in attached {
            for attachment in self.members(id).into_iter().flat_map(|it| it.attachments(&self.parts)) {
                by_attachment.entry(attachment).or_default().push(id);
            }
        }
        by_attachment.into_iter().for_each(|(attachment, ids)| self.switch_late(attachment, &ids));
    }

    /// Points the definitions of attached probes to their hooks. Returns the attached ones of these
    /// probes.
    pub(super) fn show_new(&mut self, frozen: &Frozen, mut ids: Vec<ProbeId>) -> Vec<ProbeId> {
        ids.retain(|id| self.members(*id).is_some_and(Members::has_parts));
        self.leave_taken(frozen, &ids);
        for id in &ids {
            let is_visible = cfg!(probe_backend = "patched") || self.state_of(*id) == ProbeState::Active;
            self.members(*id).into_iter().for_each(|members| {
                members.show(self.registry.definitions(*id), is_visible);
            });
        }
        ids
    }

    /// Switches the sites of some of an attachment's probes to their mode, without a call that
    /// asked for it, and keeps the result as its late report.
    pub(super) fn switch_late(&mut self, attachment: usize, ids: &[ProbeId]) {
        let mut late = Report::default();
        self.refuse_taken(ids, &mut late);
        let unsettled = self.attached(attachment).map(|attached| attached.subscription.unsettle());
        self.switch_each(ids, &[], self.access_to_new(), &mut late);
        if let (Some(attached), Some(unsettled)) = (self.attached(attachment), unsettled) {
            attached.subscription.settle_locked(unsettled);
        }
        self.keep_late(attachment, late);
    }

    /// Returns the access to new copies: through the kernel if any attachment writes so, since
    /// other ways may be denied.
    pub(super) fn access_to_new(&self) -> Access {
        let text = if self.uses_alias() { TextPolicy::Alias } else { TextPolicy::Sealed };
        Access::under(text, self.policies().any(|policy| policy.strict))
    }

    /// Returns whether any attachment writes text through the kernel.
    pub(super) fn uses_alias(&self) -> bool {
        self.policies().any(|policy| policy.text == TextPolicy::Alias)
    }
}
