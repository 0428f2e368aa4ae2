//! All attachments, and their parts in probes.
//!
//! An attachment knows on how many probes it alone decides, and how many of its parts are off or
//! frozen ([`Attached::decides_alone`]). Only methods of [`Attachments`] change parts, and they
//! keep these numbers true.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::attached::Attached;
use super::counters::Counters;
use super::members::Members;
use super::parts::{Part, Parts};
use super::policy::Policy;
use crate::engine::dispatch::{Epoch, Subscription};
use crate::engine::registry::{ProbeId, ProbeState};
use crate::engine::sites::{Mode, Report, TextPolicy};

/// Whether there is any attachment, for hooks.
static ANY: AtomicBool = AtomicBool::new(false);

/// Returns whether anything is attached.
#[cfg(probe_discovers)]
pub(crate) fn is_any_attached() -> bool {
    ANY.load(Ordering::SeqCst)
}

/// All attachments, by number, the members of each probe, and the counters.
#[derive(Default)]
pub(super) struct Attachments {
    pub(super) all: Vec<Option<Attached>>,
    pub(super) members: Vec<Members>,
    pub(super) parts: Parts,
    pub(super) counters: Counters,
}

impl Attachments {
    /// Returns the range of attachments' numbers.
    pub(super) fn numbers(&self) -> Range<usize> {
        0..self.all.len()
    }

    pub(super) fn attached(&self, attachment: usize) -> Option<&Attached> {
        self.all.get(attachment)?.as_ref()
    }

    pub(super) fn attached_mut(&mut self, attachment: usize) -> Option<&mut Attached> {
        self.all.get_mut(attachment)?.as_mut()
    }

    /// Returns the policies of all attachments.
    pub(super) fn policies(&self) -> impl Iterator<Item = Policy> + '_ {
        self.all.iter().flatten().map(|attached| attached.policy)
    }

    /// Returns the text policy where no attachment's own applies: through the kernel if any
    /// attachment writes so, since other ways may be denied.
    pub(super) fn common_text_policy(&self) -> TextPolicy {
        let uses_alias = self.policies().any(|policy| policy.text == TextPolicy::Alias);
        if uses_alias { TextPolicy::Alias } else { TextPolicy::Sealed }
    }

    /// Returns the attachments whose consumers have failed, and that are not paused yet.
    pub(super) fn failed(&self) -> Vec<usize> {
        let has_failed =
            |attached: &Attached| attached.subscription.has_failed() && !attached.is_paused.get();
        self.numbers().filter(|at| self.attached(*at).is_some_and(has_failed)).collect()
    }

    /// Fails the attachments that need a thread of the parent's, in a forked child. Returns whether
    /// there are any.
    pub(super) fn orphan(&self) -> bool {
        let attached = self.all.iter().flatten();
        attached.filter(|attached| attached.subscription.orphan()).count() != 0
    }

    /// Returns whether probes may join any attachment.
    pub(super) fn any_standing(&self) -> bool {
        self.all.iter().flatten().any(|attached| attached.standing.is_some())
    }

    /// Returns whether probes with first hits are to join any attachment.
    pub(super) fn waits_for_first_hits(&self) -> bool {
        let mut standing = self.all.iter().flatten().filter_map(|attached| attached.standing.as_ref());
        standing.any(|it| it.has_first_hits && !(it.waiting.is_empty() && it.joining.is_empty()))
    }

    /// Ends joining that is under way, in a forked child.
    pub(super) fn cut_joining(&mut self) {
        self.all.iter_mut().flatten().filter_map(|it| it.standing.as_mut()).for_each(|it| it.cut());
    }

    /// Keeps the report of a change that no caller has asked for.
    pub(super) fn keep_late(&mut self, attachment: usize, report: Report) {
        if let Some(attached) = self.attached_mut(attachment) {
            attached.late = report;
        }
    }

    /// Stores an attachment that hits may find from now on; returns its number.
    pub(super) fn place(&mut self, attached: Attached, now: Epoch) -> usize {
        let number = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[number] = Some(Attached { since: now, ..attached });
        ANY.store(true, Ordering::SeqCst);
        number
    }

    /// Removes an attachment and its parts. Returns it, and whether its own counters may have
    /// counted beside those of its probes.
    pub(super) fn remove(&mut self, attachment: usize) -> Option<(Attached, bool)> {
        let attached = self.all[attachment].take()?;
        ANY.store(self.all.iter().any(Option::is_some), Ordering::SeqCst);
        let mut is_mixed = false;
        for &id in &*attached.ids {
            self.change(id, |members, parts| {
                is_mixed |= members.remove(parts, attachment).is_some_and(|part| part.is_mixed);
            });
        }
        Some((attached, is_mixed))
    }

    /// Returns a probe's members, if it ever had any.
    pub(super) fn members(&self, id: ProbeId) -> Option<&Members> {
        self.members.get(id.index())
    }

    /// Returns whether attachments have parts in a probe.
    pub(super) fn has_parts(&self, id: ProbeId) -> bool {
        self.members(id).is_some_and(Members::has_parts)
    }

    /// Returns whether an attachment has a part in a probe.
    pub(super) fn has_part(&self, attachment: usize, id: ProbeId) -> bool {
        self.members(id).is_some_and(|members| members.part(&self.parts, attachment).is_some())
    }

    /// Returns the attachments that have parts in a probe.
    pub(super) fn attachments_of(&self, id: ProbeId) -> impl Iterator<Item = usize> {
        self.members(id).into_iter().flat_map(|members| members.attachments(&self.parts))
    }

    /// Returns a probe's state.
    pub(super) fn state_of(&self, id: ProbeId) -> ProbeState {
        let state = |members: &Members| members.state(&self.parts, is_paused(&self.all));
        self.members(id).map_or(ProbeState::Latent, state)
    }

    /// Returns the mode in which the last operation left the sites of a probe. Returns `None` if
    /// this copy of the crate has not switched them; another copy may have.
    #[inline]
    pub(super) fn left(&self, id: ProbeId) -> Option<Mode> {
        let members = self.members(id).filter(|members| members.has_parts())?;
        Some(members.mode(&self.parts, self.counters.of(id), is_paused(&self.all)))
    }

    /// Returns [`left`](Self::left) of each of these probes.
    pub(super) fn left_each(&self, ids: &[ProbeId]) -> Vec<Option<Mode>> {
        ids.iter().map(|id| self.left(*id)).collect()
    }

    /// Returns the mode that a probe's sites should have.
    #[inline]
    pub(super) fn mode_of(&self, id: ProbeId) -> Mode {
        self.left(id).unwrap_or(Mode::Latent)
    }

    /// Returns all probes up to the last one that had members.
    pub(super) fn known(&self) -> impl Iterator<Item = ProbeId> {
        (0..self.members.len()).map(ProbeId::new)
    }

    /// Makes room for another part in each of these probes, which ascend.
    pub(super) fn reserve(&mut self, ids: &[ProbeId]) {
        self.parts.reserve(ids.len());
        ids.last().into_iter().for_each(|last| self.make_room(*last));
    }

    /// Makes members for this probe and all with smaller numbers.
    pub(super) fn make_room(&mut self, id: ProbeId) {
        if self.members.len() <= id.index() {
            self.members.resize_with(id.index() + 1, Members::default);
        }
    }

    /// Adds an attachment's part in a probe.
    pub(super) fn add(&mut self, id: ProbeId, part: Part) {
        if let Some(attached) = self.attached_mut(part.attachment()) {
            attached.frozen.set(attached.frozen.get() + usize::from(part.is_frozen));
            attached.off += usize::from(part.is_off);
        }
        self.change(id, |members, parts| members.add(parts, part));
    }

    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| self.change(*id, |members, _| members.hold()));
    }

    pub(super) fn release(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| self.change(*id, |members, _| members.release()));
    }

    /// Changes a probe's members, and updates the number of probes on which each attachment alone
    /// decides.
    fn change(&mut self, id: ProbeId, change: impl FnOnce(&mut Members, &mut Parts)) {
        self.make_room(id);
        let members = &mut self.members[id.index()];
        let before = members.sole(&self.parts);
        change(members, &mut self.parts);
        let after = members.sole(&self.parts);
        if before != after {
            for (attachment, sign) in [(before, -1), (after, 1)] {
                if let Some(attached) = attachment.and_then(|at| self.all[at].as_mut()) {
                    attached.sole = attached.sole.wrapping_add_signed(sign);
                }
            }
        }
    }

    /// Switches an attachment's part in a probe off or on. Returns whether that was a change;
    /// `None` if it has no part.
    pub(super) fn set_off(&mut self, attachment: usize, id: ProbeId, is_off: bool) -> Option<bool> {
        let members = self.members.get(id.index())?;
        let is_change = members.set_off(&mut self.parts, attachment, is_off)?;
        if let Some(attached) = self.attached_mut(attachment).filter(|_| is_change) {
            attached.off = if is_off { attached.off + 1 } else { attached.off - 1 };
        }
        Some(is_change)
    }

    /// Counts or delivers an attachment's hits of a probe from now on.
    pub(super) fn set_counting(
        &mut self,
        attachment: usize,
        id: ProbeId,
        subscription: &Subscription,
        is_counting: bool,
    ) {
        if let Some(members) = self.members.get(id.index()) {
            members.set_counting(&mut self.parts, attachment, subscription, is_counting);
        }
    }

    /// Returns whether switching an attachment's part in a probe off or on takes a new hook. A sole
    /// listener's hook stays, and only the sites change, unless its part is frozen: it must first
    /// be thawed, so that hits counted for others are left out.
    pub(super) fn needs_hook(&self, attachment: usize, id: ProbeId) -> bool {
        self.attachments_of(id).nth(1).is_some()
            || self.members(id).and_then(|it| it.part(&self.parts, attachment)).is_some_and(|it| it.is_frozen)
    }

    /// Returns an attachment's probes.
    pub(super) fn ids(&self, attachment: usize) -> Arc<[ProbeId]> {
        self.attached(attachment).map(|attached| Arc::clone(&attached.ids)).unwrap_or_default()
    }

    /// Returns the report of the last change to an attachment that no caller has asked for.
    pub(super) fn late(&self, attachment: usize) -> Report {
        self.attached(attachment).map(|attached| attached.late.clone()).unwrap_or_default()
    }
}

/// Returns a function that returns whether an attachment is paused.
pub(super) fn is_paused(attachments: &[Option<Attached>]) -> impl Fn(usize) -> bool + Clone + '_ {
    |at| attachments[at].as_ref().is_some_and(|attached| attached.is_paused.get())
}
