//! The hook: what a probe's consumers are, as one immutable snapshot.

// Safety: relies on `control`, which alone publishes hooks, and frees one only when `limbo` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::mem::offset_of;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::delivery::{Deliver, each};
use super::slot::UNREAD;
use super::{Slot, Subscription, TallyAt, Wrappers};
use crate::registry::ProbeId;

/// The members of one probe. Published through `Definition::hook`.
#[repr(C)]
pub(crate) struct Hook {
    /// Where to count, if counting is all there is to do now; else 0 or [`IN_ORDER`]. `enter` reads it.
    sole_tally: AtomicUsize,
    /// What else there is to do. `enter` calls it.
    pub(super) deliver: Deliver,
    /// Whose consumer it calls, if it is one alone: that of the sole member.
    pub(super) sole: *const Subscription,
    probe: ProbeId,
    members: Box<[Member]>,
    /// What runs instead of the function, newest first.
    wrappers: Option<Wrappers>,
}

const _: () = {
    assert!(offset_of!(Hook, sole_tally) == 0);
    assert!(offset_of!(Hook, deliver) == 8);
    assert!(offset_of!(Hook, sole) == 16);
};

// SAFETY: `sole` points to what a member shares.
unsafe impl Send for Hook {}
// SAFETY: as above; what it points to is `Sync`.
unsafe impl Sync for Hook {}

/// Somebody listens who [needs order](crate::Consumer::needs_order): a hit begins when what came before it is done. As a signed number less than 0,
/// unlike where to count.
const IN_ORDER: usize = usize::MAX;

impl Hook {
    pub(crate) fn new(probe: ProbeId, members: Box<[Member]>) -> Self {
        let is_wrapped = members.iter().any(|member| matches!(member.action, Action::Wrap));
        // Else the box stays as it is: it may stand for memory that is no box.
        let (members, wrappers) = if is_wrapped { apart(members) } else { (members, None) };
        let sole_tally = AtomicUsize::new(way(&members));
        let (deliver, sole) = match &*members {
            [Member { action: Action::Call { .. }, subscription, .. }] => {
                (subscription.deliver(), Arc::as_ptr(subscription))
            }
            _ => (each as Deliver, ptr::null()),
        };
        Self { sole_tally, deliver, sole, probe, members, wrappers }
    }

    /// The hook behind a published pointer, for as long as the slot stays marked.
    pub(super) fn read(hook: *mut Self, _marked: &Slot) -> Option<&Self> {
        // SAFETY: a published hook is freed only when `limbo` gives it out, which looks at this thread's mark.
        unsafe { hook.as_ref() }
    }

    #[inline(always)]
    pub(super) fn probe(&self) -> ProbeId {
        self.probe
    }

    #[inline(always)]
    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(super) fn wrappers(&self) -> Option<&Wrappers> {
        self.wrappers.as_ref()
    }

    /// Has an attachment's hits counted, or delivered, while others may be reading the hook: those that are under way may see either.
    pub(crate) fn set_counting(&self, subscription: &Arc<Subscription>, is_counting: bool) {
        let Some(member) = self.members.iter().find(|it| Arc::ptr_eq(&it.subscription, subscription)) else {
            return;
        };
        member.set_counting(is_counting);
        self.sole_tally.store(way(&self.members), Ordering::Release);
    }
}

/// What `enter` is to do for these members, as they are now.
fn way(members: &[Member]) -> usize {
    let is_ordered = || members.iter().any(Member::needs_order);
    let long_way = || if is_ordered() { IN_ORDER } else { 0 };
    match members {
        // Nobody listens, so that the way in has nothing to do.
        [] => UNREAD,
        [sole] => sole.tally().map_or_else(long_way, TallyAt::offset),
        _ => long_way(),
    }
}

/// Those who listen, and what runs instead of the function.
fn apart(members: Box<[Member]>) -> (Box<[Member]>, Option<Wrappers>) {
    let (wrapping, listening): (Vec<_>, Vec<_>) =
        members.into_vec().into_iter().partition(|member| matches!(member.action, Action::Wrap));
    let newest_first = wrapping.iter().rev();
    let wrappers = newest_first.filter_map(|member| member.subscription.wrapper()).collect();
    (listening.into(), Some(wrappers))
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

/// One attachment's part in one probe.
pub(crate) struct Member {
    action: Action,
    subscription: Arc<Subscription>,
    /// Of [`Action::Call`]: whether hits are counted now, in place of being delivered.
    is_counting: AtomicBool,
}

impl Clone for Member {
    fn clone(&self) -> Self {
        let Self { action, subscription, is_counting } = self;
        let is_counting = AtomicBool::new(is_counting.load(Ordering::Relaxed));
        Self { action: *action, subscription: Arc::clone(subscription), is_counting }
    }
}

impl Member {
    pub(crate) fn new(action: Action, subscription: Arc<Subscription>) -> Self {
        Self { action, subscription, is_counting: AtomicBool::new(false) }
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
        matches!(self.action(), Action::Call { .. }) && self.subscription.needs_order()
    }

    /// By the holder of the control lock.
    pub(crate) fn set_counting(&self, is_counting: bool) {
        self.is_counting.store(is_counting, Ordering::Relaxed);
    }

    pub(crate) fn subscription(&self) -> &Arc<Subscription> {
        &self.subscription
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::consumer::Consumer;
    use crate::dispatch::Event;

    struct Listener {
        needs_order: bool,
    }

    impl Consumer for Listener {
        fn needs_order(&self) -> bool {
            self.needs_order
        }

        fn hit(&self, _event: &Event<'_>) {}
    }

    const AT: usize = 64;

    fn member(needs_order: bool) -> Member {
        let action = Action::Call { suppressed: TallyAt::new(0), counted: Some(TallyAt::new(AT)) };
        Member::new(action, Arc::new(Subscription::new(Arc::new(Listener { needs_order }))))
    }

    #[test]
    fn order_is_for_hits_that_are_delivered_to_who_needs_it() {
        let way = |hook: &Hook| hook.sole_tally.load(Ordering::Relaxed);
        let hook = |members: &[Member]| Hook::new(ProbeId::new(0), members.into());
        let (ordered, other) = (member(true), member(false));
        assert_eq!(way(&hook(&[])), UNREAD);
        assert_eq!(way(&hook(std::slice::from_ref(&other))), 0);
        let tally = Member::new(Action::Tally(TallyAt::new(AT)), Arc::clone(other.subscription()));
        assert_eq!(way(&hook(&[tally.clone(), other.clone()])), 0);
        assert_eq!(way(&hook(&[tally.clone(), ordered.clone()])), IN_ORDER);
        let (counted, alone) = (TallyAt::new(AT).offset(), hook(std::slice::from_ref(&ordered)));
        let both = hook(&[ordered.clone(), other.clone()]);
        for hook in [&alone, &both] {
            assert_eq!(way(hook), IN_ORDER);
            hook.set_counting(ordered.subscription(), true);
        }
        assert_eq!((way(&alone), way(&both)), (counted, 0));
        both.set_counting(other.subscription(), true);
        assert_eq!(way(&both), 0, "two counters");
        alone.set_counting(ordered.subscription(), false);
        assert_eq!(way(&alone), IN_ORDER);
    }
}
