//! An attachment, as its hits see it: whose consumer is called, and whether it still is.

// Safety: relies on a consumer's owner being taken only when it is closed and threads were waited
// for since, and on calls being made under the mark that they are waited for by.
#![expect(unsafe_code, reason = "see above")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::delivery::{Deliver, deliver};
use super::quiesce::Left;
use super::{Event, Listener, Mark, Wrapper};
use crate::abi::Definition;

/// The consumer, and whether it is called.
pub(crate) struct Subscription {
    /// Good until `owner` is taken.
    consumer: Called,
    /// Made for the consumer's type.
    deliver: Deliver,
    /// Taken when it is closed and no thread is in it; else dropped with this.
    owner: Mutex<Option<Arc<dyn Listener>>>,
    wrapper: Option<Arc<Wrapper>>,
    /// Whether it needs a thread that a forked child does not have.
    needs_thread: bool,
    needs_order: bool,
    /// Why the consumer is not called: of what follows; 0 if it is.
    silence: AtomicU8,
    failure: OnceLock<String>,
    /// See [`Event::generation`]. Even numbers are given under the control lock.
    generation: AtomicU32,
}

/// The consumer has panicked, or was left behind in a parent.
const FAILED: u8 = 1;
/// Its attachment is paused, and whoever has paused it waits.
const PAUSED: u8 = 2;
/// Its attachment is gone.
const CLOSED: u8 = 4;
/// Of those that have failed: it needs a thread that this forked child does not have.
const ORPHANED: u8 = 8;

/// Where a consumer lies.
struct Called(*const dyn Listener);

// SAFETY: consumers are `Sync`, and who owns it is beside it.
unsafe impl Send for Called {}
// SAFETY: as above.
unsafe impl Sync for Called {}

/// A switch of an attachment's sites that is under way.
#[must_use = "without its end, nothing is paired any more"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unsettled(u32);

impl Unsettled {
    /// That of the attachment's own beginning.
    pub(crate) const FIRST: Self = Self(2);
}

/// Stands for the consumer of a replacement.
struct Nobody;

impl Listener for Nobody {
    fn hit(&self, _event: &Event<'_>) {}
}

/// Is called when a consumer has failed.
static ON_FAILURE: OnceLock<fn()> = OnceLock::new();

/// Has this called, inside of the hit, whenever a consumer has failed; the first one that is given.
pub(crate) fn on_failure(tell: fn()) {
    let _ = ON_FAILURE.set(tell);
}

/// What an orphaned subscription says.
const LEFT_BEHIND: &str =
    "left behind in the parent of this forked process, with the thread that the consumer needs";

impl Subscription {
    /// Asks the consumer what it needs: not under the control lock.
    pub(crate) fn new<L: Listener>(consumer: Arc<L>) -> Self {
        Self {
            wrapper: None,
            deliver: deliver::<L>,
            needs_thread: consumer.needs_thread(),
            needs_order: consumer.needs_order(),
            consumer: Called(Arc::<L>::as_ptr(&consumer)),
            owner: Mutex::new(Some(consumer)),
            silence: AtomicU8::new(0),
            failure: OnceLock::new(),
            generation: AtomicU32::new(Unsettled::FIRST.0),
        }
    }

    /// The consumer.
    ///
    /// # Safety
    /// It is of this type: `deliver` was made for it. It was not closed after this thread was
    /// [marked](Self::mark) as in it: whoever closes it waits for the mark to go before the owner
    /// is taken.
    #[inline(always)]
    pub(super) unsafe fn consumer_as<L: Listener>(&self) -> &L {
        // SAFETY: the caller's promise.
        unsafe { &*self.consumer.0.cast() }
    }

    /// What calls the consumer, made for its type.
    pub(super) fn deliver(&self) -> Deliver {
        self.deliver
    }

    pub(super) fn needs_order(&self) -> bool {
        self.needs_order
    }

    /// Of a replacement, what runs instead of the function.
    pub(super) fn wrapper(&self) -> Option<Arc<Wrapper>> {
        self.wrapper.clone()
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Its sites are about to be switched, by the holder of the control lock. What is returned goes
    /// to [`settle`](Self::settle).
    pub(crate) fn unsettle(&self) -> Unsettled {
        // Never 0.
        let next = (self.generation() | 1).wrapping_add(1).max(Unsettled::FIRST.0);
        self.generation.store(next, Ordering::Release);
        Unsettled(next)
    }

    /// Every thread executes what was switched, unless there has been another switch since: that
    /// one settles it.
    pub(crate) fn settle(&self, Unsettled(switched): Unsettled) {
        let next = switched.wrapping_add(1);
        let _ = self.generation.compare_exchange(switched, next, Ordering::Release, Ordering::Relaxed);
    }

    /// The same, by the holder of the control lock, where no thread is waited for.
    pub(crate) fn settle_locked(&self, Unsettled(switched): Unsettled) {
        if self.generation() == switched {
            self.generation.store(switched.wrapping_add(1), Ordering::Release);
        }
    }

    /// That of a replacement, which no hit is told of.
    pub(crate) fn of_wrapper(wrapper: Wrapper) -> Self {
        Self { wrapper: Some(Arc::new(wrapper)), ..Self::new(Arc::new(Nobody)) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.silence.load(Ordering::Relaxed) & FAILED != 0
    }

    /// Whether its hits are nothing to it, at the moment or for good.
    #[inline(always)]
    pub(super) fn is_silent(&self) -> bool {
        self.silence.load(Ordering::Relaxed) != 0
    }

    /// The mark of threads in its consumer.
    #[inline(always)]
    pub(super) fn mark(&self) -> Mark {
        Mark::consuming(ptr::from_ref(self).addr())
    }

    /// Has hits that are under way call its consumer no more, or again. Those that only count do so
    /// until they come from another consumer. By the holder of the control lock.
    pub(crate) fn set_silent(&self, is_silent: bool) {
        if is_silent {
            self.silence.fetch_or(PAUSED, Ordering::Relaxed);
        } else {
            self.silence.fetch_and(!PAUSED, Ordering::Relaxed);
        }
    }

    /// Has hits pass it by for good.
    pub(crate) fn close(&self) {
        self.silence.fetch_or(CLOSED, Ordering::Relaxed);
    }

    /// Takes the consumer out, once it is [closed](Self::close) and threads were [waited
    /// for](super::wait) since.
    pub(crate) fn take_consumer(&self, left: &Left) -> Option<Arc<dyn Listener>> {
        let is_closed = self.silence.load(Ordering::Relaxed) & CLOSED != 0;
        assert!(is_closed && left.is_of(self), "it may be called");
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the consumer out, when [`Limbo`](super::Limbo) has given out what its attachment left:
    /// no hit finds it any more, though hooks of others that were made together with its own may
    /// keep this.
    pub(crate) fn take_unreachable(&self) -> Option<Arc<dyn Listener>> {
        assert_ne!(self.silence.load(Ordering::Relaxed) & CLOSED, 0, "it may be called");
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// In a forked child: fails what needs a thread of the parent's; returns whether it does. No
    /// heap, no lock, since a thread that the child does not have may have been in here.
    pub(crate) fn orphan(&self) -> bool {
        if self.needs_thread {
            self.silence.fetch_or(FAILED | ORPHANED, Ordering::Relaxed);
        }
        self.needs_thread
    }

    /// What the consumer said when it panicked, or that it was left behind.
    pub(crate) fn failure(&self) -> Option<&str> {
        let is_orphaned = self.silence.load(Ordering::Relaxed) & ORPHANED != 0;
        self.failure.get().map(String::as_str).or(is_orphaned.then_some(LEFT_BEHIND))
    }

    /// Calls the consumer, on a thread whose slot is [marked](Self::mark) for that; a panic ends
    /// here, and with it the attachment's part in the program.
    pub(super) fn call(&self, event: &Event<'_>) {
        if self.is_silent() {
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
        self.silence.fetch_or(FAILED, Ordering::Relaxed);
        let said = (payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a payload that is not text".to_owned());
        let failure = format!("panicked at {} ({}): {said}", probe.path(), probe.kind().name());
        let _ = self.failure.set(failure);
        // Dropping the payload could panic again.
        std::mem::forget(payload);
        if let Some(tell) = ON_FAILURE.get() {
            tell();
        }
    }
}
