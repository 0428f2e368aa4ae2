//! Spans that a thread has entered, and has not left yet.

use std::cell::RefCell;
use std::sync::Weak;

use tracing_core::Dispatch;
use tracing_core::span::Id;

/// A span, and the subscriber that it belongs to.
#[derive(Clone)]
pub(super) struct Span {
    pub(super) dispatch: Dispatch,
    pub(super) id: Id,
}

/// A call or a poll under way. Dropping it leaves its span, on the thread that entered it.
pub(super) struct Open {
    /// The number of the consumer.
    pub(super) consumer: u64,
    /// Its last share is dropped with the consumer, which may happen on another thread.
    pub(super) alive: Weak<()>,
    pub(super) function: usize,
    /// The address of the future that is polled, or the stack pointer of a call that may end
    /// without an exit, or 0.
    pub(super) mark: usize,
    /// Whether `mark` is a stack pointer.
    pub(super) is_frame: bool,
    pub(super) generation: u32,
    /// `None` if the subscriber did not want it.
    pub(super) span: Option<Span>,
    /// Whether the span ends with the call. That of a future goes on after a poll.
    pub(super) is_whole: bool,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

impl Open {
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

    /// Takes the innermost call or poll with this mark, after leaving all inside of it.
    pub(super) fn take(consumer: u64, function: usize, mark: usize) -> Option<Self> {
        let is_own = |it: &Self| it.consumer == consumer && it.function == function && it.mark == mark;
        let at = OPEN.try_with(|open| open.borrow().iter().rposition(is_own)).ok().flatten()?;
        Self::leave(|index, it| index > at && it.consumer == consumer);
        OPEN.try_with(|open| open.borrow_mut().remove(at)).ok()
    }

    /// Leaves the calls of consumers that are gone.
    pub(super) fn leave_gone() {
        let is_gone = |it: &Self| it.alive.strong_count() == 0;
        let any = OPEN.try_with(|open| open.borrow().iter().any(is_gone)).unwrap_or(false);
        if any {
            Self::leave(|_, it| is_gone(it));
        }
    }

    /// Leaves the calls that can't end any more: those of other generations, and calls of C whose
    /// stack the program has left, now that it runs with this stack pointer. Returns their number.
    pub(super) fn leave_dead(
        consumer: u64,
        generation: u32,
        stack_pointer: Option<usize>,
        begins: bool,
    ) -> usize {
        let is_left = |it: &Self| {
            it.is_frame && stack_pointer.is_some_and(|now| it.mark < now || (begins && it.mark == now))
        };
        let is_dead = |it: &Self| it.consumer == consumer && (it.generation != generation || is_left(it));
        let first = OPEN.try_with(|open| open.borrow().iter().position(is_dead)).ok().flatten();
        first.map_or(0, |first| Self::leave(|index, it| index >= first && it.consumer == consumer))
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

impl Drop for Open {
    fn drop(&mut self) {
        let Some(span) = self.span.take() else { return };
        span.dispatch.exit(&span.id);
        if self.is_whole {
            span.close();
        }
    }
}
