//! The attachments and holds of each probe, and the hook that results.
//!
//! An attachment has a slot in each of its probes. All slots lie in one piece of memory
//! ([`SlotArena`]), in a list for each probe, oldest first. The places of removed slots are reused.
//!
//! Cost: 32 bytes for each slot. [`SlotArena::reserve`] makes room for all slots of an attachment
//! at once.

use std::ptr;
use std::sync::atomic::Ordering;

use super::Start;
use crate::engine::dispatch::{Action, CounterAt, Published, Subscription};
use crate::engine::entry::backend;
use crate::engine::registry::ProbeState;
use crate::engine::sites::Mode;
use probe_core::abi::Definition;

/// The attachments to one probe, the number of holds on it, and its hook.
///
/// | listening slots | holds | sites | hook |
/// |---|---|---|---|
/// | none | any | latent | none, or that of a sole slot that is paused or off |
/// | some, and all that a hit does is to be counted by the probe's counter | 0 | counting | theirs |
/// | some others | 0 | active | theirs |
/// | some | ≥ 1 | latent | theirs |
#[derive(Default)]
pub(super) struct ProbeAttachments {
    list: SlotList,
    holds: u32,
    hook: Option<Published>,
}

/// The effects of a new hook on the way in which hits are counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct CounterTransition {
    /// Whether some slots must be frozen or thawed.
    pub(super) freezes: bool,
    /// Whether the attachments' own counters may count from now on.
    pub(super) uses_own: bool,
}

impl ProbeAttachments {
    /// Returns the probe's state. `is_paused` returns whether an attachment is paused.
    #[inline]
    pub(super) fn state(&self, slots: &SlotArena, is_paused: impl Fn(usize) -> bool) -> ProbeState {
        let listening = slots.of(&self.list).any(|slot| listens(slot, &is_paused));
        match (self.list.is_empty(), listening && self.holds == 0) {
            (true, _) => ProbeState::Latent,
            (false, true) => ProbeState::Active,
            (false, false) => ProbeState::Held,
        }
    }

    pub(super) fn is_attached(&self) -> bool {
        !self.list.is_empty()
    }

    /// Returns the attachment that alone decides on this probe, if there is one.
    #[inline]
    pub(super) fn sole(&self, slots: &SlotArena) -> Option<usize> {
        slots.sole(&self.list).filter(|_| self.holds == 0).map(AttachmentSlot::attachment)
    }

    /// Returns the only slot, whether it listens or not. `None` if there are several or none.
    #[inline]
    pub(super) fn sole_slot<'a>(&self, slots: &'a SlotArena) -> Option<&'a AttachmentSlot> {
        slots.sole(&self.list)
    }

    /// Returns the attachments that have slots.
    pub(super) fn attachments(&self, slots: &SlotArena) -> impl Iterator<Item = usize> {
        slots.of(&self.list).map(AttachmentSlot::attachment)
    }

    /// Returns an attachment's slot.
    #[inline]
    pub(super) fn slot<'a>(&self, slots: &'a SlotArena, attachment: usize) -> Option<&'a AttachmentSlot> {
        slots.of(&self.list).find(|slot| slot.attachment() == attachment)
    }

    pub(super) fn add(&mut self, slots: &mut SlotArena, slot: AttachmentSlot) {
        slots.add(&mut self.list, slot);
    }

    /// Removes an attachment's slot; returns it.
    pub(super) fn remove(&mut self, slots: &mut SlotArena, attachment: usize) -> Option<AttachmentSlot> {
        slots.remove(&mut self.list, attachment)
    }

    /// Switches an attachment's slot off or on. Returns whether that was a change; `None` if it has
    /// no slot.
    pub(super) fn set_off(&self, slots: &mut SlotArena, attachment: usize, is_off: bool) -> Option<bool> {
        let slot = slots.find_mut(&self.list, attachment)?;
        Some(std::mem::replace(&mut slot.is_off, is_off) != is_off)
    }

    /// Counts or delivers an attachment's hits from now on; those under way may do either. No new
    /// hook is published.
    pub(super) fn set_counting(
        &self,
        slots: &mut SlotArena,
        attachment: usize,
        subscription: &Subscription,
        is_counting: bool,
    ) {
        let Some(slot) = slots.find_mut(&self.list, attachment) else { return };
        slot.is_counting = is_counting;
        if let Some(hook) = &self.hook {
            hook.set_counting(subscription, is_counting);
        }
    }

    /// Returns the mode that the sites of a probe with this counter should have.
    #[inline]
    pub(super) fn mode(
        &self,
        slots: &SlotArena,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool,
    ) -> Mode {
        let only_counts = |at| self.hook.as_ref().is_some_and(|hook| hook.only_counts_at(at));
        match self.state(slots, is_paused) {
            ProbeState::Active if counter.is_some_and(only_counts) => Mode::Counting,
            ProbeState::Active => Mode::Active,
            _ => Mode::Latent,
        }
    }

    pub(super) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(super) fn release(&mut self) {
        self.holds -= 1;
    }

    /// Returns the slots that are in the hook. A sole slot's hook is published even while it is
    /// paused or off, so that switching it changes only its sites.
    #[inline]
    pub(super) fn hooked<'a>(
        &self,
        slots: &'a SlotArena,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> impl Iterator<Item = &'a AttachmentSlot> + Clone {
        let is_sole = slots.sole(&self.list).is_some();
        slots.of(&self.list).filter(move |slot| is_sole || listens(slot, &is_paused))
    }

    /// Returns the effects of a new hook for the present slots of a probe with this counter.
    #[inline]
    pub(super) fn counter_transition(
        &self,
        slots: &SlotArena,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> CounterTransition {
        match slots.sole(&self.list) {
            // Most probes have one slot.
            Some(sole) => CounterTransition {
                freezes: freezes_or_thaws(sole, true, is_paused),
                uses_own: counter.is_none(),
            },
            None if self.list.is_empty() => CounterTransition::default(),
            None => self.counter_transition_of_several(slots, counter, is_paused),
        }
    }

    #[inline(never)]
    fn counter_transition_of_several(
        &self,
        slots: &SlotArena,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> CounterTransition {
        let freezes = slots.of(&self.list).any(|slot| freezes_or_thaws(slot, false, &is_paused));
        let hooked = || {
            let all = self.hooked(slots, is_paused.clone());
            all.map(|slot| slot.action).filter(|action| !matches!(action, Action::Wrap))
        };
        let is_joint = hooked().nth(1).is_none() || hooked().all(Action::only_counts);
        CounterTransition { freezes, uses_own: counter.is_none() || !is_joint }
    }

    /// Freezes and thaws slots, now that the probe's counter is at `sum`. Calls `changed` with each
    /// of these.
    pub(super) fn freeze_or_thaw(
        &self,
        slots: &mut SlotArena,
        sum: u64,
        is_paused: impl Fn(usize) -> bool,
        mut changed: impl FnMut(&AttachmentSlot),
    ) {
        let is_sole = slots.sole(&self.list).is_some();
        slots.change_each(&self.list, |slot| {
            if freezes_or_thaws(slot, is_sole, &is_paused) {
                slot.toggle_frozen(sum);
                changed(slot);
            }
        });
    }

    /// Notes that the attachments' own counters may count these slots' hits.
    pub(super) fn use_own_counters(&self, slots: &mut SlotArena) {
        slots.change_each(&self.list, |slot| slot.uses_own |= slot.action.counts());
    }

    /// Publishes a hook; returns the replaced one, which must go to `reclaimer`.
    #[inline]
    pub(super) fn publish<'a>(
        &mut self,
        hook: Option<Published>,
        definitions: impl Iterator<Item = &'a Definition>,
    ) -> Option<Published> {
        let old = std::mem::replace(&mut self.hook, hook);
        if cfg!(probe_backend = "patched") {
            self.show(definitions, true);
        } else if let Some(hook) = &self.hook {
            // The switch that follows shows or hides the hook. A definition that shows a hook
            // already must not keep the old one.
            for definition in definitions.filter(|definition| definition.is_hooked()) {
                definition.hook().store(hook.as_ptr(), Ordering::Release);
            }
        }
        old
    }

    /// Shows the present hook to the probe's definitions, or hides it; where no sites are patched,
    /// this is the switch. Returns how many definitions began or ceased to be hooked, and how many
    /// did neither.
    #[inline]
    pub(super) fn show<'a>(
        &self,
        definitions: impl Iterator<Item = &'a Definition>,
        is_visible: bool,
    ) -> (usize, usize) {
        let hook: *mut () =
            self.hook.as_ref().filter(|_| is_visible).map_or(ptr::null_mut(), Published::as_ptr);
        let (mut switched, mut unchanged) = (0, 0);
        for definition in definitions {
            if !claim(definition) {
                continue;
            }
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

/// One attachment's slot in one probe.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be true of any slot")]
pub(super) struct AttachmentSlot {
    pub(super) attachment: u32,
    pub(super) action: Action,
    /// Whether it is switched off, while its attachment goes on elsewhere.
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
    pub(super) tally: u64,
    /// The next newer slot.
    next: Link,
}

impl AttachmentSlot {
    pub(super) fn new(attachment: usize, action: Action) -> Self {
        let attachment = u32::try_from(attachment).expect("fewer than 2^32 attachments");
        Self {
            attachment,
            action,
            is_off: false,
            is_counting: false,
            is_frozen: action.counts(),
            uses_own: false,
            tally: 0,
            next: 0,
        }
    }

    /// Returns a new slot in the initial state that its consumer asks for.
    pub(super) fn starting(attachment: usize, action: Action, start: Start) -> Self {
        let is_either = matches!(action, Action::Call { counted: Some(_), .. });
        let (is_off, is_counting) = (start == Start::Off, is_either && start == Start::Counted);
        Self { is_off, is_counting, ..Self::new(attachment, action) }
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

/// The slots in one probe.
#[derive(Default)]
pub(super) struct SlotList {
    first: Link,
}

impl SlotList {
    pub(super) fn is_empty(&self) -> bool {
        self.first == 0
    }
}

/// The slots in all probes.
#[derive(Default)]
pub(super) struct SlotArena {
    all: Vec<AttachmentSlot>,
    /// Unused places, which are in no probe's list.
    free: SlotList,
    free_len: usize,
}

impl SlotArena {
    /// Makes room for `more` slots.
    pub(super) fn reserve(&mut self, more: usize) {
        self.all.reserve(more.saturating_sub(self.free_len));
    }

    /// Returns the slots of a list, oldest first.
    #[inline]
    pub(super) fn of(&self, list: &SlotList) -> impl Iterator<Item = &AttachmentSlot> + Clone {
        let mut at = list.first;
        std::iter::from_fn(move || {
            let slot = self.slot(at)?;
            at = slot.next;
            Some(slot)
        })
    }

    /// Returns the only slot of a list; `None` if it has several or none.
    #[inline]
    pub(super) fn sole(&self, list: &SlotList) -> Option<&AttachmentSlot> {
        self.slot(list.first).filter(|slot| slot.next == 0)
    }

    /// Returns an attachment's slot for changes.
    pub(super) fn find_mut(&mut self, list: &SlotList, attachment: usize) -> Option<&mut AttachmentSlot> {
        let mut at = list.first;
        while self.slot(at)?.attachment() != attachment {
            at = self.slot(at)?.next;
        }
        Some(&mut self.all[at as usize - 1])
    }

    /// Calls `change` with each slot of a list.
    #[inline]
    pub(super) fn change_each(&mut self, list: &SlotList, mut change: impl FnMut(&mut AttachmentSlot)) {
        let mut at = list.first;
        while let Some(slot) = self.all.get_mut((at as usize).wrapping_sub(1)) {
            at = slot.next;
            change(slot);
        }
    }

    /// Adds a slot, as the newest.
    pub(super) fn add(&mut self, list: &mut SlotList, slot: AttachmentSlot) {
        let link = self.store(slot);
        let (mut last, mut at) = (0, list.first);
        while let Some(slot) = self.slot(at) {
            (last, at) = (at, slot.next);
        }
        match last {
            0 => list.first = link,
            last => self.all[last as usize - 1].next = link,
        }
    }

    fn store(&mut self, slot: AttachmentSlot) -> Link {
        let slot = AttachmentSlot { next: 0, ..slot };
        let link = self.free.first;
        if link == 0 {
            self.all.push(slot);
            return Link::try_from(self.all.len()).expect("fewer than 2^32 slots");
        }
        let place = &mut self.all[link as usize - 1];
        self.free.first = place.next;
        self.free_len -= 1;
        *place = slot;
        link
    }

    /// Removes an attachment's slot, if there is one; returns it.
    pub(super) fn remove(&mut self, list: &mut SlotList, attachment: usize) -> Option<AttachmentSlot> {
        let (mut before, mut at) = (0, list.first);
        while let Some(slot) = self.slot(at).copied() {
            if slot.attachment() == attachment {
                if before == 0 {
                    list.first = slot.next;
                } else {
                    self.all[before as usize - 1].next = slot.next;
                }
                self.all[at as usize - 1].next = self.free.first;
                self.free.first = at;
                self.free_len += 1;
                return Some(slot);
            }
            (before, at) = (at, slot.next);
        }
        None
    }

    #[inline]
    fn slot(&self, link: Link) -> Option<&AttachmentSlot> {
        self.all.get((link as usize).wrapping_sub(1))
    }
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
    fn a_part_is_frozen_while_others_count_and_it_does_not_listen() {
        let (mut slots, mut probe) = (SlotArena::default(), ProbeAttachments::default());
        let make = |probe: &ProbeAttachments, slots: &mut SlotArena, sum: u64, paused: &[usize]| {
            let is_paused = |at: usize| paused.contains(&at);
            let is_to_change = probe.counter_transition(slots, Some(CounterAt::new(1)), is_paused).freezes;
            let mut changed = Vec::new();
            probe.freeze_or_thaw(slots, sum, is_paused, |slot| changed.push(slot.attachment()));
            assert_eq!(is_to_change, !changed.is_empty());
            let seen = |slot: &AttachmentSlot| (slot.attachment(), slot.is_frozen, slot.counted(sum));
            (changed, slots.of(&probe.list).map(seen).collect::<Vec<_>>())
        };
        probe.add(&mut slots, AttachmentSlot::new(0, count()));
        assert_eq!(make(&probe, &mut slots, 10, &[]), (vec![0], vec![(0, false, 0)]));
        // A sole slot stays thawed while it is paused.
        assert_eq!(make(&probe, &mut slots, 13, &[0]), (vec![], vec![(0, false, 3)]));
        probe.add(&mut slots, AttachmentSlot::new(1, count()));
        assert_eq!(make(&probe, &mut slots, 14, &[0]), (vec![0, 1], vec![(0, true, 4), (1, false, 0)]));
        assert_eq!(make(&probe, &mut slots, 20, &[0]), (vec![], vec![(0, true, 4), (1, false, 6)]));
        assert_eq!(make(&probe, &mut slots, 20, &[]), (vec![0], vec![(0, false, 4), (1, false, 6)]));
        assert_eq!(make(&probe, &mut slots, 22, &[0, 1]).1, [(0, true, 6), (1, true, 8)]);
        // A slot that becomes sole again gets no late hits until it listens.
        assert!(probe.remove(&mut slots, 1).is_some());
        assert_eq!(make(&probe, &mut slots, 25, &[0]), (vec![], vec![(0, true, 6)]));
        assert_eq!(make(&probe, &mut slots, 25, &[]), (vec![0], vec![(0, false, 6)]));
        assert_eq!(probe.set_off(&mut slots, 0, true), Some(true));
        probe.add(&mut slots, AttachmentSlot::new(2, call(None)));
        let (changed, seen) = make(&probe, &mut slots, 27, &[]);
        assert_eq!((changed, seen[0]), (vec![0], (0, true, 8)));
    }

    #[test]
    fn attachments_use_their_own_counters_where_one_may_be_called() {
        let mixed = |actions: &[Action], counter: Option<CounterAt>, paused: &[usize]| {
            let (mut slots, mut probe) = (SlotArena::default(), ProbeAttachments::default());
            for (attachment, action) in actions.iter().enumerate() {
                probe.add(&mut slots, AttachmentSlot::new(attachment, *action));
            }
            if probe.counter_transition(&slots, counter, |at| paused.contains(&at)).uses_own {
                probe.use_own_counters(&mut slots);
            }
            slots.of(&probe.list).map(|slot| slot.uses_own).collect::<Vec<_>>()
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

    fn attachments(slots: &SlotArena, list: &SlotList) -> Vec<usize> {
        slots.of(list).map(AttachmentSlot::attachment).collect()
    }

    #[test]
    fn a_frozen_slot_gets_no_hits_that_others_count() {
        let mut slot = AttachmentSlot::new(0, Action::Count(CounterAt::new(7)));
        assert!(slot.is_frozen);
        assert_eq!(slot.counted(100), 0);
        slot.toggle_frozen(100);
        assert_eq!(slot.counted(103), 3);
        slot.toggle_frozen(104);
        assert_eq!((slot.is_frozen, slot.counted(104), slot.counted(200)), (true, 4, 4));
        slot.toggle_frozen(200);
        assert_eq!((slot.is_frozen, slot.counted(200), slot.counted(201)), (false, 4, 5));
        let never = AttachmentSlot::new(0, Action::Call { suppressed: CounterAt::new(7), counted: None });
        assert!(!never.is_frozen && !AttachmentSlot::new(0, Action::Wrap).is_frozen);
        assert!(size_of::<AttachmentSlot>() <= 32);
    }

    proptest! {
        #[test]
        fn as_lists_of_each_probe(steps in prop::collection::vec((any::<bool>(), 0_usize..3, 0_usize..4), 1..80)) {
            let mut slots = SlotArena::default();
            let mut heads = [const { SlotList { first: 0 } }; 3];
            let mut lists = [const { Vec::<usize>::new() }; 3];
            let mut most = 0;
            for (adds, probe, attachment) in steps {
                let (head, list) = (&mut heads[probe], &mut lists[probe]);
                let had = list.contains(&attachment);
                prop_assert_eq!(slots.find_mut(head, attachment).map(|slot| slot.attachment()), had.then_some(attachment));
                if !adds {
                    slots.remove(head, attachment);
                    list.retain(|it| *it != attachment);
                } else if !had {
                    slots.add(head, AttachmentSlot::new(attachment, Action::Wrap));
                    list.push(attachment);
                }
                most = most.max(lists.iter().map(Vec::len).sum());
                for (head, list) in heads.iter().zip(&lists) {
                    prop_assert_eq!(&attachments(&slots, head), list);
                    prop_assert_eq!(head.is_empty(), list.is_empty());
                    let sole = slots.sole(head).map(AttachmentSlot::attachment);
                    prop_assert_eq!(sole, list.first().copied().filter(|_| list.len() == 1));
                }
                prop_assert_eq!(slots.all.len(), most, "what is removed is used again");
            }
        }
    }
}
