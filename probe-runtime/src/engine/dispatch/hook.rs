//! The hook: an immutable snapshot of a probe's consumers.

// Safety: relies on `control`, which alone publishes hooks, and frees a hook only when `reclaimer`
// gives it out; and on callers that publish a hook in memory which lives as long as the definition.
#![expect(unsafe_code, reason = "see above")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{ptr, slice};

use super::delivery::{Deliver, deliver_each};
use super::thread_slot::SCRATCH;
use super::{CounterAt, ProbeId, Recorder, Subscription, ThreadSlot, Wrappers};
use probe_core::abi::Definition;

/// The members of one probe. Published through `Definition::hook`. It is one cache line, and a hit
/// reads most of it.
#[repr(C, align(64))]
pub(crate) struct Hook {
    /// Offset of the one counter for all members, if hits only count now; else 0, [`IN_ORDER`], or
    /// the number of a [recorder](super::Recorder). `enter` reads it.
    pub(super) dispatch_word: AtomicUsize,
    /// The function that `enter` calls for all other hits.
    pub(super) deliver: Deliver,
    /// The only member, if there is one. Its first word is the subscription whose consumer
    /// `deliver` calls.
    pub(super) sole: Member,
    /// `enter` reads it, too.
    pub(super) probe: ProbeId,
    /// The probe's own counter, if it has one.
    counter: Option<CounterAt>,
    /// Several members, or wrappers; null in most hooks. It lies in a [slab](super::slab).
    extra: *mut ExtraMembers,
}

/// The members of a hook that has not exactly one, and its wrappers.
pub(super) struct ExtraMembers {
    /// The members, unless the hook has exactly one. They lie in a slab, too.
    members: *const Member,
    len: usize,
    /// Wrappers that run instead of the function, newest first.
    wrappers: Option<Wrappers>,
}

// SAFETY: `extra` lives as long as the hook, and belongs to no other.
unsafe impl Send for Hook {}
// SAFETY: as above; the data it points to is `Sync`.
unsafe impl Sync for Hook {}
// SAFETY: `members` points to members that live as long as their `ExtraMembers`.
unsafe impl Send for ExtraMembers {}
// SAFETY: as above; members are `Sync`.
unsafe impl Sync for ExtraMembers {}

/// The function for hits that read values: it stores the registers first.
#[cfg(probe_values)]
const DELIVER_CAPTURED: Deliver = crate::engine::entry::backend::registers::capture;
#[cfg(not(probe_values))]
const DELIVER_CAPTURED: Deliver = deliver_each;

/// A consumer [needs order](crate::Consumer::needs_order): a hit waits until all earlier
/// instructions are done. As a signed number it is negative, unlike an offset.
const IN_ORDER: usize = usize::MAX;

impl Hook {
    /// Makes a hook with one member.
    ///
    /// # Safety
    /// The member's subscription must not be dropped before the hook. `extra`, unless it is null,
    /// must have no members, must belong to no other hook, and must be neither moved nor dropped
    /// before the hook.
    pub(super) unsafe fn of_one(
        probe: ProbeId,
        sole: Member,
        counter: Option<CounterAt>,
        extra: *mut ExtraMembers,
    ) -> Self {
        let dispatch_word = AtomicUsize::new(dispatch_word_of(probe, slice::from_ref(&sole), counter));
        let deliver = match sole.action {
            Action::Call { .. } => sole.subscription().deliver(probe),
            _ => deliver_each,
        };
        Self { dispatch_word, deliver, sole, probe, counter, extra }
    }

    /// Makes a hook with these members; with none, if the pointer is null.
    ///
    /// # Safety
    /// The members must belong to no other hook, and must be neither moved nor dropped before the
    /// hook; nor must the members' subscriptions.
    pub(super) unsafe fn of_extra(
        probe: ProbeId,
        counter: Option<CounterAt>,
        extra: *mut ExtraMembers,
    ) -> Self {
        // SAFETY: the caller's promise.
        let members = unsafe { extra.as_ref() }.map_or(&[][..], ExtraMembers::members);
        let dispatch_word = AtomicUsize::new(dispatch_word_of(probe, members, counter));
        let reads_values = members.iter().any(|member| member.reads_values(probe));
        let deliver = if reads_values { DELIVER_CAPTURED } else { deliver_each };
        Self { dispatch_word, deliver, sole: Member::none(), probe, counter, extra }
    }

    /// Returns the hook behind a published pointer, for as long as the slot stays marked.
    pub(super) fn read(hook: *mut Self, _marked: &ThreadSlot) -> Option<&Self> {
        // SAFETY: a published hook is freed only when `reclaimer` gives it out, which looks at this
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
            self.extra().map_or(&[], ExtraMembers::members)
        } else {
            slice::from_ref(&self.sole)
        }
    }

    #[inline(always)]
    fn extra(&self) -> Option<&ExtraMembers> {
        // SAFETY: the maker of the hook has promised it.
        unsafe { self.extra.as_ref() }
    }

    /// Returns the counter of several members together, if hits only count now.
    #[inline(always)]
    pub(super) fn joint_counter(&self) -> Option<CounterAt> {
        let is_joint = |at: &CounterAt| self.dispatch_word.load(Ordering::Relaxed) == at.offset();
        self.counter.filter(|at| self.members().len() > 1 && is_joint(at))
    }

    /// Returns whether hits now only count, with this counter.
    #[inline]
    pub(crate) fn only_counts_at(&self, counter: CounterAt) -> bool {
        self.dispatch_word.load(Ordering::Relaxed) == counter.offset() && self.wrappers().is_none()
    }

    pub(super) fn wrappers(&self) -> Option<&Wrappers> {
        self.extra()?.wrappers.as_ref()
    }

    /// Takes the wrappers out, once no hit can find the hook.
    pub(super) fn take_wrappers(&mut self) -> Option<Wrappers> {
        // SAFETY: the maker of the hook has promised it; no thread reads the hook any more.
        unsafe { self.extra.as_mut() }?.wrappers.take()
    }

    /// Makes an attachment's hits be counted or delivered, while other threads may be reading the
    /// hook. Hits under way may see either state.
    pub(crate) fn set_counting(&self, subscription: &Subscription, is_counting: bool) {
        let Some(member) = self.members().iter().find(|it| ptr::eq(it.subscription, subscription)) else {
            return;
        };
        member.set_counting(is_counting);
        self.dispatch_word
            .store(dispatch_word_of(self.probe, self.members(), self.counter), Ordering::Release);
    }
}

impl ExtraMembers {
    /// # Safety
    /// `members` must point to `len` members, which must be neither moved nor dropped before the
    /// value.
    pub(super) unsafe fn new(members: *const Member, len: usize, wrappers: Option<Wrappers>) -> Self {
        Self { members, len, wrappers }
    }

    #[inline(always)]
    fn members(&self) -> &[Member] {
        // SAFETY: the maker has promised it.
        unsafe { slice::from_raw_parts(self.members, self.len) }
    }
}

/// Returns the value of [`Hook::dispatch_word`] for the present state of these members.
fn dispatch_word_of(probe: ProbeId, members: &[Member], counter: Option<CounterAt>) -> usize {
    let is_ordered = || members.iter().any(Member::needs_order);
    let slow_path = || if is_ordered() { IN_ORDER } else { 0 };
    match members {
        // No consumer is attached, so the way in has nothing else to do.
        [] => SCRATCH,
        [sole] => {
            let recorder = || sole.recorder().filter(|_| !sole.reads_values(probe));
            sole.only_counter().map(CounterAt::offset).or_else(recorder).unwrap_or_else(slow_path)
        }
        all if all.iter().all(|member| member.only_counter().is_some()) => {
            counter.map_or_else(slow_path, CounterAt::offset)
        }
        _ => slow_path(),
    }
}

/// The effect of a hit for one attachment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Increments the thread's counter.
    Count(CounterAt),
    /// Calls the consumer, or increments a counter if it must not be called.
    Call {
        /// Counts hits that were not delivered, because they came from inside a consumer.
        suppressed: CounterAt,
        /// Counts hits that are counted instead of delivered, if the consumer ever asks for that.
        counted: Option<CounterAt>,
    },
    /// Nothing: a wrapper runs instead of the function, after the hit.
    Wrap,
}

impl Action {
    /// Returns whether hits are ever counted, apart from suppressed ones.
    pub(crate) fn counts(self) -> bool {
        self.counter().is_some()
    }

    /// Returns the attachment's own counter of its hits.
    pub(crate) fn counter(self) -> Option<CounterAt> {
        match self {
            Self::Count(at) => Some(at),
            Self::Call { counted, .. } => counted,
            Self::Wrap => None,
        }
    }

    /// Returns whether hits are never delivered.
    pub(crate) fn only_counts(self) -> bool {
        matches!(self, Self::Count(_))
    }
}

/// The part of one attachment in one probe.
#[repr(C)]
pub(crate) struct Member {
    /// The owner of the hook keeps it alive, with one share for all its members. Null only in
    /// [`none`](Self::none).
    pub(super) subscription: *const Subscription,
    action: Action,
    /// For [`Action::Call`]: whether hits are now counted instead of delivered.
    is_counting: AtomicBool,
}

// SAFETY: a subscription is `Send` and `Sync`.
unsafe impl Send for Member {}
// SAFETY: as above.
unsafe impl Sync for Member {}

impl Member {
    /// Takes the place of the only member in hooks that have none or several.
    const fn none() -> Self {
        Self { subscription: ptr::null(), action: Action::Wrap, is_counting: AtomicBool::new(false) }
    }

    pub(super) fn new(action: Action, subscription: &Arc<Subscription>, is_counting: bool) -> Self {
        let subscription = Arc::as_ptr(subscription);
        Self { subscription, action, is_counting: AtomicBool::new(is_counting) }
    }

    /// Makes the member count with the probe's counter, if there is one. Must come before its hook
    /// is made.
    pub(super) fn counting_at(mut self, counter: Option<CounterAt>) -> Self {
        if let (Some(counter), Action::Count(at) | Action::Call { counted: Some(at), .. }) =
            (counter, &mut self.action)
        {
            *at = counter;
        }
        self
    }

    /// Returns the present effect of a hit.
    #[inline(always)]
    pub(super) fn action(&self) -> Action {
        match self.action {
            Action::Call { counted: Some(at), .. } if self.is_counting.load(Ordering::Relaxed) => {
                Action::Count(at)
            }
            action => action,
        }
    }

    /// Returns the counter of a hit, if hits now only count.
    fn only_counter(&self) -> Option<CounterAt> {
        if let Action::Count(at) = self.action() { Some(at) } else { None }
    }

    /// Returns whether a hit must wait until all earlier instructions are done.
    fn needs_order(&self) -> bool {
        matches!(self.action(), Action::Call { .. }) && self.subscription().needs_order()
    }

    /// Returns whether hits of a probe read values for it.
    fn reads_values(&self, probe: ProbeId) -> bool {
        matches!(self.action, Action::Call { .. }) && self.subscription().reads_values(probe)
    }

    /// Returns the number of the consumer's recorder, if it has one.
    fn recorder(&self) -> Option<usize> {
        matches!(self.action(), Action::Call { .. })
            .then(|| self.subscription().recorder().map(Recorder::dispatch_word))?
    }

    /// Must be called by the holder of the control lock.
    fn set_counting(&self, is_counting: bool) {
        self.is_counting.store(is_counting, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn subscription(&self) -> &Subscription {
        // SAFETY: the subscription lives as long as the member, as the maker of the member's hook
        // has promised.
        unsafe { &*self.subscription }
    }
}

/// The hook of a probe that was just discovered: it counts for one attachment. It lies beside the
/// definition, since the code that discovers probes may not use the heap. The control replaces it
/// by one of its own at its next operation.
pub(crate) struct InlineHook {
    hook: Hook,
    subscription: Arc<Subscription>,
}

impl InlineHook {
    /// Writes an inline hook to `at`, and publishes it as the definition's hook.
    ///
    /// # Safety
    /// The memory must live as long as the definition, and must hold no other inline hook.
    pub(crate) unsafe fn publish(
        at: *mut Self,
        definition: &Definition,
        counter: CounterAt,
        subscription: Arc<Subscription>,
    ) {
        let member = Member::new(Action::Count(counter), &subscription, false);
        // SAFETY: the memory has room for both, and they are not moved.
        unsafe {
            (&raw mut (*at).subscription).write(subscription);
            (&raw mut (*at).hook).write(Hook::of_one(ProbeId::UNKNOWN, member, None, ptr::null_mut()));
            definition.hook().store((&raw mut (*at).hook).cast(), Ordering::Release);
        }
    }

    /// Drops the subscription. The hook is plain memory then.
    ///
    /// # Safety
    /// The hook was published there, is no longer any definition's hook, and no thread reads it.
    pub(crate) unsafe fn drop_in_place(at: *mut Self) {
        // SAFETY: the caller's promise. Hook and member own nothing.
        unsafe { ptr::drop_in_place(&raw mut (*at).subscription) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::dispatch::{Epoch, Event, HookBuilder, HookCapacity, Listener};

    struct Told {
        needs_order: bool,
    }

    impl Listener for Told {
        fn needs_order(&self) -> bool {
            self.needs_order
        }

        fn hit(&self, _event: &Event<'_>) {}
    }

    /// The first is the probe's counter; these are the attachments' counters.
    const OWN: [usize; 2] = [64, 65];

    fn subscription(needs_order: bool) -> Arc<Subscription> {
        Arc::new(Subscription::new(Arc::new(Told { needs_order })))
    }

    fn hook(members: &[(Action, &Arc<Subscription>)]) -> crate::engine::dispatch::Published {
        let listening = members.iter().map(|(action, subscription)| (*action, *subscription, false));
        let mut hooks = HookBuilder::with_capacity(
            HookCapacity { hooks: 1, extras: 1, members: members.len() },
            Epoch::UNKNOWN,
        );
        hooks.add(ProbeId::new(0), Some(CounterAt::new(0)), listening)
    }

    fn dispatch_word_of(hook: &Hook) -> usize {
        hook.dispatch_word.load(Ordering::Relaxed)
    }

    /// Returns the counters of a hook's members.
    fn places(hook: &Hook) -> Vec<Option<CounterAt>> {
        hook.members().iter().map(Member::only_counter).collect()
    }

    #[test]
    fn only_hits_for_a_consumer_that_needs_order_wait() {
        let call = Action::Call { suppressed: CounterAt::new(1), counted: Some(CounterAt::new(OWN[0])) };
        let count = Action::Count(CounterAt::new(OWN[1]));
        let (ordered, other) = (&subscription(true), &subscription(false));
        assert_eq!(dispatch_word_of(&hook(&[])), SCRATCH);
        assert_eq!(dispatch_word_of(&hook(&[(Action::Wrap, other)])), SCRATCH);
        assert_eq!(dispatch_word_of(&hook(&[(call, other)])), 0);
        assert_eq!(dispatch_word_of(&hook(&[(count, other), (call, other)])), 0);
        assert_eq!(dispatch_word_of(&hook(&[(count, other), (call, ordered)])), IN_ORDER);
        let counted = CounterAt::new(0).offset();
        let (alone, both) = (hook(&[(call, ordered)]), hook(&[(call, ordered), (call, other)]));
        for hook in [&alone, &both] {
            assert_eq!(dispatch_word_of(hook), IN_ORDER);
            hook.set_counting(ordered, true);
        }
        assert_eq!((dispatch_word_of(&alone), dispatch_word_of(&both)), (counted, 0));
        both.set_counting(other, true);
        assert_eq!(dispatch_word_of(&both), counted, "once for both");
        both.set_counting(other, false);
        assert_eq!(dispatch_word_of(&both), 0);
        alone.set_counting(ordered, false);
        assert_eq!(dispatch_word_of(&alone), IN_ORDER);
    }

    #[test]
    fn members_that_only_count_share_the_probes_counter() {
        let [first, second] = OWN.map(CounterAt::new);
        let call = Action::Call { suppressed: CounterAt::new(1), counted: Some(first) };
        let count = Action::Count(second);
        let (one, other) = (&subscription(false), &subscription(false));
        let probes = CounterAt::new(0);
        for alone in [hook(&[(count, one)]), hook(&[(count, one), (Action::Wrap, other)])] {
            assert_eq!((dispatch_word_of(&alone), places(&alone)), (probes.offset(), vec![Some(probes)]));
        }
        let both = hook(&[(count, one), (count, other)]);
        assert_eq!((dispatch_word_of(&both), both.joint_counter()), (probes.offset(), Some(probes)));
        // If one member may be called, each member that counts uses its own counter.
        let mixed = hook(&[(call, one), (count, other)]);
        assert_eq!((mixed.joint_counter(), places(&mixed)), (None, vec![None, Some(second)]));
        mixed.set_counting(one, true);
        assert_eq!((mixed.joint_counter(), places(&mixed)), (Some(probes), vec![Some(first), Some(second)]));
    }
}
