//! Hooks that one operation publishes: all in one piece of memory, what few of them have in others.
//!
//! Life: made with room for so many ▸ filled, hook by hook; each is there for a [`Published`],
//! which has a share in the memory ▸ [`Unpublished`], together with its neighbours ▸ freed with the
//! last share. So a hook that is still published keeps those that came with it, but for what they
//! have run instead of functions: at most as many as its attachment has probes.
//! Cost: 64 bytes for each hook, and one allocation; where a hook has not one member alone, 32 bytes
//! more, 24 for each member, and two allocations for all of these. Taking hooks back takes no memory
//! for each.

// Safety: relies on no piece of memory being moved: all have room for all from the beginning. And on
// callers, who drop what was unpublished when no thread can be reading it.
#![expect(unsafe_code, reason = "see above")]

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::hook::{Action, Hook, Member, Rest};
use super::{Era, ProbeId, Subscription, TallyAt, Wrapper, Wrappers};

/// For how much there is room.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    pub(crate) hooks: usize,
    /// Those of them that may have something else than one member alone.
    pub(crate) rests: usize,
    /// The members of these.
    pub(crate) members: usize,
}

impl Room {
    /// For the hook, if there is one, of so many who listen, which has wrappers or may have.
    #[inline]
    pub(crate) fn add(&mut self, listening: usize, has_rest: bool) {
        if listening != 0 {
            self.hooks += 1;
            if has_rest {
                self.rests += 1;
                self.members += listening;
            }
        }
    }
}

/// All pieces of memory. Only the maker of hooks changes it.
pub(super) struct Slab {
    hooks: Vec<Hook>,
    rests: Vec<Rest>,
    members: Vec<Member>,
    /// Those of the members, each once.
    subscriptions: Vec<Arc<Subscription>>,
    /// When its hooks were published.
    since: Era,
    /// How many hooks are yet to be made, or to be dropped; and one more while there is a maker.
    shares: AtomicUsize,
}

impl Slab {
    /// Keeps a subscription as long as there are hooks.
    #[inline]
    fn share(&mut self, subscription: &Arc<Subscription>) {
        if !self.subscriptions.iter().any(|known| Arc::ptr_eq(known, subscription)) {
            self.subscriptions.push(Arc::clone(subscription));
        }
    }

    fn members_extend(&mut self, member: Option<Member>) {
        if let Some(member) = member {
            assert!(self.members.len() < self.members.capacity(), "room for another member");
            self.members.push(member);
        }
    }

    /// Of the members from `first` on, and of wrappers, the oldest first.
    fn add_rest(&mut self, first: usize, wrapping: Vec<Arc<Wrapper>>) -> *mut Rest {
        assert!(self.rests.len() < self.rests.capacity(), "room for another rest");
        let wrappers = (!wrapping.is_empty()).then(|| wrapping.into_iter().rev().collect::<Wrappers>());
        let at = self.rests.len();
        // SAFETY: within the members, or at their end; they are not moved, and are dropped together
        // with the rest. A slice would be one of those members, too, that hits are reading.
        self.rests.push(unsafe {
            Rest::new(self.members.as_ptr().add(first), self.members.len() - first, wrappers)
        });
        // SAFETY: it was just put there.
        unsafe { self.rests.as_mut_ptr().add(at) }
    }

    /// # Safety
    /// The caller has as many shares, and does not use the slab any more.
    unsafe fn give_back(slab: NonNull<Self>, shares: usize) {
        // SAFETY: alive, since the caller has a share.
        let before = unsafe { slab.as_ref() }.shares.fetch_sub(shares, Ordering::AcqRel);
        if before == shares {
            // SAFETY: from `Box::into_raw`; these were the last shares.
            drop(unsafe { Box::from_raw(slab.as_ptr()) });
        }
    }
}

/// Makes the hooks of one operation.
pub(crate) struct Hooks {
    slab: NonNull<Slab>,
    left: usize,
}

impl Hooks {
    /// With room for so many hooks, which are published now.
    pub(crate) fn with_room(room: Room, now: Era) -> Self {
        let slab = Slab {
            hooks: Vec::with_capacity(room.hooks),
            rests: Vec::with_capacity(room.rests),
            members: Vec::with_capacity(room.members),
            subscriptions: Vec::new(),
            since: now,
            shares: AtomicUsize::new(room.hooks + 1),
        };
        Self { slab: NonNull::from(Box::leak(Box::new(slab))), left: room.hooks }
    }

    /// Makes the hook of a probe, which has this counter: what a hit does for each subscription, and
    /// whether it counts now in place of being delivered.
    ///
    /// # Panics
    /// Without room.
    #[inline]
    pub(crate) fn add<'a>(
        &mut self,
        probe: ProbeId,
        counter: Option<TallyAt>,
        listening: impl Iterator<Item = (Action, &'a Arc<Subscription>, bool)>,
    ) -> Published {
        let slab = self.slab();
        let first = slab.members.len();
        let (mut last, mut wrapping) = (None, Vec::new());
        for (action, subscription, is_counting) in listening {
            if matches!(action, Action::Wrap) {
                wrapping.extend(subscription.wrapper());
                continue;
            }
            slab.share(subscription);
            // Whether it is alone, the next one tells.
            slab.members_extend(last.replace(Member::new(action, subscription, is_counting)));
        }
        let sole = if slab.members.len() == first { last.take() } else { None };
        slab.members_extend(last);
        let has_rest = slab.members.len() != first || !wrapping.is_empty();
        let rest = if has_rest { slab.add_rest(first, wrapping) } else { ptr::null_mut() };
        // SAFETY: the rest, and its members, are not moved, and are dropped with the hook, as are
        // the subscriptions.
        let hook = unsafe {
            match sole {
                Some(sole) => Hook::of_one(probe, sole.counting_at(counter), counter, rest),
                None => Hook::of_rest(probe, counter, rest),
            }
        };
        self.put(hook)
    }

    /// The same where one attachment is all, and has nothing run instead of the function.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    #[inline]
    pub(crate) fn add_one(
        &mut self,
        probe: ProbeId,
        counter: Option<TallyAt>,
        (action, subscription, is_counting): (Action, &Arc<Subscription>, bool),
    ) -> Published {
        debug_assert!(!matches!(action, Action::Wrap));
        self.slab().share(subscription);
        let sole = Member::new(action, subscription, is_counting).counting_at(counter);
        // SAFETY: the slab has the subscription as long as there are hooks.
        self.put(unsafe { Hook::of_one(probe, sole, counter, ptr::null_mut()) })
    }

    fn slab(&mut self) -> &mut Slab {
        // SAFETY: threads that read published hooks have references to these, to members and to
        // rests, but none to the slab.
        unsafe { self.slab.as_mut() }
    }

    #[inline]
    fn put(&mut self, hook: Hook) -> Published {
        assert!(self.left != 0, "room for another hook");
        self.left -= 1;
        let slab = self.slab();
        let at = slab.hooks.len();
        slab.hooks.push(hook);
        // SAFETY: within it. Not moved, as there was room.
        let hook = unsafe { NonNull::new_unchecked(slab.hooks.as_mut_ptr().add(at)) };
        Published { hook, slab: self.slab }
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // SAFETY: the maker's share, and those of hooks that were not made.
        unsafe { Slab::give_back(self.slab, self.left + 1) };
    }
}

/// A hook that hits may be reading: dropped when none can any more.
pub(crate) struct Published {
    hook: NonNull<Hook>,
    slab: NonNull<Slab>,
}

// SAFETY: a share in what is `Send` and `Sync`.
unsafe impl Send for Published {}

impl Published {
    /// What runs instead of a function is the program's: it goes now, though the slab may live on.
    fn drop_wrappers(&mut self) {
        // SAFETY: no thread can be reading the hook, and nobody else drops it.
        drop(unsafe { self.hook.as_mut() }.take_wrappers());
    }

    /// For `Definition::hook`.
    pub(crate) fn as_ptr(&self) -> *mut () {
        self.hook.as_ptr().cast()
    }
}

impl std::ops::Deref for Published {
    type Target = Hook;

    fn deref(&self) -> &Hook {
        // SAFETY: it is there as long as this share is.
        unsafe { self.hook.as_ref() }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.drop_wrappers();
        // SAFETY: this hook's share.
        unsafe { Slab::give_back(self.slab, 1) };
    }
}

/// Hooks of one slab that no hit finds any more, but hits may be reading: dropped when none can, by
/// one locked instruction.
pub(crate) struct Unpublished {
    slab: NonNull<Slab>,
    shares: usize,
    /// Those of the hooks that have something run instead of functions.
    wrapping: Vec<ManuallyDrop<Published>>,
}

// SAFETY: shares in what is `Send` and `Sync`.
unsafe impl Send for Unpublished {}

impl Unpublished {
    /// Adds a hook to those that came before it: most are one slab's.
    #[inline]
    pub(crate) fn add(all: &mut Vec<Self>, hook: Published) {
        let slab = hook.slab;
        if all.last().is_none_or(|last| last.slab != slab) {
            all.push(Self { slab, shares: 0, wrapping: Vec::new() });
        }
        let Some(last) = all.last_mut() else { return };
        last.shares += 1;
        let hook = ManuallyDrop::new(hook);
        if hook.wrappers().is_some() {
            last.wrapping.push(hook);
        }
    }

    /// When they were published.
    pub(crate) fn since(&self) -> Era {
        // SAFETY: it is there as long as there are shares.
        unsafe { self.slab.as_ref() }.since
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        self.wrapping.iter_mut().for_each(|hook| hook.drop_wrappers());
        // SAFETY: so many hooks' shares, none of which is used any more.
        unsafe { Slab::give_back(self.slab, self.shares) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::abi::{Definition, Kind};
    use crate::dispatch::{Event, Listener};

    struct Nobody;

    impl Listener for Nobody {
        fn hit(&self, _event: &Event<'_>) {}
    }

    #[test]
    fn what_runs_instead_of_a_function_goes_with_its_own_hook() {
        static FUNCTION: Definition = Definition::new(Kind::Replace, "", "", "", "", 1, 1);
        let (closure, count) = (Arc::new(()), Arc::new(Subscription::new(Arc::new(Nobody))));
        let wrapper = Wrapper::new::<()>(&FUNCTION, Box::new(Arc::clone(&closure)));
        let wrapping = Arc::new(Subscription::of_wrapper(wrapper));
        // Whoever counts two functions has published both hooks; one of the two is replaced.
        let tally = |number| (Action::Tally(TallyAt::new(number)), &count, false);
        let mut hooks = Hooks::with_room(Room { hooks: 2, rests: 1, members: 0 }, Era::UNKNOWN);
        let replaced =
            hooks.add(ProbeId::new(0), None, [(Action::Wrap, &wrapping, false), tally(0)].into_iter());
        let other = hooks.add(ProbeId::new(1), None, [tally(1)].into_iter());
        drop((hooks, wrapping));
        assert_eq!(Arc::strong_count(&closure), 2);
        drop(replaced);
        assert_eq!(Arc::strong_count(&closure), 1);
        assert_eq!(other.members().len(), 1);
    }

    #[test]
    fn hooks_of_several_slabs_are_dropped_together() {
        let [one, other] = [0, 1].map(|_| Arc::new(Subscription::new(Arc::new(Nobody))));
        let publish = |subscription: &Arc<Subscription>| {
            let mut hooks = Hooks::with_room(Room { hooks: 3, ..Room::default() }, Era::UNKNOWN);
            let tally = || [(Action::Tally(TallyAt::new(0)), subscription, false)].into_iter();
            [0, 1, 2].map(|number| hooks.add(ProbeId::new(number), None, tally()))
        };
        let ([first, second, kept], [third, fourth, fifth]) = (publish(&one), publish(&other));
        let mut unpublished = Vec::new();
        for hook in [first, third, fourth, second, fifth] {
            Unpublished::add(&mut unpublished, hook);
        }
        assert_eq!(unpublished.iter().map(|it| it.shares).collect::<Vec<_>>(), [1, 2, 1, 1]);
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (2, 2));
        drop(unpublished);
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (2, 1));
        drop(kept);
        assert_eq!(Arc::strong_count(&one), 1);
    }

    #[test]
    fn the_last_share_frees_all() {
        let subscription = Arc::new(Subscription::new(Arc::new(Nobody)));
        let mut hooks = Hooks::with_room(Room { hooks: 3, rests: 1, members: 2 }, Era::UNKNOWN);
        let tally = |number| (Action::Tally(TallyAt::new(number)), &subscription, false);
        let one = hooks.add(ProbeId::new(7), None, [tally(0)].into_iter());
        let two = hooks.add(ProbeId::new(8), None, [tally(1), tally(2)].into_iter());
        assert_eq!([&one, &two].map(|hook| (hook.probe().index(), hook.members().len())), [(7, 1), (8, 2)]);
        assert_eq!(Arc::strong_count(&subscription), 2, "one for all");
        drop(one);
        // There was room for a third.
        drop(hooks);
        assert_eq!((Arc::strong_count(&subscription), two.members().len()), (2, 2));
        drop(two);
        assert_eq!(Arc::strong_count(&subscription), 1);
    }
}
