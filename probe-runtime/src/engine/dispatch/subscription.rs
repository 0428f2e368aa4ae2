//! An attachment as its hits see it: its consumer, and whether that is still called.

// Safety: relies on a consumer's owner being taken only after the subscription is closed and
// threads were waited for, and on calls being made under the mark that this wait checks.
#![expect(unsafe_code, reason = "see above")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::delivery::{Deliver, deliver};
use super::synchronize::{Quiescent, WaitFor};
use super::{Event, HitMark, Listener, ProbeId, Quick, Recorder, Wrapper};
#[cfg(probe_values)]
use super::{SiteFields, SiteValues, delivery::deliver_of_frame};
#[cfg(probe_values)]
use crate::engine::entry::backend::registers::capture_for;
use probe_core::abi::Definition;

/// The consumer, and the reasons not to call it.
#[repr(C, align(8))]
pub(crate) struct Subscription {
    /// See [`Event::generation`]. The holder of the control lock sets even numbers. A hit that
    /// records reads it together with the blocked flags, as one word.
    pub(super) generation: AtomicU32,
    /// Reasons why the consumer is not called, from the constants below; 0 if it is called.
    pub(super) blocked: AtomicU32,
    /// The [quick](Quick) function, or null. Set before the first hook is made, as is the next.
    pub(super) quick: AtomicPtr<()>,
    listener: AtomicPtr<()>,
    /// Valid until `owner` is taken.
    consumer: ConsumerPtr,
    /// Instantiated for the consumer's type.
    deliver: Deliver,
    /// The same, for hits that read values: from the frame alone, and from all registers.
    #[cfg(probe_values)]
    deliver_with_values: [Deliver; 2],
    /// Taken when the subscription is closed and no thread is in the consumer; else dropped with
    /// it.
    owner: Mutex<Option<Arc<dyn Listener>>>,
    wrapper: Option<Arc<Wrapper>>,
    /// Whether the consumer needs a thread that a forked child does not have.
    needs_thread: bool,
    /// Whether forked children leave it behind, whatever the consumer needs.
    is_of_parent: AtomicBool,
    needs_order: bool,
    /// Set before the first hook is made, if the consumer has one.
    recorder: OnceLock<Recorder>,
    /// The values that the attachment reads at sites of C, if it does.
    #[cfg(probe_values)]
    values: OnceLock<Arc<dyn SiteValues>>,
    failure: OnceLock<String>,
    /// The hits that were suppressed, once their counter is given back.
    suppressed: OnceLock<u64>,
}

/// The consumer has panicked, or was left behind in a parent process.
const FAILED: u32 = 1;
/// The attachment is paused, and the pause also holds for hits under way.
const PAUSED: u32 = 2;
/// The attachment is gone.
const CLOSED: u32 = 4;
/// In addition to `FAILED`: this forked child has left the attachment behind.
const ORPHANED: u32 = 8;

/// Address of a consumer.
struct ConsumerPtr(*const dyn Listener);

// SAFETY: consumers are `Sync`, and the owner is beside the pointer.
unsafe impl Send for ConsumerPtr {}
// SAFETY: as above.
unsafe impl Sync for ConsumerPtr {}

/// A switch of an attachment's sites that is under way.
#[must_use = "without its end, nothing is paired any more"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transition(u32);

impl Transition {
    /// The switch that begins the attachment.
    pub(crate) const FIRST: Self = Self(2);
}

/// Takes the place of the consumer of a replacement.
struct NoopListener;

impl Listener for NoopListener {
    fn hit(&self, _event: &Event<'_>) {}
}

/// Called when a consumer has failed.
static ON_FAILURE: OnceLock<fn()> = OnceLock::new();

/// Sets the function to call, inside of the hit, whenever a consumer has failed. The first call
/// decides.
pub(crate) fn on_failure(notify: fn()) {
    let _ = ON_FAILURE.set(notify);
}

/// The failure message of an orphaned subscription.
const LEFT_BEHIND: &str =
    "left behind in the parent of this forked process, with the thread that the consumer needs";

impl Subscription {
    /// Makes a subscription. Asks the consumer for its needs, so it must not be called under the
    /// control lock.
    pub(crate) fn new<L: Listener>(consumer: Arc<L>) -> Self {
        Self {
            wrapper: None,
            deliver: deliver::<L>,
            #[cfg(probe_values)]
            deliver_with_values: [deliver_of_frame::<L>, capture_for::<L>],
            needs_thread: consumer.needs_thread(),
            is_of_parent: AtomicBool::new(false),
            needs_order: consumer.needs_order(),
            consumer: ConsumerPtr(Arc::<L>::as_ptr(&consumer)),
            owner: Mutex::new(Some(consumer)),
            generation: AtomicU32::new(Transition::FIRST.0),
            blocked: AtomicU32::new(0),
            quick: AtomicPtr::default(),
            listener: AtomicPtr::default(),
            recorder: OnceLock::new(),
            #[cfg(probe_values)]
            values: OnceLock::new(),
            failure: OnceLock::new(),
            suppressed: OnceLock::new(),
        }
    }

    /// Keeps the number of suppressed hits, whose counter is set back afterwards.
    pub(crate) fn keep_suppressed(&self, hits: u64) {
        let _ = self.suppressed.set(hits);
        fence(Ordering::Release);
    }

    /// Returns the number of suppressed hits. `count` reads their counter.
    pub(crate) fn suppressed(&self, count: impl FnOnce() -> u64) -> u64 {
        let hits = count();
        // A counter that reads as set back was kept before.
        fence(Ordering::Acquire);
        self.suppressed.get().copied().unwrap_or(hits)
    }

    /// Returns the consumer.
    ///
    /// # Safety
    /// The consumer must have type `L`, for which `deliver` was instantiated. It must not have been
    /// closed after this thread was [marked](Self::mark) as in it: the thread that closes it waits
    /// for the mark to go before the owner is taken.
    #[inline(always)]
    pub(super) unsafe fn consumer_as<L: Listener>(&self) -> &L {
        // SAFETY: the caller's promise.
        unsafe { &*self.consumer.0.cast() }
    }

    /// Returns the function that calls the consumer for hits of a probe, instantiated for its type.
    pub(super) fn deliver(&self, probe: ProbeId) -> Deliver {
        #[cfg(probe_values)]
        if let Some(fields) = self.site_fields(probe) {
            return self.deliver_with_values[usize::from(fields.needs_captured())];
        }
        let _ = probe;
        self.deliver
    }

    pub(super) fn needs_order(&self) -> bool {
        self.needs_order
    }

    /// Lets hits be recorded instead of delivered where the consumer is alone. Must come before the
    /// first hook is made, and after the consumer is ready.
    pub(crate) fn set_recorder(&self, recorder: Option<Recorder>) {
        if let Some(recorder) = recorder {
            let _ = self.recorder.set(recorder);
        }
    }

    pub(super) fn recorder(&self) -> Option<Recorder> {
        self.recorder.get().copied()
    }

    /// Lets hits of sites that keep vector registers try this first. Must come before the first
    /// hook is made, and after the consumer is ready.
    pub(crate) fn set_quick(&self, quick: Option<Quick>) {
        if let Some(quick) = quick {
            self.listener.store(quick.listener.cast_mut(), Ordering::Relaxed);
            self.quick.store(quick.run.cast_mut(), Ordering::Relaxed);
        }
    }

    /// Lets hits read values at sites of C. Must come before the first hook is made.
    #[cfg(probe_values)]
    pub(crate) fn set_values(&self, values: Arc<dyn SiteValues>) {
        let _ = self.values.set(values);
    }

    /// Returns the fields of a probe that its hits read.
    #[cfg(probe_values)]
    #[inline(always)]
    pub(super) fn site_fields(&self, probe: ProbeId) -> Option<&SiteFields> {
        self.values.get()?.of(probe)
    }

    /// Leaves hits of a probe no values: its sites have gone.
    #[cfg(probe_values)]
    pub(crate) fn forget_values(&self, probe: ProbeId) {
        if let Some(values) = self.values.get() {
            values.forget(probe);
        }
    }

    /// Returns whether hits of a probe read values.
    #[inline(always)]
    pub(super) fn reads_values(&self, probe: ProbeId) -> bool {
        #[cfg(probe_values)]
        let reads = self.site_fields(probe).is_some();
        #[cfg(not(probe_values))]
        let (reads, _) = (false, probe);
        reads
    }

    #[inline(always)]
    pub(super) fn listener(&self) -> *const () {
        self.listener.load(Ordering::Relaxed)
    }

    /// Tells the consumer that objects have come or gone. The holder of the control lock calls it,
    /// while no object can be unloaded.
    pub(crate) fn look_at_objects(&self) {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        owner.iter().for_each(|owner| owner.look_at_objects());
    }

    /// Returns the wrapper of a replacement, which runs instead of the function.
    pub(super) fn wrapper(&self) -> Option<Arc<Wrapper>> {
        self.wrapper.clone()
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins a switch of the attachment's sites. Must be called by the holder of the control lock.
    /// Pass the result to [`commit`](Self::commit).
    pub(crate) fn begin_transition(&self) -> Transition {
        // A generation is never 0.
        let next = (self.generation() | 1).wrapping_add(1).max(Transition::FIRST.0);
        self.generation.store(next, Ordering::Release);
        Transition(next)
    }

    /// Ends a switch, when every thread executes the new instructions. If another switch has begun
    /// since, only that one can be ended.
    pub(crate) fn commit(&self, Transition(switched): Transition) {
        let next = switched.wrapping_add(1);
        let _ = self.generation.compare_exchange(switched, next, Ordering::Release, Ordering::Relaxed);
    }

    /// The same for the holder of the control lock, if no thread is waited for.
    pub(crate) fn commit_locked(&self, Transition(switched): Transition) {
        if self.generation() == switched {
            self.generation.store(switched.wrapping_add(1), Ordering::Release);
        }
    }

    /// Begins a new generation without a switch, for the holder of the control lock. While a switch
    /// is transition, this does nothing: the end of that switch begins one.
    pub(crate) fn begin_generation(&self) {
        if !self.generation().is_multiple_of(2) {
            let transition = self.begin_transition();
            self.commit_locked(transition);
        }
    }

    /// Makes the subscription of a replacement, to which no hit is delivered.
    pub(crate) fn of_wrapper(wrapper: Wrapper) -> Self {
        Self { wrapper: Some(Arc::new(wrapper)), ..Self::new(Arc::new(NoopListener)) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) & FAILED != 0
    }

    /// Returns whether hits pass the consumer by, while it is paused or once it is closed.
    #[inline(always)]
    pub(super) fn is_disabled(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) != 0
    }

    /// Returns the mark of threads in its consumer.
    #[inline(always)]
    pub(super) fn mark(&self) -> HitMark {
        HitMark::consuming(ptr::from_ref(self).addr())
    }

    /// Returns what an operation waits for that detaches or pauses its consumer. The caller keeps
    /// the subscription alive meanwhile.
    pub(crate) fn wait_for(&self) -> WaitFor {
        WaitFor::Consumer(self.mark())
    }

    /// Makes hits under way stop calling the consumer, or call it again. Hits that only count keep
    /// counting, unless they have just called another consumer. Must be called by the holder of the
    /// control lock.
    pub(crate) fn set_disabled(&self, is_disabled: bool) {
        if is_disabled {
            self.blocked.fetch_or(PAUSED, Ordering::Relaxed);
        } else {
            self.blocked.fetch_and(!PAUSED, Ordering::Relaxed);
        }
    }

    /// Makes hits pass the consumer by for good.
    pub(crate) fn close(&self) {
        self.blocked.fetch_or(CLOSED, Ordering::Relaxed);
    }

    /// Takes the consumer out, after it was [closed](Self::close) and threads were [waited
    /// for](super::synchronize()).
    ///
    /// # Panics
    /// If it may still be called.
    pub(crate) fn take_consumer(&self, left: &Quiescent) -> Option<Arc<dyn Listener>> {
        let is_closed = self.blocked.load(Ordering::Relaxed) & CLOSED != 0;
        assert!(is_closed && left.is_of(self.mark()), "it may be called");
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the consumer out, when [`Reclaimer`](super::Reclaimer) has given out the attachment's
    /// hooks. No hit finds the consumer any more, though other attachments' hooks that were made in
    /// the same operation may keep the subscription alive.
    pub(crate) fn take_unreachable(&self) -> Option<Arc<dyn Listener>> {
        assert_ne!(self.blocked.load(Ordering::Relaxed) & CLOSED, 0, "it may be called");
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether the consumer needs a thread of its own.
    pub(crate) fn needs_thread(&self) -> bool {
        self.needs_thread
    }

    /// Lets forked children leave it behind.
    pub(crate) fn stay_in_parent(&self) {
        self.is_of_parent.store(true, Ordering::Relaxed);
    }

    /// In a forked child: marks the subscription as failed if it needs a thread of the parent's or
    /// stays there; returns whether that is so. Takes no heap and no lock, since a thread that the
    /// child does not have may have been in here.
    pub(crate) fn orphan(&self) -> bool {
        let is_orphan = self.needs_thread || self.is_of_parent.load(Ordering::Relaxed);
        if is_orphan {
            self.blocked.fetch_or(FAILED | ORPHANED, Ordering::Relaxed);
        }
        is_orphan
    }

    /// Returns the message of the consumer's panic, or says that it was left behind.
    pub(crate) fn failure(&self) -> Option<&str> {
        let is_orphaned = self.blocked.load(Ordering::Relaxed) & ORPHANED != 0;
        self.failure.get().map(String::as_str).or(is_orphaned.then_some(LEFT_BEHIND))
    }

    /// Calls the consumer, on a thread whose slot is [marked](Self::mark) for that. A panic ends
    /// here, and the consumer is not called again.
    pub(super) fn call(&self, event: &Event<'_>) {
        if self.is_disabled() {
            return;
        }
        // SAFETY: it was not closed after the mark, see `consumer_as`.
        let consumer = unsafe { &*self.consumer.0 };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| consumer.hit(event))) {
            self.fail(event.definition(), payload);
        }
    }

    #[cold]
    pub(super) fn fail(&self, probe: &Definition, payload: Box<dyn Any + Send>) {
        self.blocked.fetch_or(FAILED, Ordering::Relaxed);
        let message = (payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a payload that is not text".to_owned());
        let failure = format!("panicked at {} ({}): {message}", probe.path(), probe.kind().name());
        let _ = self.failure.set(failure);
        // Dropping the payload could panic again.
        std::mem::forget(payload);
        if let Some(notify) = ON_FAILURE.get() {
            notify();
        }
    }
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;

    #[test]
    fn no_generation_begins_while_a_switch_is_unsettled() {
        let subscription = Subscription::new(Arc::new(NoopListener));
        let transition = subscription.begin_transition();
        let switched = subscription.generation();
        subscription.begin_generation();
        assert_eq!(subscription.generation(), switched);
        subscription.commit(transition);
        assert_eq!(subscription.generation(), switched + 1);
        subscription.begin_generation();
        assert_eq!(subscription.generation(), switched + 3);
    }
}
