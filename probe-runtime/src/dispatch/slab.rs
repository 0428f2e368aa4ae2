//! Hooks that one operation publishes: all in one piece of memory, their members in another.
//!
//! Life: made with room for so many ▸ filled, hook by hook; each is there for a [`Published`],
//! which has a share in the memory ▸ freed with the last share. So a hook that is still published
//! keeps those that came with it, but for what they have run instead of functions: at most as many
//! as its attachment has probes.
//! Cost: 64 bytes for each hook, 24 for each member, and two allocations.

// Safety: relies on neither piece of memory being moved: both have room for all from the beginning.
// And on callers, who drop what was published when no thread can be reading it.
#![expect(unsafe_code, reason = "see above")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::hook::{Action, Hook, Member};
use super::{Era, Subscription, TallyAt, Wrappers};
use crate::registry::ProbeId;

/// Both pieces of memory. Only the maker of hooks changes it.
pub(super) struct Slab {
    hooks: Vec<Hook>,
    members: Vec<Member>,
    /// Those of the members, each once.
    subscriptions: Vec<Arc<Subscription>>,
    /// When its hooks were published.
    since: Era,
    /// How many hooks are yet to be made, or to be dropped; and one more while there is a maker.
    shares: AtomicUsize,
}

impl Slab {
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
    /// With room for so many hooks, which are published now, and for so many members of all of
    /// them.
    pub(crate) fn with_room(hooks: usize, members: usize, now: Era) -> Self {
        let slab = Slab {
            hooks: Vec::with_capacity(hooks),
            members: Vec::with_capacity(members),
            subscriptions: Vec::new(),
            since: now,
            shares: AtomicUsize::new(hooks + 1),
        };
        Self { slab: NonNull::from(Box::leak(Box::new(slab))), left: hooks }
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
        assert!(self.left != 0, "room for another hook");
        // SAFETY: threads that read published hooks have references to these, and to members, but
        // none to the slab.
        let slab = unsafe { self.slab.as_mut() };
        let first = slab.members.len();
        let mut wrapping = Vec::new();
        for (action, subscription, is_counting) in listening {
            if matches!(action, Action::Wrap) {
                wrapping.extend(subscription.wrapper());
                continue;
            }
            assert!(slab.members.len() < slab.members.capacity(), "room for another member");
            if !slab.subscriptions.iter().any(|known| Arc::ptr_eq(known, subscription)) {
                slab.subscriptions.push(Arc::clone(subscription));
            }
            slab.members.push(Member::new(action, subscription, is_counting));
        }
        if let (Some(counter), 1) = (counter, slab.members.len() - first) {
            // SAFETY: the member that was just added, which no hook has yet. A slice of the members
            // would be one of those, too, that hits are reading.
            unsafe { (*slab.members.as_mut_ptr().add(first)).count_at(counter) };
        }
        // The newest first.
        let wrappers = (!wrapping.is_empty()).then(|| wrapping.into_iter().rev().collect::<Wrappers>());
        // SAFETY: the members are not moved, and are dropped with the hook, as are the
        // subscriptions.
        let hook = unsafe {
            let members = slab.members.as_ptr().add(first);
            Hook::new(probe, members, slab.members.len() - first, counter, wrappers)
        };
        slab.hooks.push(hook);
        self.left -= 1;
        let at = slab.hooks.len() - 1;
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
    /// Drops them: those of one slab that stand together by one locked instruction.
    pub(crate) fn drop_all(hooks: Vec<Self>) {
        let mut hooks = hooks.into_iter().map(ManuallyDrop::new).peekable();
        while let Some(mut first) = hooks.next() {
            let (slab, mut shares) = (first.slab, 1);
            first.drop_wrappers();
            while let Some(mut hook) = hooks.next_if(|hook| hook.slab == slab) {
                hook.drop_wrappers();
                shares += 1;
            }
            // SAFETY: so many hooks' shares, none of which is used any more.
            unsafe { Slab::give_back(slab, shares) };
        }
    }

    /// What runs instead of a function is the program's: it goes now, though the slab may live on.
    fn drop_wrappers(&mut self) {
        // SAFETY: no thread can be reading the hook, and nobody else drops it.
        drop(unsafe { self.hook.as_mut() }.take_wrappers());
    }

    /// When.
    pub(crate) fn since(&self) -> Era {
        // SAFETY: it is there as long as this share is.
        unsafe { self.slab.as_ref() }.since
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::abi::{Definition, Kind};
    use crate::consumers::Count;
    use crate::dispatch::Wrapper;

    #[test]
    fn what_runs_instead_of_a_function_goes_with_its_own_hook() {
        static FUNCTION: Definition = Definition::new(Kind::Replace, "", "", "", "", 1, 1);
        let (closure, count) = (Arc::new(()), Arc::new(Subscription::new(Arc::new(Count::new()))));
        let wrapper = Wrapper::new::<()>(&FUNCTION, Box::new(Arc::clone(&closure)));
        let wrapping = Arc::new(Subscription::of_wrapper(wrapper));
        // Whoever counts two functions has published both hooks; one of the two is replaced.
        let tally = |number| (Action::Tally(TallyAt::new(number)), &count, false);
        let mut hooks = Hooks::with_room(2, 3, Era::UNKNOWN);
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
        let [one, other] = [0, 1].map(|_| Arc::new(Subscription::new(Arc::new(Count::new()))));
        let publish = |subscription: &Arc<Subscription>| {
            let mut hooks = Hooks::with_room(3, 3, Era::UNKNOWN);
            let tally = || [(Action::Tally(TallyAt::new(0)), subscription, false)].into_iter();
            [0, 1, 2].map(|number| hooks.add(ProbeId::new(number), None, tally()))
        };
        let ([first, second, kept], [third, fourth, fifth]) = (publish(&one), publish(&other));
        Published::drop_all(vec![first, third, fourth, second, fifth]);
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (2, 1));
        Published::drop_all(vec![kept]);
        assert_eq!(Arc::strong_count(&one), 1);
    }

    #[test]
    fn the_last_share_frees_all() {
        let subscription = Arc::new(Subscription::new(Arc::new(Count::new())));
        let mut hooks = Hooks::with_room(3, 4, Era::UNKNOWN);
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
