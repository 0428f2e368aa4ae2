//! Spans that have begun: those that a thread has entered, and has not left yet, of which
//! [`pairing`] says which a hit ends; and those of futures, from the first poll to the end, on
//! whatever threads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use tracing_core::Dispatch;
use tracing_core::span::Id;

use crate::engine::calls::{PASSED_BY, goes_on_after};
use probe_core::pairing::{self, OpenCalls, Place};

/// A span, and the subscriber that it belongs to.
#[derive(Clone)]
pub(super) struct Span {
    pub(super) dispatch: Dispatch,
    pub(super) id: Id,
}

/// A call or a poll under way. Dropping it leaves its span, on the thread that entered it.
pub(super) struct EnteredSpan {
    /// The number of the consumer.
    pub(super) consumer: u64,
    /// Its last share is dropped with the consumer, which may happen on another thread.
    pub(super) alive: Weak<()>,
    pub(super) place: Place,
    pub(super) generation: u32,
    /// `None` if the subscriber did not want it.
    pub(super) span: Option<Span>,
    /// Whether the span ends with the call. That of a future continues after a poll.
    pub(super) is_whole: bool,
}

/// The calls of one consumer among all of a thread.
struct Own<'a> {
    all: &'a [EnteredSpan],
    consumer: u64,
}

impl OpenCalls for Own<'_> {
    fn count(&self) -> usize {
        self.all.len()
    }

    fn call(&self, index: usize) -> Place {
        let call = &self.all[index];
        if call.consumer == self.consumer { call.place } else { PASSED_BY }
    }
}

thread_local! {
    static OPEN: RefCell<Vec<EnteredSpan>> = const { RefCell::new(Vec::new()) };
}

impl EnteredSpan {
    /// Enters its span. Returns `false` if the thread is about to end.
    pub(super) fn push(self) -> bool {
        let entered = self.span.clone();
        let mut own = Some(self);
        let is_pushed = OPEN.try_with(|open| open.borrow_mut().extend(own.take())).is_ok();
        match entered {
            Some(span) if is_pushed => span.dispatch.enter(&span.id),
            // Nothing was entered.
            _ => own.into_iter().for_each(Self::close),
        }
        is_pushed
    }

    /// Takes the call or poll that this hit ends, after leaving those inside of it. If there is
    /// none, leaves the calls that are over as this shows. Returns their number, too.
    pub(super) fn take(consumer: u64, exit: Place) -> (Option<Self>, usize) {
        let Some(at) = Self::seen(consumer, |own| pairing::match_exit(&own, exit)).flatten() else {
            return (None, Self::leave_from(consumer, |own| pairing::open_at_exit(&own, exit)));
        };
        let left =
            Self::leave(|index, it| index > at && it.consumer == consumer && !goes_on_after(it.place, exit));
        (OPEN.try_with(|open| open.borrow_mut().remove(at)).ok(), left)
    }

    fn seen<T>(consumer: u64, look: impl FnOnce(Own<'_>) -> T) -> Option<T> {
        OPEN.try_with(|open| look(Own { all: &open.borrow(), consumer })).ok()
    }

    /// Leaves the calls of consumers that are gone.
    pub(super) fn leave_gone() {
        let is_gone = |it: &Self| it.alive.strong_count() == 0;
        let any = OPEN.try_with(|open| open.borrow().iter().any(is_gone)).unwrap_or(false);
        if any {
            Self::leave(|_, it| is_gone(it));
        }
    }

    /// Leaves the calls of other generations, whose exits were not seen. Returns their number.
    pub(super) fn leave_earlier(consumer: u64, generation: u32) -> usize {
        Self::leave_from(consumer, |own| {
            let is_earlier = |it: &Self| it.consumer == consumer && it.generation != generation;
            own.all.iter().position(is_earlier).unwrap_or(own.all.len())
        })
    }

    /// Leaves the calls that are over as a hit shows that begins one. Returns their number.
    pub(super) fn leave_at_entry(consumer: u64, entry: Place) -> usize {
        Self::leave_from(consumer, |own| pairing::open_at_entry(&own, entry))
    }

    /// Leaves a consumer's calls, without those among the outermost ones of the thread: `keep`
    /// returns the number of these.
    fn leave_from(consumer: u64, keep: impl FnOnce(Own<'_>) -> usize) -> usize {
        let is_any = |own: Own<'_>| Some(own.all.len()).filter(|len| *len != 0).map(|len| (len, keep(own)));
        match Self::seen(consumer, is_any).flatten() {
            Some((len, keep)) if keep < len => {
                Self::leave(|index, it| index >= keep && it.consumer == consumer)
            }
            _ => 0,
        }
    }

    /// Leaves all of a consumer on this thread.
    pub(super) fn leave_all(consumer: u64) {
        Self::leave(|_, it| it.consumer == consumer);
    }

    /// Leaves some, the innermost first. Returns their number.
    fn leave(mut is_left: impl FnMut(usize, &Self) -> bool) -> usize {
        let left: Vec<_> = OPEN
            .try_with(|open| {
                let mut index = 0;
                let is_left = |it: &mut Self| {
                    index += 1;
                    is_left(index - 1, it)
                };
                open.borrow_mut().extract_if(.., is_left).collect()
            })
            .unwrap_or_default();
        let many = left.len();
        // The subscriber is called while nothing is borrowed.
        left.into_iter().rev().for_each(drop);
        many
    }

    /// Closes its span without leaving it.
    fn close(mut self) {
        if let Some(span) = self.span.take().filter(|_| self.is_whole) {
            span.close();
        }
    }
}

impl Span {
    pub(super) fn close(self) {
        self.dispatch.try_close(self.id);
    }
}

impl Drop for EnteredSpan {
    fn drop(&mut self) {
        let Some(span) = self.span.take() else { return };
        span.dispatch.exit(&span.id);
        if self.is_whole {
            span.close();
        }
    }
}

/// The spans of futures that have begun and have not ended, by function and address.
pub(super) struct Futures {
    /// The process whose futures these are. In a forked child, the lock may be taken for ever, and
    /// the threads that polled the futures are gone.
    process: u32,
    begun: Mutex<HashMap<(usize, usize), PendingSpan>>,
}

/// A future that has begun.
#[derive(Clone)]
pub(super) struct PendingSpan {
    pub(super) generation: u32,
    /// `None` if the subscriber did not want it.
    pub(super) span: Option<Span>,
}

impl Futures {
    pub(super) fn new() -> Self {
        Self { process: std::process::id(), begun: Mutex::default() }
    }

    fn begun(&self) -> Option<MutexGuard<'_, HashMap<(usize, usize), PendingSpan>>> {
        let is_own = std::process::id() == self.process;
        is_own.then(|| self.begun.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the future is kept. A future that had this address before has ended unseen.
    pub(super) fn begin(&self, function: usize, future: usize, begun: PendingSpan) -> bool {
        let Some(mut all) = self.begun() else { return false };
        let before = all.insert((function, future), begun);
        drop(all);
        before.and_then(|before| before.span).into_iter().for_each(Span::close);
        true
    }

    /// Returns a future that began in this generation.
    pub(super) fn get(&self, function: usize, future: usize, generation: u32) -> Option<PendingSpan> {
        let found = self.begun()?.get(&(function, future)).cloned();
        found.filter(|begun| begun.generation == generation)
    }

    /// Takes out a future that has ended.
    pub(super) fn end(&self, function: usize, future: usize) -> Option<PendingSpan> {
        self.begun()?.remove(&(function, future))
    }

    pub(super) fn close(&self) {
        let all = self.begun().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        all.into_values().filter_map(|begun| begun.span).for_each(Span::close);
    }
}
