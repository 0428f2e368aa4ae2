//! The attachment that newly discovered probes are added to, and what else the control does for discoveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::HeldText;
use super::attached::{Attached, Growth, Policy};
use super::attachment::Attachment;
use super::lock::operate;
use super::parts::Part;
use super::ready;
use super::retired::{Garbage, settle};
use super::state::Control;
use super::switch::runs;
use super::tallies::sums;
use super::untyped::Untyped;
use super::{Consumer, Wants};
use crate::dispatch::{Action, Awaited, Era, Subscription, TallyAt};
use crate::error::Error;
use crate::finstrument::{self, Discovery};
use crate::patch::{Report, Visibility};
use crate::registry::{ProbeId, ProbeInfo};

/// The probe of a discovery, as it is now.
pub(crate) fn probe_of(discovery: &'static Discovery) -> Option<ProbeInfo> {
    operate(|control| control.info(discovery.probe()?))
}

/// All discoveries that are in loaded objects, with their probes.
pub(crate) fn discovered() -> Vec<(&'static Discovery, ProbeInfo)> {
    operate(|control| {
        let all = control.registry.discovered().iter();
        all.filter_map(|(id, discovery)| Some((*discovery, control.info(*id)?))).collect()
    })
}

/// Attaches to all discovered probes, and to each that will be.
pub(crate) fn attach_growing<C: Consumer>(consumer: C, capacity: usize) -> Result<Attachment<C>, Error> {
    ready::require()?;
    let consumer = Arc::new(consumer);
    let subscription = Arc::new(Subscription::new(Arc::clone(&consumer)));
    let (number, report) = operate(|control| control.begin_growing(capacity, &subscription))?;
    settle(Policy::default().visibility, None);
    let untyped = Untyped::new(number, subscription, report, Policy::default());
    Ok(Attachment::new(consumer, untyped))
}

/// Adds no more to it. Returns whether no thread can be about to give a probe one of its counters; not known inside a hit.
pub(crate) fn end_growing() -> bool {
    operate(|control| {
        if let Some(growing) = finstrument::end() {
            control.limbo.retire(Era::UNKNOWN, Garbage::Growing(growing));
        }
    });
    settle(Visibility::Synchronous, Some(Awaited::Passing)).is_some()
}

/// Looks for what is new, and nothing else.
pub(crate) fn look() {
    operate(|_| ());
}

impl Control {
    fn begin_growing(
        &mut self,
        capacity: usize,
        subscription: &Arc<Subscription>,
    ) -> Result<(usize, Report), Error> {
        if finstrument::is_growing() {
            return Err(Error::Growing);
        }
        let tallies = self.tallies.take(capacity).ok_or(Error::OutOfCounters { wanted: capacity })?;
        let (none, policy, text) = (Arc::default(), Policy::default(), HeldText::new());
        let mut attached = Attached::new(none, Wants::Tally, tallies.clone(), subscription, policy, text);
        attached.growth = Some(Growth::default());
        let number = self.place(attached);
        self.growing = Some(number);
        finstrument::begin(Arc::clone(subscription), tallies);
        let all = self.registry.discovered().to_vec();
        all.iter().for_each(|(_, discovery)| discovery.come_back());
        Ok((number, self.adopt(&all)))
    }

    /// Adds discoveries to the growing attachment, and gives them hooks of the control's own.
    pub(super) fn adopt(&mut self, discoveries: &[(ProbeId, &'static Discovery)]) -> Report {
        let mut report = Report::default();
        let growing = self.growing.filter(|at| self.attached(*at).is_some());
        let mut adopted = Vec::new();
        for &(id, discovery) in discoveries {
            let early = discovery.tally();
            let is_part = growing.is_some_and(|at| {
                self.members(id).is_some_and(|it| it.attachments(&self.parts).any(|of| of == at))
            });
            let wants_tally = early.is_none() && growing.is_some() && !is_part;
            let Some(tally) = early.or_else(|| wants_tally.then(finstrument::take_tally).flatten()) else {
                if wants_tally {
                    discovery.go_beyond();
                }
                continue;
            };
            self.change(id, |_, _| ());
            if let Some(attachment) = growing {
                self.grow(attachment, id, tally);
                if !is_part {
                    self.tallies.reserve(id);
                    self.add_part(id, Part::new(attachment, Action::Tally(TallyAt::new(tally))));
                }
            }
            self.publish(&[id]);
            if let Some(early) = discovery.take_early() {
                self.limbo.retire(Era::UNKNOWN, Garbage::Early(early));
            }
            adopted.push(id);
        }
        if adopted.is_empty() {
            return report;
        }
        adopted.sort_unstable();
        adopted.dedup();
        self.remember(&adopted);
        let access = self.access_to_new();
        self.switch_each(&adopted, &[], access, &mut report);
        report
    }

    fn grow(&mut self, attachment: usize, id: ProbeId, tally: usize) {
        if let Some(growth) = self.attached_mut(attachment).and_then(|attached| attached.growth.as_mut()) {
            growth.tallied.push((id, tally));
            growth.is_settled = false;
        }
    }

    /// Has an attachment's list of probes be what it has grown to: before something is done to all of them.
    pub(super) fn settle_growth(&mut self, attachment: usize) {
        let Some(attached) = self.attached_mut(attachment) else { return };
        let Some(growth) = attached.growth.as_mut().filter(|growth| !growth.is_settled) else { return };
        growth.is_settled = true;
        let ids = growth.ids();
        attached.runs = runs(&ids);
        attached.ids = ids.into();
    }
}

impl Growth {
    /// Its probes, ascending.
    pub(super) fn ids(&self) -> Vec<ProbeId> {
        let mut ids: Vec<_> = self.tallied.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Adds what each of these probes has counted by counters of its own: while its hook was an early
    /// one, or others were told of its hits.
    pub(super) fn add_own(&self, ids: &[ProbeId], counted: &mut [u64]) {
        let tallies = || self.tallied.iter().map(|(_, tally)| *tally);
        let (Some(first), Some(last)) = (tallies().min(), tallies().max()) else { return };
        let sums = sums(first..last + 1);
        let mut own = BTreeMap::<ProbeId, u64>::new();
        for (id, tally) in &self.tallied {
            *own.entry(*id).or_default() += sums[tally - first];
        }
        ids.iter().zip(counted).for_each(|(id, counted)| *counted += own.get(id).unwrap_or(&0));
    }
}
