//! Memory for the hooks of one operation: one piece for all hooks, and others for parts that few
//! hooks have.
//!
//! Life cycle: made with room for a number of hooks ▸ filled, hook by hook; each is held by a
//! [`Published`], which has a share in the memory ▸ [`Unpublished`], together with its neighbours
//! ▸ freed with the last share. So a hook that is still published keeps the memory of the hooks
//! made with it, at most as many as its attachment has probes. Their wrappers are dropped earlier.
//!
//! Cost: 64 bytes for each hook, and one allocation. Hooks that do not have exactly one member take
//! 32 bytes more, 24 for each member, and two allocations for all of them. Taking hooks back
//! allocates no memory per hook.

// Safety: relies on no piece of memory being moved: each has enough room from the beginning. Also
// relies on callers, who drop unpublished hooks only when no thread can be reading them.
#![expect(unsafe_code, reason = "see above")]

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::hook::{Action, ExtraMembers, Hook, Member};
use super::{CounterAt, Epoch, ProbeId, Subscription, Wrapper, Wrappers};

/// The number of objects to make room for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct HookCapacity {
    pub(crate) hooks: usize,
    /// Number of hooks that may not have exactly one member.
    pub(crate) extras: usize,
    /// Number of members of these.
    pub(crate) members: usize,
}

impl HookCapacity {
    /// Adds room for the hook of a probe with `listening` members, if there are any. `has_extra`
    /// says that it may have several members or wrappers.
    #[inline]
    pub(crate) fn add(&mut self, listening: usize, has_extra: bool) {
        if listening != 0 {
            self.hooks += 1;
            if has_extra {
                self.extras += 1;
                self.members += listening;
            }
        }
    }
}

/// All pieces of memory. Only the maker of the hooks changes it.
pub(super) struct Slab {
    hooks: Vec<Hook>,
    extras: Vec<ExtraMembers>,
    members: Vec<Member>,
    /// Subscriptions of the members, each once.
    subscriptions: Vec<Arc<Subscription>>,
    /// The era in which its hooks were published.
    since: Epoch,
    /// Number of hooks that are not made yet or not dropped yet, plus one while there is a maker.
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

    /// Adds the members from `first` on as those of one hook, and with the wrappers, given oldest
    /// first.
    fn add_extra(&mut self, first: usize, wrapping: Vec<Arc<Wrapper>>) -> *mut ExtraMembers {
        assert!(self.extras.len() < self.extras.capacity(), "room for another extra");
        let wrappers = (!wrapping.is_empty()).then(|| wrapping.into_iter().rev().collect::<Wrappers>());
        let at = self.extras.len();
        // SAFETY: the pointer is within the members, or at their end. They are not moved, and are
        // dropped together. A slice would borrow members that hits are reading.
        self.extras.push(unsafe {
            ExtraMembers::new(self.members.as_ptr().add(first), self.members.len() - first, wrappers)
        });
        // SAFETY: it was just put there.
        unsafe { self.extras.as_mut_ptr().add(at) }
    }

    /// # Safety
    /// The caller must have `shares` shares, and must not use the slab any more.
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
pub(crate) struct HookBuilder {
    slab: NonNull<Slab>,
    left: usize,
}

impl HookBuilder {
    /// Makes room for the hooks, which are published in the era `now`.
    pub(crate) fn with_capacity(room: HookCapacity, now: Epoch) -> Self {
        let slab = Slab {
            hooks: Vec::with_capacity(room.hooks),
            extras: Vec::with_capacity(room.extras),
            members: Vec::with_capacity(room.members),
            subscriptions: Vec::new(),
            since: now,
            shares: AtomicUsize::new(room.hooks + 1),
        };
        Self { slab: NonNull::from(Box::leak(Box::new(slab))), left: room.hooks }
    }

    /// Makes the hook of a probe with this counter. `listening` gives the effect of a hit for each
    /// subscription, and whether it is now counted instead of delivered.
    ///
    /// # Panics
    /// If there is no room left.
    #[inline]
    pub(crate) fn add<'a>(
        &mut self,
        probe: ProbeId,
        counter: Option<CounterAt>,
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
            // Only the next member shows whether this one is alone.
            slab.members_extend(last.replace(Member::new(action, subscription, is_counting)));
        }
        let sole = if slab.members.len() == first { last.take() } else { None };
        slab.members_extend(last);
        let has_extra = slab.members.len() != first || !wrapping.is_empty();
        let extra = if has_extra { slab.add_extra(first, wrapping) } else { ptr::null_mut() };
        // SAFETY: the members are not moved, and are dropped with the hook, as are the
        // subscriptions.
        let hook = unsafe {
            match sole {
                Some(sole) => Hook::of_one(probe, sole.counting_at(counter), counter, extra),
                None => Hook::of_extra(probe, counter, extra),
            }
        };
        self.put(hook)
    }

    /// Makes the hook of a probe with only one attachment and no wrapper.
    ///
    /// # Panics
    /// The same as [`add`](Self::add).
    #[inline]
    pub(crate) fn add_one(
        &mut self,
        probe: ProbeId,
        counter: Option<CounterAt>,
        (action, subscription, is_counting): (Action, &Arc<Subscription>, bool),
    ) -> Published {
        debug_assert!(!matches!(action, Action::Wrap));
        self.slab().share(subscription);
        let sole = Member::new(action, subscription, is_counting).counting_at(counter);
        // SAFETY: the slab keeps the subscription as long as there are hooks.
        self.put(unsafe { Hook::of_one(probe, sole, counter, ptr::null_mut()) })
    }

    fn slab(&mut self) -> &mut Slab {
        // SAFETY: threads that read published hooks have references to hooks, members and extras,
        // but none to the slab.
        unsafe { self.slab.as_mut() }
    }

    #[inline]
    fn put(&mut self, hook: Hook) -> Published {
        assert!(self.left != 0, "room for another hook");
        self.left -= 1;
        let slab = self.slab();
        let at = slab.hooks.len();
        slab.hooks.push(hook);
        // SAFETY: within the vector, which was not moved, as there was room.
        let hook = unsafe { NonNull::new_unchecked(slab.hooks.as_mut_ptr().add(at)) };
        Published { hook, slab: self.slab }
    }
}

impl Drop for HookBuilder {
    fn drop(&mut self) {
        // SAFETY: the maker's share, and those of hooks that were not made.
        unsafe { Slab::give_back(self.slab, self.left + 1) };
    }
}

/// A hook that hits may be reading. Drop it only when no hit can.
pub(crate) struct Published {
    hook: NonNull<Hook>,
    slab: NonNull<Slab>,
}

// SAFETY: a share in memory that is `Send` and `Sync`.
unsafe impl Send for Published {}

impl Published {
    /// Drops the wrappers, which belong to the program, although the slab may live on.
    fn drop_wrappers(&mut self) {
        // SAFETY: no thread can be reading the hook, and no other thread drops it.
        drop(unsafe { self.hook.as_mut() }.take_wrappers());
    }

    /// Returns the pointer for `Definition::hook`.
    pub(crate) fn as_ptr(&self) -> *mut () {
        self.hook.as_ptr().cast()
    }
}

impl std::ops::Deref for Published {
    type Target = Hook;

    fn deref(&self) -> &Hook {
        // SAFETY: the hook lives as long as this share.
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

/// Hooks of one slab that no new hit finds, but that hits may still be reading. Drop them when no
/// hit can; that takes one locked instruction.
pub(crate) struct Unpublished {
    slab: NonNull<Slab>,
    shares: usize,
    /// The hooks that have wrappers.
    wrapping: Vec<ManuallyDrop<Published>>,
}

// SAFETY: shares in memory that is `Send` and `Sync`.
unsafe impl Send for Unpublished {}

impl Unpublished {
    /// Adds a hook to the ones already in `all`. Most hooks belong to the same slab.
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

    /// Returns the era in which the hooks were published.
    pub(crate) fn since(&self) -> Epoch {
        // SAFETY: the slab lives as long as there are shares.
        unsafe { self.slab.as_ref() }.since
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        self.wrapping.iter_mut().for_each(|hook| hook.drop_wrappers());
        // SAFETY: the shares of these hooks, none of which is used any more.
        unsafe { Slab::give_back(self.slab, self.shares) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::dispatch::{Event, Listener};
    use probe_core::abi::{Definition, Kind};

    struct NoopListener;

    impl Listener for NoopListener {
        fn hit(&self, _event: &Event<'_>) {}
    }

    #[test]
    fn wrappers_are_dropped_with_their_own_hook() {
        static FUNCTION: Definition = Definition::new(Kind::Replace, "", "", "", "", 1, 1);
        let (closure, count) = (Arc::new(()), Arc::new(Subscription::new(Arc::new(NoopListener))));
        let wrapper = Wrapper::new::<()>(&FUNCTION, Box::new(Arc::clone(&closure)));
        let wrapping = Arc::new(Subscription::of_wrapper(wrapper));
        // The attachment that counts two functions has published both hooks; one of the two is
        // replaced.
        let count = |number| (Action::Count(CounterAt::new(number)), &count, false);
        let mut hooks =
            HookBuilder::with_capacity(HookCapacity { hooks: 2, extras: 1, members: 0 }, Epoch::UNKNOWN);
        let replaced =
            hooks.add(ProbeId::new(0), None, [(Action::Wrap, &wrapping, false), count(0)].into_iter());
        let other = hooks.add(ProbeId::new(1), None, [count(1)].into_iter());
        drop((hooks, wrapping));
        assert_eq!(Arc::strong_count(&closure), 2);
        drop(replaced);
        assert_eq!(Arc::strong_count(&closure), 1);
        assert_eq!(other.members().len(), 1);
    }

    #[test]
    fn hooks_of_several_slabs_are_dropped_together() {
        let [one, other] = [0, 1].map(|_| Arc::new(Subscription::new(Arc::new(NoopListener))));
        let publish = |subscription: &Arc<Subscription>| {
            let mut hooks = HookBuilder::with_capacity(
                HookCapacity { hooks: 3, ..HookCapacity::default() },
                Epoch::UNKNOWN,
            );
            let count = || [(Action::Count(CounterAt::new(0)), subscription, false)].into_iter();
            [0, 1, 2].map(|number| hooks.add(ProbeId::new(number), None, count()))
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
        let subscription = Arc::new(Subscription::new(Arc::new(NoopListener)));
        let mut hooks =
            HookBuilder::with_capacity(HookCapacity { hooks: 3, extras: 1, members: 2 }, Epoch::UNKNOWN);
        let count = |number| (Action::Count(CounterAt::new(number)), &subscription, false);
        let one = hooks.add(ProbeId::new(7), None, [count(0)].into_iter());
        let two = hooks.add(ProbeId::new(8), None, [count(1), count(2)].into_iter());
        assert_eq!([&one, &two].map(|hook| (hook.probe().index(), hook.members().len())), [(7, 1), (8, 2)]);
        assert_eq!(Arc::strong_count(&subscription), 2, "one for all");
        drop(one);
        // There was room for a third hook.
        drop(hooks);
        assert_eq!((Arc::strong_count(&subscription), two.members().len()), (2, 2));
        drop(two);
        assert_eq!(Arc::strong_count(&subscription), 1);
    }
}
