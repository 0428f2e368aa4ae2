//! The attachments and holds of each probe, and the hook that results.
//!
//! An attachment has a slot in each of its probes. All slots lie in one piece of memory, in a list
//! for each probe, oldest first. The places of removed slots are reused.
//!
//! Cost: 32 bytes for each slot. [`ProbeAttachments::reserve`] makes room for all slots of an
//! attachment at once.

use std::sync::atomic::Ordering;
use std::{iter, mem, ptr};

use super::Start;
use crate::engine::dispatch::{Action, CounterAt, Published, Subscription};
use crate::engine::entry::backend;
use crate::engine::registry::{ProbeId, ProbeState};
use crate::engine::sites::Mode;
use probe_core::abi::Definition;

/// One attachment's slot in one probe.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be true of any slot")]
pub(super) struct AttachmentSlot {
    attachment: u32,
    pub(super) action: Action,
    /// Whether it is switched off, while its attachment listens elsewhere.
    pub(super) is_off: bool,
    /// Whether hits are counted now, instead of being delivered.
    pub(super) is_counting: bool,
    /// Whether the probe's counter does not count for it now, because it does not listen or has not
    /// begun; other slots may be counting. Always false for a slot that never counts.
    pub(super) is_frozen: bool,
    /// Whether its attachment's own counters may have counted hits, too.
    pub(super) uses_own: bool,
    /// While it is frozen, the number of hits that the probe's counter has counted for it.
    /// Otherwise the counter's value when it was thawed, less that number.
    tally: u64,
    /// The next newer slot.
    next: Link,
}

impl AttachmentSlot {
    /// Returns a new slot in the initial state that its consumer asks for.
    pub(super) fn new(attachment: usize, action: Action, start: Start) -> Self {
        let is_switchable = matches!(action, Action::Call { counted: Some(_), .. });
        Self {
            attachment: u32::try_from(attachment).expect("fewer than 2^32 attachments"),
            action,
            is_off: start == Start::Off,
            is_counting: is_switchable && start == Start::Counted,
            is_frozen: action.counts(),
            uses_own: false,
            tally: 0,
            next: 0,
        }
    }

    /// Freezes a thawed slot, or thaws a frozen one, now that the probe's counter is at `sum`.
    pub(super) fn toggle_frozen(&mut self, sum: u64) {
        self.is_frozen = !self.is_frozen;
        self.tally = sum.wrapping_sub(self.tally);
    }

    /// Returns the number of hits counted for it by the probe's counter, which is at `sum` now.
    pub(super) fn counted(&self, sum: u64) -> u64 {
        if self.is_frozen { self.tally } else { sum.wrapping_sub(self.tally) }
    }

    pub(super) fn attachment(&self) -> usize {
        self.attachment as usize
    }
}

/// The index of a slot, plus 1; 0 ends a list.
type Link = u32;

/// The attachments to one probe, the number of holds on it, and its hook.
///
/// | listening slots | holds | sites | hook |
/// |---|---|---|---|
/// | none | any | latent | none, or that of a sole slot that is paused or off |
/// | some, and all that a hit does is to be counted by the probe's counter | 0 | counting | theirs |
/// | some others | 0 | active | theirs |
/// | some | ≥ 1 | latent | theirs |
#[derive(Default)]
struct OneProbe {
    first: Link,
    holds: u32,
    hook: Option<Published>,
}

/// The attachments to all probes. The argument `is_paused` of its methods returns whether an
/// attachment is paused.
#[derive(Default)]
pub(super) struct ProbeAttachments {
    probes: Vec<OneProbe>,
    slots: Vec<AttachmentSlot>,
    /// The first unused slot, which is in no probe's list.
    free: Link,
    free_len: usize,
}

/// The effects of a new hook on the way in which hits are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CounterTransition {
    /// Whether some slots must be frozen or thawed.
    pub(super) freezes: bool,
    /// Whether the attachments' own counters may count from now on.
    pub(super) uses_own: bool,
}

impl ProbeAttachments {
    /// Returns all probes up to the last one that ever had an attachment or a hold.
    pub(super) fn known_probes(&self) -> impl Iterator<Item = ProbeId> {
        (0..self.probes.len()).map(ProbeId::new)
    }

    /// Makes room for another slot in each of these probes, which ascend.
    pub(super) fn reserve(&mut self, ids: &[ProbeId]) {
        self.slots.reserve(ids.len().saturating_sub(self.free_len));
        ids.last().into_iter().for_each(|last| self.make_room(*last));
    }

    /// Makes room for the attachments of this probe and of all with smaller numbers.
    pub(super) fn make_room(&mut self, id: ProbeId) {
        if self.probes.len() <= id.index() {
            self.probes.resize_with(id.index() + 1, OneProbe::default);
        }
    }

    #[inline]
    fn first(&self, id: ProbeId) -> Link {
        self.probes.get(id.index()).map_or(0, |probe| probe.first)
    }

    #[inline]
    fn at(&self, link: Link) -> Option<&AttachmentSlot> {
        self.slots.get((link as usize).wrapping_sub(1))
    }

    /// Returns whether any attachment has a slot in a probe.
    pub(super) fn is_attached(&self, id: ProbeId) -> bool {
        self.first(id) != 0
    }

    /// Returns the slots of a probe, oldest first.
    #[inline]
    pub(super) fn slots(&self, id: ProbeId) -> impl Iterator<Item = &AttachmentSlot> + Clone {
        let mut at = self.first(id);
        iter::from_fn(move || {
            let slot = self.at(at)?;
            at = slot.next;
            Some(slot)
        })
    }

    /// Returns the only slot of a probe, whether it listens or not. `None` if there are several or
    /// none.
    #[inline]
    pub(super) fn sole_slot(&self, id: ProbeId) -> Option<&AttachmentSlot> {
        self.at(self.first(id)).filter(|slot| slot.next == 0)
    }

    /// Returns the attachment that alone decides on a probe, if there is one.
    #[inline]
    pub(super) fn sole(&self, id: ProbeId) -> Option<usize> {
        let sole = self.sole_slot(id).filter(|_| self.probes[id.index()].holds == 0);
        sole.map(AttachmentSlot::attachment)
    }

    /// Returns an attachment's slot in a probe.
    #[inline]
    pub(super) fn slot(&self, id: ProbeId, attachment: usize) -> Option<&AttachmentSlot> {
        self.slots(id).find(|slot| slot.attachment() == attachment)
    }

    fn slot_mut(&mut self, id: ProbeId, attachment: usize) -> Option<&mut AttachmentSlot> {
        let mut at = self.first(id);
        while self.at(at)?.attachment() != attachment {
            at = self.at(at)?.next;
        }
        Some(&mut self.slots[at as usize - 1])
    }

    /// Switches an attachment's slot in a probe off or on. Returns whether that was a change;
    /// `None` if it has no slot.
    pub(super) fn set_off(&mut self, id: ProbeId, attachment: usize, is_off: bool) -> Option<bool> {
        let slot = self.slot_mut(id, attachment)?;
        Some(mem::replace(&mut slot.is_off, is_off) != is_off)
    }

    /// Counts or delivers an attachment's hits of a probe from now on; those under way may do
    /// either. No new hook is published.
    pub(super) fn set_counting(
        &mut self,
        id: ProbeId,
        attachment: usize,
        of: &Subscription,
        is_counting: bool,
    ) {
        let Some(slot) = self.slot_mut(id, attachment) else { return };
        slot.is_counting = is_counting;
        if let Some(hook) = &self.probes[id.index()].hook {
            hook.set_counting(of, is_counting);
        }
    }

    /// Calls `change` with each slot of a probe.
    #[inline]
    fn change_each(&mut self, id: ProbeId, mut change: impl FnMut(&mut AttachmentSlot)) {
        let mut at = self.first(id);
        while let Some(slot) = self.slots.get_mut((at as usize).wrapping_sub(1)) {
            at = slot.next;
            change(slot);
        }
    }

    /// Adds a slot to a probe, as the newest.
    pub(super) fn add(&mut self, id: ProbeId, slot: AttachmentSlot) {
        let link = self.store(AttachmentSlot { next: 0, ..slot });
        let (mut last, mut at) = (0, self.first(id));
        while let Some(slot) = self.at(at) {
            (last, at) = (at, slot.next);
        }
        *self.link_after(id, last) = link;
    }

    fn store(&mut self, slot: AttachmentSlot) -> Link {
        let link = self.free;
        if link == 0 {
            self.slots.push(slot);
            return Link::try_from(self.slots.len()).expect("fewer than 2^32 slots");
        }
        let place = &mut self.slots[link as usize - 1];
        self.free = place.next;
        self.free_len -= 1;
        *place = slot;
        link
    }

    /// Returns the link that follows a slot in a probe's list, or the first one.
    fn link_after(&mut self, id: ProbeId, before: Link) -> &mut Link {
        match before {
            0 => &mut self.probes[id.index()].first,
            before => &mut self.slots[before as usize - 1].next,
        }
    }

    /// Removes an attachment's slot from a probe, if there is one; returns it.
    pub(super) fn remove(&mut self, id: ProbeId, attachment: usize) -> Option<AttachmentSlot> {
        let (mut before, mut at) = (0, self.first(id));
        loop {
            let slot = *self.at(at)?;
            if slot.attachment() == attachment {
                *self.link_after(id, before) = slot.next;
                self.slots[at as usize - 1].next = mem::replace(&mut self.free, at);
                self.free_len += 1;
                return Some(slot);
            }
            (before, at) = (at, slot.next);
        }
    }

    /// Forces a probe off, or lets it go. Holds add up.
    pub(super) fn set_held(&mut self, id: ProbeId, is_held: bool) {
        let holds = &mut self.probes[id.index()].holds;
        *holds = if is_held { *holds + 1 } else { *holds - 1 };
    }

    /// Returns a probe's state.
    #[inline]
    pub(super) fn state(&self, id: ProbeId, is_paused: impl Fn(usize) -> bool) -> ProbeState {
        if !self.is_attached(id) {
            return ProbeState::Latent;
        }
        let is_listening = self.slots(id).any(|slot| listens(slot, &is_paused));
        let is_active = is_listening && self.probes[id.index()].holds == 0;
        if is_active { ProbeState::Active } else { ProbeState::Held }
    }

    /// Returns the mode that the sites of a probe with this counter should have; `None` if nothing
    /// is attached.
    #[inline]
    pub(super) fn mode(
        &self,
        id: ProbeId,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool,
    ) -> Option<Mode> {
        let hook = || self.probes[id.index()].hook.as_ref();
        match self.state(id, is_paused) {
            ProbeState::Active if counter.zip(hook()).is_some_and(|(at, hook)| hook.only_counts_at(at)) => {
                Some(Mode::Counting)
            }
            ProbeState::Active => Some(Mode::Active),
            _ => self.is_attached(id).then_some(Mode::Latent),
        }
    }

    /// Returns the slots that are in a probe's hook. A sole slot's hook is published even while the
    /// slot is paused or off, so that switching it changes only its sites.
    #[inline]
    pub(super) fn hooked(
        &self,
        id: ProbeId,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> impl Iterator<Item = &AttachmentSlot> + Clone {
        let is_sole = self.sole_slot(id).is_some();
        self.slots(id).filter(move |slot| is_sole || listens(slot, &is_paused))
    }

    /// Returns the effects of a new hook for the present slots of a probe with this counter.
    pub(super) fn counter_transition(
        &self,
        id: ProbeId,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> CounterTransition {
        let is_sole = self.sole_slot(id).is_some();
        let freezes = self.slots(id).any(|slot| freezes_or_thaws(slot, is_sole, &is_paused));
        let actions = self.hooked(id, is_paused).map(|slot| slot.action);
        let mut actions = actions.filter(|action| !matches!(action, Action::Wrap));
        let is_joint = actions.clone().nth(1).is_none() || actions.all(Action::only_counts);
        CounterTransition { freezes, uses_own: counter.is_none() || !is_joint }
    }

    /// Freezes and thaws slots of a probe, now that its counter is at `sum`. Calls `changed` with
    /// each of these.
    pub(super) fn freeze_or_thaw(
        &mut self,
        id: ProbeId,
        sum: u64,
        is_paused: impl Fn(usize) -> bool,
        mut changed: impl FnMut(&AttachmentSlot),
    ) {
        let is_sole = self.sole_slot(id).is_some();
        self.change_each(id, |slot| {
            if freezes_or_thaws(slot, is_sole, &is_paused) {
                slot.toggle_frozen(sum);
                changed(slot);
            }
        });
    }

    /// Notes that the attachments' own counters may count a probe's hits.
    pub(super) fn use_own_counters(&mut self, id: ProbeId) {
        self.change_each(id, |slot| slot.uses_own |= slot.action.counts());
    }

    /// Publishes a probe's hook; returns the replaced one, which must go to `reclaimer`.
    #[inline]
    pub(super) fn publish<'a>(
        &mut self,
        id: ProbeId,
        hook: Option<Published>,
        definitions: impl Iterator<Item = &'a Definition>,
    ) -> Option<Published> {
        let old = mem::replace(&mut self.probes[id.index()].hook, hook);
        if cfg!(probe_backend = "patched") {
            self.show(id, definitions, true);
        } else if let Some(hook) = &self.probes[id.index()].hook {
            // The switch that follows shows or hides the hook. A definition that shows a hook
            // already must not keep the old one.
            for definition in definitions.filter(|definition| definition.is_hooked()) {
                definition.hook().store(hook.as_ptr(), Ordering::Release);
            }
        }
        old
    }

    /// Shows a probe's hook to its definitions, or hides it; where no sites are patched, this is
    /// the switch. Returns how many definitions began or ceased to be hooked, and how many did
    /// neither.
    #[inline]
    pub(super) fn show<'a>(
        &self,
        id: ProbeId,
        definitions: impl Iterator<Item = &'a Definition>,
        is_visible: bool,
    ) -> (usize, usize) {
        let hook = self.probes.get(id.index()).and_then(|probe| probe.hook.as_ref());
        let hook = hook.filter(|_| is_visible).map_or(ptr::null_mut(), Published::as_ptr);
        let (mut switched, mut unchanged) = (0, 0);
        for definition in definitions.filter(|definition| claim(definition)) {
            // Writers hold the control lock, so no other thread writes it now.
            let before = definition.hook().load(Ordering::Relaxed);
            definition.hook().store(hook, Ordering::Release);
            *(if before.is_null() == hook.is_null() { &mut unchanged } else { &mut switched }) += 1;
        }
        (switched, unchanged)
    }
}

#[inline]
fn listens(slot: &AttachmentSlot, is_paused: impl Fn(usize) -> bool) -> bool {
    !slot.is_off && !is_paused(slot.attachment())
}

/// Returns whether a slot must be frozen or thawed. A sole slot that does not listen stays as it
/// is.
#[inline]
fn freezes_or_thaws(slot: &AttachmentSlot, is_sole: bool, is_paused: impl Fn(usize) -> bool) -> bool {
    let listens = listens(slot, is_paused);
    if slot.is_frozen { listens } else { !listens && !is_sole && slot.action.counts() }
}

/// Takes a definition for this runtime. Returns `false` if another runtime in this process (a
/// plugin's, say) has taken it.
#[inline]
pub(super) fn claim(definition: &Definition) -> bool {
    let ours = backend::entry(definition);
    // A runtime never gives a definition back.
    if definition.entry().load(Ordering::Acquire) == ours {
        return true;
    }
    let claimed =
        definition.entry().compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire);
    claimed.is_ok() || claimed == Err(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count() -> Action {
        Action::Count(CounterAt::new(9))
    }

    fn call(counted: Option<CounterAt>) -> Action {
        Action::Call { suppressed: CounterAt::new(7), counted }
    }

    /// Checks which of two attachments' slots are frozen, and their counts, as hooks are made.
    #[test]
    fn a_slot_is_frozen_while_others_count_and_it_does_not_listen() {
        let (mut probes, id) = (ProbeAttachments::default(), ProbeId::new(0));
        probes.make_room(id);
        let make = |probes: &mut ProbeAttachments, sum: u64, paused: &[usize]| {
            let is_paused = |at: usize| paused.contains(&at);
            let is_to_change = probes.counter_transition(id, Some(CounterAt::new(1)), is_paused).freezes;
            let mut changed = Vec::new();
            probes.freeze_or_thaw(id, sum, is_paused, |slot| changed.push(slot.attachment()));
            assert_eq!(is_to_change, !changed.is_empty());
            let seen = |slot: &AttachmentSlot| (slot.attachment(), slot.is_frozen, slot.counted(sum));
            (changed, probes.slots(id).map(seen).collect::<Vec<_>>())
        };
        probes.add(id, AttachmentSlot::new(0, count(), Start::On));
        assert_eq!(make(&mut probes, 10, &[]), (vec![0], vec![(0, false, 0)]));
        // A sole slot stays thawed while it is paused.
        assert_eq!(make(&mut probes, 13, &[0]), (vec![], vec![(0, false, 3)]));
        probes.add(id, AttachmentSlot::new(1, count(), Start::On));
        assert_eq!(make(&mut probes, 14, &[0]), (vec![0, 1], vec![(0, true, 4), (1, false, 0)]));
        assert_eq!(make(&mut probes, 20, &[0]), (vec![], vec![(0, true, 4), (1, false, 6)]));
        assert_eq!(make(&mut probes, 20, &[]), (vec![0], vec![(0, false, 4), (1, false, 6)]));
        assert_eq!(make(&mut probes, 22, &[0, 1]).1, [(0, true, 6), (1, true, 8)]);
        // A slot that becomes sole again gets no late hits until it listens.
        assert!(probes.remove(id, 1).is_some());
        assert_eq!(make(&mut probes, 25, &[0]), (vec![], vec![(0, true, 6)]));
        assert_eq!(make(&mut probes, 25, &[]), (vec![0], vec![(0, false, 6)]));
        assert_eq!(probes.set_off(id, 0, true), Some(true));
        probes.add(id, AttachmentSlot::new(2, call(None), Start::On));
        let (changed, seen) = make(&mut probes, 27, &[]);
        assert_eq!((changed, seen[0]), (vec![0], (0, true, 8)));
    }

    #[test]
    fn attachments_use_their_own_counters_where_one_may_be_called() {
        let mixed = |actions: &[Action], counter: Option<CounterAt>, paused: &[usize]| {
            let (mut probes, id) = (ProbeAttachments::default(), ProbeId::new(0));
            probes.make_room(id);
            for (attachment, action) in actions.iter().enumerate() {
                probes.add(id, AttachmentSlot::new(attachment, *action, Start::On));
            }
            if probes.counter_transition(id, counter, |at| paused.contains(&at)).uses_own {
                probes.use_own_counters(id);
            }
            probes.slots(id).map(|slot| slot.uses_own).collect::<Vec<_>>()
        };
        let (own, either) = (Some(CounterAt::new(1)), call(Some(CounterAt::new(8))));
        assert_eq!(mixed(&[count()], own, &[]), [false]);
        assert_eq!(mixed(&[count(), count(), Action::Wrap], own, &[]), [false; 3]);
        assert_eq!(mixed(&[either, Action::Wrap], own, &[]), [false; 2]);
        assert_eq!(mixed(&[either, count()], own, &[]), [true; 2]);
        assert_eq!(mixed(&[count(), call(None)], own, &[]), [true, false]);
        assert_eq!(mixed(&[count(), count(), call(None)], own, &[2]), [false; 3], "it is not called now");
        assert_eq!(mixed(&[count()], None, &[]), [true], "the probe has none");
    }

    fn attachments(probes: &ProbeAttachments, id: ProbeId) -> Vec<usize> {
        probes.slots(id).map(AttachmentSlot::attachment).collect()
    }

    #[test]
    fn a_frozen_slot_gets_no_hits_that_others_count() {
        let mut slot = AttachmentSlot::new(0, Action::Count(CounterAt::new(7)), Start::On);
        assert!(slot.is_frozen);
        assert_eq!(slot.counted(100), 0);
        slot.toggle_frozen(100);
        assert_eq!(slot.counted(103), 3);
        slot.toggle_frozen(104);
        assert_eq!((slot.is_frozen, slot.counted(104), slot.counted(200)), (true, 4, 4));
        slot.toggle_frozen(200);
        assert_eq!((slot.is_frozen, slot.counted(200), slot.counted(201)), (false, 4, 5));
        let never =
            AttachmentSlot::new(0, Action::Call { suppressed: CounterAt::new(7), counted: None }, Start::On);
        assert!(!never.is_frozen && !AttachmentSlot::new(0, Action::Wrap, Start::On).is_frozen);
        assert!(size_of::<AttachmentSlot>() <= 32);
    }

    proptest! {
        #[test]
        fn as_lists_of_each_probe(steps in prop::collection::vec((any::<bool>(), 0_usize..3, 0_usize..4), 1..80)) {
            let mut probes = ProbeAttachments::default();
            probes.make_room(ProbeId::new(2));
            let mut lists = [const { Vec::<usize>::new() }; 3];
            let mut most = 0;
            for (adds, probe, attachment) in steps {
                let (id, list) = (ProbeId::new(probe), &mut lists[probe]);
                let had = list.contains(&attachment);
                prop_assert_eq!(probes.slot_mut(id, attachment).map(|slot| slot.attachment()), had.then_some(attachment));
                if !adds {
                    probes.remove(id, attachment);
                    list.retain(|it| *it != attachment);
                } else if !had {
                    probes.add(id, AttachmentSlot::new(attachment, Action::Wrap, Start::On));
                    list.push(attachment);
                }
                most = most.max(lists.iter().map(Vec::len).sum());
                for (id, list) in probes.known_probes().zip(&lists) {
                    prop_assert_eq!(&attachments(&probes, id), list);
                    prop_assert_eq!(probes.is_attached(id), !list.is_empty());
                    let sole = probes.sole_slot(id).map(AttachmentSlot::attachment);
                    prop_assert_eq!(sole, list.first().copied().filter(|_| list.len() == 1));
                }
                prop_assert_eq!(probes.slots.len(), most, "what is removed is used again");
            }
        }
    }
}
