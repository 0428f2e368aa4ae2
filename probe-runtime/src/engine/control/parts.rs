//! Attachments' parts in probes: all in one piece of memory, chained by probe, oldest first. Pure.
//!
//! Cost: 32 bytes for each part. [`Parts::reserve`] makes room for all parts of an attachment at
//! once. The places of removed parts are reused.

use super::Start;
use crate::engine::dispatch::Action;

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
    use crate::engine::dispatch::CounterAt;
    use proptest::prelude::*;

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
