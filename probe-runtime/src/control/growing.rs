//! The attachment that newly discovered probes are added to.

use std::collections::BTreeMap;

use super::attached::Growth;
use super::counters::sums;
use super::garbage::Garbage;
use super::parts::Part;
use super::runs::runs;
use super::state::Control;
use crate::dispatch::{Action, CounterAt, Era};
use crate::patch::Report;
use crate::registry::ProbeId;
use crate::registry::provider::{self, CallSite};

impl Control {
    /// Adds discovered call sites to the growing attachment, and gives them the control's own
    /// hooks.
    pub(super) fn adopt(&mut self, found: &[(ProbeId, &'static dyn CallSite)]) -> Report {
        let mut report = Report::default();
        if !provider::IS_POSSIBLE {
            return report;
        }
        let growing = self.growing.filter(|at| self.attached(*at).is_some());
        let (mut adopted, mut hooked) = (Vec::new(), Vec::new());
        for &(id, call) in found {
            let inline = call.counter();
            let is_part = growing.is_some_and(|at| {
                self.members(id).is_some_and(|it| it.attachments(&self.parts).any(|of| of == at))
            });
            let wants_counter = inline.is_none() && growing.is_some() && !is_part;
            let provider = self.registry.provider().filter(|_| wants_counter);
            let Some(counter) = inline.or_else(|| provider?.take_counter(call)) else { continue };
            self.change(id, |_, _| ());
            if let Some(attachment) = growing {
                self.grow(attachment, id, counter);
                if !is_part {
                    self.counters.reserve(id);
                    self.add_part(id, Part::new(attachment, Action::Count(CounterAt::new(counter))));
                }
            }
            self.publish(&[id]);
            if inline.is_some() {
                hooked.push(call);
            }
            adopted.push(id);
        }
        if adopted.is_empty() {
            return report;
        }
        // Definitions do not refer to these hooks any more.
        if let Some(hooks) = self.registry.provider().and_then(|it| it.take_hooks(&hooked)) {
            self.limbo.retire(Era::UNKNOWN, Garbage::Provider(hooks));
        }
        adopted.sort_unstable();
        adopted.dedup();
        self.remember(&adopted);
        let access = self.access_to_new();
        self.switch_each(&adopted, &[], access, &mut report);
        report
    }

    /// Pauses or resumes probes that are discovered from now on, if this is the growing attachment.
    /// Returns whether it is.
    pub(super) fn pause_growing(&mut self, attachment: usize, is_paused: bool) -> bool {
        let is_growing = self.growing == Some(attachment);
        let provider = self.registry.provider().filter(|_| is_growing);
        provider.into_iter().for_each(|it| it.pause_growing(is_paused));
        is_growing
    }

    fn grow(&mut self, attachment: usize, id: ProbeId, counter: usize) {
        if let Some(growth) = self.attached_mut(attachment).and_then(|attached| attached.growth.as_mut()) {
            growth.counters.push((id, counter));
            growth.is_settled = false;
        }
    }

    /// Updates the list of a growing attachment's probes, before an operation on all of them.
    pub(super) fn settle_growth(&mut self, attachment: usize) {
        let attached = self.attached_mut(attachment).filter(|_| provider::IS_POSSIBLE);
        let Some(attached) = attached else { return };
        let Some(growth) = attached.growth.as_mut().filter(|growth| !growth.is_settled) else { return };
        growth.is_settled = true;
        let ids = growth.ids();
        attached.runs = runs(&ids);
        attached.ids = ids.into();
    }
}

impl Growth {
    /// Returns its probes, ascending.
    pub(super) fn ids(&self) -> Vec<ProbeId> {
        let mut ids: Vec<_> = self.counters.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Adds the counts of the attachment's own counters for these probes: of hits while their hooks
    /// were inline ones, or while another attachment was called with them.
    pub(super) fn add_own(&self, ids: &[ProbeId], counted: &mut [u64]) {
        let counters = || self.counters.iter().map(|(_, counter)| *counter);
        let (Some(first), Some(last)) = (counters().min(), counters().max()) else { return };
        let sums = sums(first..last + 1);
        let mut own = BTreeMap::<ProbeId, u64>::new();
        for (id, counter) in &self.counters {
            *own.entry(*id).or_default() += sums[counter - first];
        }
        ids.iter().zip(counted).for_each(|(id, counted)| *counted += own.get(id).unwrap_or(&0));
    }
}
