//! The attachments and holds of one probe, and the hook that results.
//!
//! Attachments' parts in probes: all in one piece of memory, chained by probe, oldest first. Pure.
//!
//! Cost: 32 bytes for each part. [`Parts::reserve`] makes room for all parts of an attachment at
//! once. The places of removed parts are reused.

use std::ptr;
use std::sync::atomic::Ordering;

use super::Start;
use crate::engine::dispatch::{Action, CounterAt, Published, Subscription};
use crate::engine::entry::backend;
use crate::engine::registry::ProbeState;
use crate::engine::sites::Mode;
use probe_core::abi::Definition;

/// The attachments that listen to one probe, and the number of holds on it.
///
/// | listening parts | holds | sites | hook |
/// |---|---|---|---|
/// | none | any | latent | none, or that of a sole part that is paused or off |
/// | some, and all that a hit does is to be counted by the probe's counter | 0 | counting | theirs |
/// | some others | 0 | active | theirs |
/// | some | ≥ 1 | latent | theirs |
#[derive(Default)]
pub(super) struct Members {
    parts: Chain,
    holds: u32,
    hook: Option<Published>,
}

/// The effects of a new hook on the way in which parts are counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Turning {
    /// Whether some parts must be frozen or thawed.
    pub(super) turns: bool,
    /// Whether the attachments' own counters may count from now on.
    pub(super) mixes: bool,
}

impl Members {
    /// Returns the probe's state. `is_paused` returns whether an attachment is paused.
    #[inline]
    pub(super) fn state(&self, parts: &Parts, is_paused: impl Fn(usize) -> bool) -> ProbeState {
        let listening = parts.of(&self.parts).any(|part| listens(part, &is_paused));
        match (self.parts.is_empty(), listening && self.holds == 0) {
            (true, _) => ProbeState::Latent,
            (false, true) => ProbeState::Active,
            (false, false) => ProbeState::Held,
        }
    }

    pub(super) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Returns the attachment that alone decides on this probe, if there is one.
    #[inline]
    pub(super) fn sole(&self, parts: &Parts) -> Option<usize> {
        parts.sole(&self.parts).filter(|_| self.holds == 0).map(Part::attachment)
    }

    /// Returns the only part, whether it listens or not. `None` if there are several or none.
    #[inline]
    pub(super) fn sole_part<'a>(&self, parts: &'a Parts) -> Option<&'a Part> {
        parts.sole(&self.parts)
    }

    /// Returns the attachments that have parts.
    pub(super) fn attachments(&self, parts: &Parts) -> impl Iterator<Item = usize> {
        parts.of(&self.parts).map(Part::attachment)
    }

    /// Returns an attachment's part.
    #[inline]
    pub(super) fn part<'a>(&self, parts: &'a Parts, attachment: usize) -> Option<&'a Part> {
        parts.of(&self.parts).find(|part| part.attachment() == attachment)
    }

    pub(super) fn add(&mut self, parts: &mut Parts, part: Part) {
        parts.add(&mut self.parts, part);
    }

    /// Removes an attachment's part; returns it.
    pub(super) fn remove(&mut self, parts: &mut Parts, attachment: usize) -> Option<Part> {
        parts.remove(&mut self.parts, attachment)
    }

    /// Switches an attachment's part off or on. Returns whether that was a change; `None` if it has
    /// no part.
    pub(super) fn set_off(&self, parts: &mut Parts, attachment: usize, is_off: bool) -> Option<bool> {
        let part = parts.find_mut(&self.parts, attachment)?;
        Some(std::mem::replace(&mut part.is_off, is_off) != is_off)
    }

    /// Counts or delivers an attachment's hits from now on; those under way may do either. No new
    /// hook is published.
    pub(super) fn set_counting(
        &self,
        parts: &mut Parts,
        attachment: usize,
        subscription: &Subscription,
        is_counting: bool,
    ) {
        let Some(part) = parts.find_mut(&self.parts, attachment) else { return };
        part.is_counting = is_counting;
        if let Some(hook) = &self.hook {
            hook.set_counting(subscription, is_counting);
        }
    }

    /// Returns the mode that the sites of a probe with this counter should have.
    #[inline]
    pub(super) fn mode(
        &self,
        parts: &Parts,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool,
    ) -> Mode {
        let only_counts = |at| self.hook.as_ref().is_some_and(|hook| hook.only_counts_at(at));
        match self.state(parts, is_paused) {
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

    /// Returns the parts that are in the hook. A sole part's hook is published even while it is
    /// paused or off, so that switching it changes only its sites.
    #[inline]
    pub(super) fn hooked<'a>(
        &self,
        parts: &'a Parts,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> impl Iterator<Item = &'a Part> + Clone {
        let is_sole = parts.sole(&self.parts).is_some();
        parts.of(&self.parts).filter(move |part| is_sole || listens(part, &is_paused))
    }

    /// Returns the effects of a new hook of the present members, on a probe with this counter.
    #[inline]
    pub(super) fn turning(
        &self,
        parts: &Parts,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> Turning {
        match parts.sole(&self.parts) {
            // Most probes have one part.
            Some(sole) => Turning { turns: turns(sole, true, is_paused), mixes: counter.is_none() },
            None if self.parts.is_empty() => Turning::default(),
            None => self.turning_of_several(parts, counter, is_paused),
        }
    }

    #[inline(never)]
    fn turning_of_several(
        &self,
        parts: &Parts,
        counter: Option<CounterAt>,
        is_paused: impl Fn(usize) -> bool + Clone,
    ) -> Turning {
        let turns = parts.of(&self.parts).any(|part| turns(part, false, &is_paused));
        let hooked = || {
            let all = self.hooked(parts, is_paused.clone());
            all.map(|part| part.action).filter(|action| !matches!(action, Action::Wrap))
        };
        let is_joint = hooked().nth(1).is_none() || hooked().all(Action::only_counts);
        Turning { turns, mixes: counter.is_none() || !is_joint }
    }

    /// Freezes and thaws parts, now that the probe's counter is at `sum`. Calls `turned` with each.
    pub(super) fn turn(
        &self,
        parts: &mut Parts,
        sum: u64,
        is_paused: impl Fn(usize) -> bool,
        mut turned: impl FnMut(&Part),
    ) {
        let is_sole = parts.sole(&self.parts).is_some();
        parts.change_each(&self.parts, |part| {
            if turns(part, is_sole, &is_paused) {
                part.turn(sum);
                turned(part);
            }
        });
    }

    /// Notes that the attachments' own counters may count these parts' hits.
    pub(super) fn mix(&self, parts: &mut Parts) {
        parts.change_each(&self.parts, |part| part.is_mixed |= part.action.counts());
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
fn listens(part: &Part, is_paused: impl Fn(usize) -> bool) -> bool {
    !part.is_off && !is_paused(part.attachment())
}

/// Returns whether a part must be frozen or thawed. A sole part that does not listen stays as it
/// is.
#[inline]
fn turns(part: &Part, is_sole: bool, is_paused: impl Fn(usize) -> bool) -> bool {
    let listens = listens(part, is_paused);
    if part.is_frozen { listens } else { !listens && !is_sole && part.action.counts() }
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

/// One attachment's part in one probe.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be true of any part")]
pub(super) struct Part {
    pub(super) attachment: u32,
    pub(super) action: Action,
    /// Whether it is switched off, while its attachment goes on elsewhere.
    pub(super) is_off: bool,
    /// Whether hits are counted now, instead of being delivered.
    pub(super) is_counting: bool,
    /// Whether the probe's counter does not count for it now, because it does not listen or has not
    /// begun; other parts may be counting. Always false for a part that never counts.
    pub(super) is_frozen: bool,
    /// Whether its attachment's own counters may have counted hits, too.
    pub(super) is_mixed: bool,
    /// While it is frozen, the number of hits that the probe's counter has counted for it.
    /// Otherwise the counter's value when it was thawed, less that number.
    pub(super) tally: u64,
    /// The next newer part.
    next: Link,
}

impl Part {
    pub(super) fn new(attachment: usize, action: Action) -> Self {
        let attachment = u32::try_from(attachment).expect("fewer than 2^32 attachments");
        Self {
            attachment,
            action,
            is_off: false,
            is_counting: false,
            is_frozen: action.counts(),
            is_mixed: false,
            tally: 0,
            next: 0,
        }
    }

    /// Returns a new part in the initial state that its consumer asks for.
    pub(super) fn starting(attachment: usize, action: Action, start: Start) -> Self {
        let is_either = matches!(action, Action::Call { counted: Some(_), .. });
        let (is_off, is_counting) = (start == Start::Off, is_either && start == Start::Counted);
        Self { is_off, is_counting, ..Self::new(attachment, action) }
    }

    /// Freezes a thawed part, or thaws a frozen one, now that the probe's counter is at `sum`.
    pub(super) fn turn(&mut self, sum: u64) {
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

/// The index of a part, plus 1; 0 is none.
type Link = u32;

/// The parts in one probe.
#[derive(Default)]
pub(super) struct Chain {
    first: Link,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.first == 0
    }
}

/// The parts in all probes.
#[derive(Default)]
pub(super) struct Parts {
    all: Vec<Part>,
    /// Unused places, which are in no probe's chain.
    free: Chain,
    free_len: usize,
}

impl Parts {
    /// Makes room for `more` parts.
    pub(super) fn reserve(&mut self, more: usize) {
        self.all.reserve(more.saturating_sub(self.free_len));
    }

    /// Returns the parts of a chain, oldest first.
    #[inline]
    pub(super) fn of(&self, chain: &Chain) -> impl Iterator<Item = &Part> + Clone {
        let mut at = chain.first;
        std::iter::from_fn(move || {
            let part = self.part(at)?;
            at = part.next;
            Some(part)
        })
    }

    /// Returns the only part of a chain; `None` if it has several or none.
    #[inline]
    pub(super) fn sole(&self, chain: &Chain) -> Option<&Part> {
        self.part(chain.first).filter(|part| part.next == 0)
    }

    /// Returns an attachment's part for changes.
    pub(super) fn find_mut(&mut self, chain: &Chain, attachment: usize) -> Option<&mut Part> {
        let mut at = chain.first;
        while self.part(at)?.attachment() != attachment {
            at = self.part(at)?.next;
        }
        Some(&mut self.all[at as usize - 1])
    }

    /// Calls `change` with each part of a chain.
    #[inline]
    pub(super) fn change_each(&mut self, chain: &Chain, mut change: impl FnMut(&mut Part)) {
        let mut at = chain.first;
        while let Some(part) = self.all.get_mut((at as usize).wrapping_sub(1)) {
            at = part.next;
            change(part);
        }
    }

    /// Adds a part, as the newest.
    pub(super) fn add(&mut self, chain: &mut Chain, part: Part) {
        let link = self.place(part);
        let (mut last, mut at) = (0, chain.first);
        while let Some(part) = self.part(at) {
            (last, at) = (at, part.next);
        }
        match last {
            0 => chain.first = link,
            last => self.all[last as usize - 1].next = link,
        }
    }

    fn place(&mut self, part: Part) -> Link {
        let part = Part { next: 0, ..part };
        let link = self.free.first;
        if link == 0 {
            self.all.push(part);
            return Link::try_from(self.all.len()).expect("fewer than 2^32 parts");
        }
        let place = &mut self.all[link as usize - 1];
        self.free.first = place.next;
        self.free_len -= 1;
        *place = part;
        link
    }

    /// Removes an attachment's part, if there is one; returns it.
    pub(super) fn remove(&mut self, chain: &mut Chain, attachment: usize) -> Option<Part> {
        let (mut before, mut at) = (0, chain.first);
        while let Some(part) = self.part(at).copied() {
            if part.attachment() == attachment {
                if before == 0 {
                    chain.first = part.next;
                } else {
                    self.all[before as usize - 1].next = part.next;
                }
                self.all[at as usize - 1].next = self.free.first;
                self.free.first = at;
                self.free_len += 1;
                return Some(part);
            }
            (before, at) = (at, part.next);
        }
        None
    }

    #[inline]
    fn part(&self, link: Link) -> Option<&Part> {
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

    /// Checks which of two attachments' parts are frozen, and their counts, as hooks are made.
    #[test]
    fn a_part_is_frozen_while_others_count_and_it_does_not_listen() {
        let (mut parts, mut members) = (Parts::default(), Members::default());
        let make = |members: &Members, parts: &mut Parts, sum: u64, paused: &[usize]| {
            let is_paused = |at: usize| paused.contains(&at);
            let is_to_turn = members.turning(parts, Some(CounterAt::new(1)), is_paused).turns;
            let mut turned = Vec::new();
            members.turn(parts, sum, is_paused, |part| turned.push(part.attachment()));
            assert_eq!(is_to_turn, !turned.is_empty());
            let told = |part: &Part| (part.attachment(), part.is_frozen, part.counted(sum));
            (turned, parts.of(&members.parts).map(told).collect::<Vec<_>>())
        };
        members.add(&mut parts, Part::new(0, count()));
        assert_eq!(make(&members, &mut parts, 10, &[]), (vec![0], vec![(0, false, 0)]));
        // A sole part stays thawed while it is paused.
        assert_eq!(make(&members, &mut parts, 13, &[0]), (vec![], vec![(0, false, 3)]));
        members.add(&mut parts, Part::new(1, count()));
        assert_eq!(make(&members, &mut parts, 14, &[0]), (vec![0, 1], vec![(0, true, 4), (1, false, 0)]));
        assert_eq!(make(&members, &mut parts, 20, &[0]), (vec![], vec![(0, true, 4), (1, false, 6)]));
        assert_eq!(make(&members, &mut parts, 20, &[]), (vec![0], vec![(0, false, 4), (1, false, 6)]));
        assert_eq!(make(&members, &mut parts, 22, &[0, 1]).1, [(0, true, 6), (1, true, 8)]);
        // A part that becomes sole again gets no late hits until it listens.
        assert!(members.remove(&mut parts, 1).is_some());
        assert_eq!(make(&members, &mut parts, 25, &[0]), (vec![], vec![(0, true, 6)]));
        assert_eq!(make(&members, &mut parts, 25, &[]), (vec![0], vec![(0, false, 6)]));
        assert_eq!(members.set_off(&mut parts, 0, true), Some(true));
        members.add(&mut parts, Part::new(2, call(None)));
        let (turned, told) = make(&members, &mut parts, 27, &[]);
        assert_eq!((turned, told[0]), (vec![0], (0, true, 8)));
    }

    #[test]
    fn attachments_count_by_their_own_where_one_may_be_told() {
        let mixed = |actions: &[Action], counter: Option<CounterAt>, paused: &[usize]| {
            let (mut parts, mut members) = (Parts::default(), Members::default());
            for (attachment, action) in actions.iter().enumerate() {
                members.add(&mut parts, Part::new(attachment, *action));
            }
            if members.turning(&parts, counter, |at| paused.contains(&at)).mixes {
                members.mix(&mut parts);
            }
            parts.of(&members.parts).map(|part| part.is_mixed).collect::<Vec<_>>()
        };
        let (own, either) = (Some(CounterAt::new(1)), call(Some(CounterAt::new(8))));
        assert_eq!(mixed(&[count()], own, &[]), [false]);
        assert_eq!(mixed(&[count(), count(), Action::Wrap], own, &[]), [false; 3]);
        assert_eq!(mixed(&[either, Action::Wrap], own, &[]), [false; 2]);
        assert_eq!(mixed(&[either, count()], own, &[]), [true; 2]);
        assert_eq!(mixed(&[count(), call(None)], own, &[]), [true, false]);
        assert_eq!(
            mixed(&[count(), count(), call(None)], own, &[2]),
            [false; 3],
            "it is told of nothing now"
        );
        assert_eq!(mixed(&[count()], None, &[]), [true], "the probe has none");
    }

    fn attachments(parts: &Parts, chain: &Chain) -> Vec<usize> {
        parts.of(chain).map(Part::attachment).collect()
    }

    #[test]
    fn what_others_count_is_not_told_to_one_that_is_frozen() {
        let mut part = Part::new(0, Action::Count(CounterAt::new(7)));
        assert!(part.is_frozen);
        assert_eq!(part.counted(100), 0);
        part.turn(100);
        assert_eq!(part.counted(103), 3);
        part.turn(104);
        assert_eq!((part.is_frozen, part.counted(104), part.counted(200)), (true, 4, 4));
        part.turn(200);
        assert_eq!((part.is_frozen, part.counted(200), part.counted(201)), (false, 4, 5));
        let never = Part::new(0, Action::Call { suppressed: CounterAt::new(7), counted: None });
        assert!(!never.is_frozen && !Part::new(0, Action::Wrap).is_frozen);
        assert!(size_of::<Part>() <= 32);
    }

    proptest! {
        #[test]
        fn as_lists_of_each_probe(steps in prop::collection::vec((any::<bool>(), 0_usize..3, 0_usize..4), 1..80)) {
            let mut parts = Parts::default();
            let mut chains = [const { Chain { first: 0 } }; 3];
            let mut lists = [const { Vec::<usize>::new() }; 3];
            let mut most = 0;
            for (adds, probe, attachment) in steps {
                let (chain, list) = (&mut chains[probe], &mut lists[probe]);
                let had = list.contains(&attachment);
                prop_assert_eq!(parts.find_mut(chain, attachment).map(|part| part.attachment()), had.then_some(attachment));
                if !adds {
                    parts.remove(chain, attachment);
                    list.retain(|it| *it != attachment);
                } else if !had {
                    parts.add(chain, Part::new(attachment, Action::Wrap));
                    list.push(attachment);
                }
                most = most.max(lists.iter().map(Vec::len).sum());
                for (chain, list) in chains.iter().zip(&lists) {
                    prop_assert_eq!(&attachments(&parts, chain), list);
                    prop_assert_eq!(chain.is_empty(), list.is_empty());
                    let sole = parts.sole(chain).map(Part::attachment);
                    prop_assert_eq!(sole, list.first().copied().filter(|_| list.len() == 1));
                }
                prop_assert_eq!(parts.all.len(), most, "what is removed is used again");
            }
        }
    }
}
