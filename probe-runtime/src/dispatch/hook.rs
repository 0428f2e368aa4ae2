//! The hook: what a probe's consumers are, as one immutable snapshot.

// Safety: relies on `control`, which alone publishes hooks, and frees one only when `limbo` gives
// it out.
#![expect(unsafe_code, reason = "see above")]

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{ptr, slice};

use super::ProbeId;
use super::delivery::{Deliver, each};
use super::slot::UNREAD;
use super::{Slot, Subscription, TallyAt, Wrappers};

/// The members of one probe. Published through `Definition::hook`. A hit reads most of it: it is one
/// cache line.
#[repr(C, align(64))]
pub(crate) struct Hook {
    /// Where to count, once for all members, if counting is all there is to do now; else 0 or
    /// [`IN_ORDER`]. `enter` reads it.
    sole_tally: AtomicUsize,
    /// What else there is to do. `enter` calls it.
    pub(super) deliver: Deliver,
    /// The member of a hook that has one. Its subscription, which is first in it, is whose consumer
    /// `deliver` calls.
    pub(super) sole: Member,
    probe: ProbeId,
    /// The probe's own counter, if it has one.
    counter: Option<TallyAt>,
    /// Several members, or wrappers; null of most hooks. It lies in a [slab](super::slab).
    rest: *mut Rest,
}

/// A hook's members, if it has not one alone, and its wrappers.
pub(super) struct Rest {
    /// Those who listen, if they are not one alone. They lie in a slab, too.
    members: *const Member,
    len: usize,
    /// What runs instead of the function, newest first.
    wrappers: Option<Wrappers>,
}

const _: () = {
    assert!(offset_of!(Hook, sole_tally) == 0);
    assert!(offset_of!(Hook, deliver) == 8);
    assert!(offset_of!(Hook, sole) == 16 && offset_of!(Member, subscription) == 0);
    assert!(size_of::<Hook>() == 64);
};

// SAFETY: `rest` is there as long as it is, and nobody else's.
unsafe impl Send for Hook {}
// SAFETY: as above; what it points to is `Sync`.
unsafe impl Sync for Hook {}
// SAFETY: `members` point to members, which are there as long as it is.
unsafe impl Send for Rest {}
// SAFETY: as above; members are `Sync`.
unsafe impl Sync for Rest {}

/// Somebody listens who [needs order](crate::Consumer::needs_order): a hit begins when what came
/// before it is done. As a signed number less than 0, unlike where to count.
const IN_ORDER: usize = usize::MAX;

impl Hook {
    /// A hook with one member.
    ///
    /// # Safety
    /// The member's subscription is not dropped before the hook is. The rest, if there is one, has no
    /// members, is no other hook's, and is neither moved nor dropped before the hook is.
    pub(super) unsafe fn of_one(
        probe: ProbeId,
        sole: Member,
        counter: Option<TallyAt>,
        rest: *mut Rest,
    ) -> Self {
        let sole_tally = AtomicUsize::new(way(slice::from_ref(&sole), counter));
        let deliver = match sole.action {
            Action::Call { .. } => sole.subscription().deliver(),
            _ => each,
        };
        Self { sole_tally, deliver, sole, probe, counter, rest }
    }

    /// One with the members of the rest, if there is one.
    ///
    /// # Safety
    /// The rest is no other hook's, and is neither moved nor dropped before the hook is; nor are the
    /// members' subscriptions.
    pub(super) unsafe fn of_rest(probe: ProbeId, counter: Option<TallyAt>, rest: *mut Rest) -> Self {
        // SAFETY: the caller's promise.
        let sole_tally = AtomicUsize::new(way(unsafe { rest.as_ref() }.map_or(&[], Rest::members), counter));
        Self { sole_tally, deliver: each, sole: Member::nobody(), probe, counter, rest }
    }

    /// The hook behind a published pointer, for as long as the slot stays marked.
    pub(super) fn read(hook: *mut Self, _marked: &Slot) -> Option<&Self> {
        // SAFETY: a published hook is freed only when `limbo` gives it out, which looks at this
        // thread's mark.
        unsafe { hook.as_ref() }
    }

    #[inline(always)]
    pub(super) fn probe(&self) -> ProbeId {
        self.probe
    }

    #[inline(always)]
    pub(super) fn members(&self) -> &[Member] {
        if self.sole.subscription.is_null() {
            self.rest().map_or(&[], Rest::members)
        } else {
            slice::from_ref(&self.sole)
        }
    }

    #[inline(always)]
    fn rest(&self) -> Option<&Rest> {
        // SAFETY: as whoever made the hook has promised.
        unsafe { self.rest.as_ref() }
    }

    /// Where a hit is counted for several members together, if counting is all there is to do now.
    #[inline(always)]
    pub(super) fn joint_tally(&self) -> Option<TallyAt> {
        let is_joint = |at: &TallyAt| self.sole_tally.load(Ordering::Relaxed) == at.offset();
        self.counter.filter(|at| self.members().len() > 1 && is_joint(at))
    }

    /// Whether all that there is to do now is to count a hit there.
    #[inline]
    pub(crate) fn only_counts_at(&self, counter: TallyAt) -> bool {
        self.sole_tally.load(Ordering::Relaxed) == counter.offset() && self.wrappers().is_none()
    }

    pub(super) fn wrappers(&self) -> Option<&Wrappers> {
        self.rest()?.wrappers.as_ref()
    }

    /// Once no hit can find it.
    pub(super) fn take_wrappers(&mut self) -> Option<Wrappers> {
        // SAFETY: as whoever made the hook has promised; nobody reads it any more.
        unsafe { self.rest.as_mut() }?.wrappers.take()
    }

    /// Has an attachment's hits counted, or delivered, while others may be reading the hook: those
    /// that are under way may see either.
    pub(crate) fn set_counting(&self, subscription: &Subscription, is_counting: bool) {
        let Some(member) = self.members().iter().find(|it| ptr::eq(it.subscription, subscription)) else {
            return;
        };
        member.set_counting(is_counting);
        self.sole_tally.store(way(self.members(), self.counter), Ordering::Release);
    }
}

impl Rest {
    /// # Safety
    /// So many members lie there, and are neither moved nor dropped before this is.
    pub(super) unsafe fn new(members: *const Member, len: usize, wrappers: Option<Wrappers>) -> Self {
        Self { members, len, wrappers }
    }

    #[inline(always)]
    fn members(&self) -> &[Member] {
        // SAFETY: as whoever made it has promised.
        unsafe { slice::from_raw_parts(self.members, self.len) }
    }
}

/// What `enter` is to do for these members, as they are now.
fn way(members: &[Member], counter: Option<TallyAt>) -> usize {
    let is_ordered = || members.iter().any(Member::needs_order);
    let long_way = || if is_ordered() { IN_ORDER } else { 0 };
    match members {
        // Nobody listens, so that the way in has nothing to do.
        [] => UNREAD,
        [sole] => sole.tally().map_or_else(long_way, TallyAt::offset),
        all if all.iter().all(|member| member.tally().is_some()) => {
            counter.map_or_else(long_way, TallyAt::offset)
        }
        _ => long_way(),
    }
}

/// What a hit does for one attachment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Bumps the thread's counter.
    Tally(TallyAt),
    /// Calls the consumer; bumps the counter where it may not.
    Call {
        /// The hits that were not delivered, because they came from inside a consumer.
        suppressed: TallyAt,
        /// The hits that the consumer has counted instead, if it ever does.
        counted: Option<TallyAt>,
    },
    /// Nothing: its wrapper runs after the hit, instead of the function.
    Wrap,
}

impl Action {
    /// Whether hits are ever counted, but for those that are suppressed.
    pub(crate) fn counts(self) -> bool {
        self.counter().is_some()
    }

    /// Where its attachment's own counter counts them.
    pub(crate) fn counter(self) -> Option<TallyAt> {
        match self {
            Self::Tally(at) => Some(at),
            Self::Call { counted, .. } => counted,
            Self::Wrap => None,
        }
    }

    /// Whether hits are never delivered.
    pub(crate) fn only_counts(self) -> bool {
        matches!(self, Self::Tally(_))
    }
}

/// One attachment's part in one probe.
#[repr(C)]
pub(crate) struct Member {
    /// Kept by whoever has the member: one share for all that it has. Null only of
    /// [`nobody`](Self::nobody).
    subscription: *const Subscription,
    action: Action,
    /// Of [`Action::Call`]: whether hits are counted now, in place of being delivered.
    is_counting: AtomicBool,
}

// SAFETY: a subscription is `Send` and `Sync`.
unsafe impl Send for Member {}
// SAFETY: as above.
unsafe impl Sync for Member {}

impl Member {
    /// Stands where no member is alone.
    const fn nobody() -> Self {
        Self { subscription: ptr::null(), action: Action::Wrap, is_counting: AtomicBool::new(false) }
    }

    pub(super) fn new(action: Action, subscription: &Arc<Subscription>, is_counting: bool) -> Self {
        let subscription = Arc::as_ptr(subscription);
        Self { subscription, action, is_counting: AtomicBool::new(is_counting) }
    }

    /// Has hits that it counts be counted by the probe's counter, if there is one, before its hook
    /// is made.
    pub(super) fn counting_at(mut self, counter: Option<TallyAt>) -> Self {
        if let (Some(counter), Action::Tally(at) | Action::Call { counted: Some(at), .. }) =
            (counter, &mut self.action)
        {
            *at = counter;
        }
        self
    }

    /// What a hit does now.
    #[inline(always)]
    pub(super) fn action(&self) -> Action {
        match self.action {
            Action::Call { counted: Some(at), .. } if self.is_counting.load(Ordering::Relaxed) => {
                Action::Tally(at)
            }
            action => action,
        }
    }

    /// Where a hit is counted, if that is all that it does now.
    fn tally(&self) -> Option<TallyAt> {
        if let Action::Tally(at) = self.action() { Some(at) } else { None }
    }

    /// Whether its hits are to begin when what came before is done.
    fn needs_order(&self) -> bool {
        matches!(self.action(), Action::Call { .. }) && self.subscription().needs_order()
    }

    /// By the holder of the control lock.
    fn set_counting(&self, is_counting: bool) {
        self.is_counting.store(is_counting, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn subscription(&self) -> &Subscription {
        // SAFETY: it is there as long as the member is, as whoever made the member's hook has
        // promised.
        unsafe { &*self.subscription }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::dispatch::{Era, Event, Hooks, Listener, Room};

    struct Told {
        needs_order: bool,
    }

    impl Listener for Told {
        fn needs_order(&self) -> bool {
            self.needs_order
        }

        fn hit(&self, _event: &Event<'_>) {}
    }

    /// The probe's counter is the first, and the attachments' are these.
    const OWN: [usize; 2] = [64, 65];

    fn subscription(needs_order: bool) -> Arc<Subscription> {
        Arc::new(Subscription::new(Arc::new(Told { needs_order })))
    }

    fn hook(members: &[(Action, &Arc<Subscription>)]) -> crate::dispatch::Published {
        let listening = members.iter().map(|(action, subscription)| (*action, *subscription, false));
        let mut hooks = Hooks::with_room(Room { hooks: 1, rests: 1, members: members.len() }, Era::UNKNOWN);
        hooks.add(ProbeId::new(0), Some(TallyAt::new(0)), listening)
    }

    fn way(hook: &Hook) -> usize {
        hook.sole_tally.load(Ordering::Relaxed)
    }

    /// What the members of a hook do.
    fn places(hook: &Hook) -> Vec<Option<TallyAt>> {
        hook.members().iter().map(Member::tally).collect()
    }

    #[test]
    fn order_is_for_hits_that_are_delivered_to_who_needs_it() {
        let call = Action::Call { suppressed: TallyAt::new(1), counted: Some(TallyAt::new(OWN[0])) };
        let tally = Action::Tally(TallyAt::new(OWN[1]));
        let (ordered, other) = (&subscription(true), &subscription(false));
        assert_eq!(way(&hook(&[])), UNREAD);
        assert_eq!(way(&hook(&[(Action::Wrap, other)])), UNREAD);
        assert_eq!(way(&hook(&[(call, other)])), 0);
        assert_eq!(way(&hook(&[(tally, other), (call, other)])), 0);
        assert_eq!(way(&hook(&[(tally, other), (call, ordered)])), IN_ORDER);
        let counted = TallyAt::new(0).offset();
        let (alone, both) = (hook(&[(call, ordered)]), hook(&[(call, ordered), (call, other)]));
        for hook in [&alone, &both] {
            assert_eq!(way(hook), IN_ORDER);
            hook.set_counting(ordered, true);
        }
        assert_eq!((way(&alone), way(&both)), (counted, 0));
        both.set_counting(other, true);
        assert_eq!(way(&both), counted, "once for both");
        both.set_counting(other, false);
        assert_eq!(way(&both), 0);
        alone.set_counting(ordered, false);
        assert_eq!(way(&alone), IN_ORDER);
    }

    #[test]
    fn who_counts_alone_or_with_others_that_count_does_so_by_the_probes_counter() {
        let [first, second] = OWN.map(TallyAt::new);
        let call = Action::Call { suppressed: TallyAt::new(1), counted: Some(first) };
        let tally = Action::Tally(second);
        let (one, other) = (&subscription(false), &subscription(false));
        let probes = TallyAt::new(0);
        for alone in [hook(&[(tally, one)]), hook(&[(tally, one), (Action::Wrap, other)])] {
            assert_eq!((way(&alone), places(&alone)), (probes.offset(), vec![Some(probes)]));
        }
        let both = hook(&[(tally, one), (tally, other)]);
        assert_eq!((way(&both), both.joint_tally()), (probes.offset(), Some(probes)));
        // Of one that may be called, whoever has seen that it is counts for itself.
        let mixed = hook(&[(call, one), (tally, other)]);
        assert_eq!((mixed.joint_tally(), places(&mixed)), (None, vec![None, Some(second)]));
        mixed.set_counting(one, true);
        assert_eq!((mixed.joint_tally(), places(&mixed)), (Some(probes), vec![Some(first), Some(second)]));
    }
}
