//! What a thread has seen of one function: its calls, and the times of some, paired by entry and
//! exit.
//!
//! All is the thread's own, but for reports, which read it at any time: no lock, no locked
//! instruction.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use super::time::Time;
use super::times::{Kinds, Times, Told};
use crate::calls::add;
use crate::per_thread::Zeroed;

/// Calls of one function that a thread times at once; what is called deeper is counted only.
pub(in crate::consumers) const DEPTH: usize = 8;

/// So many calls of a window are cold.
const COLD: u32 = 2;

/// What a thread has seen of one function.
#[repr(C)]
pub(super) struct Part {
    /// Calls that began, and polls.
    pub(super) calls: AtomicU64,
    /// Of these, polls after a future's first.
    pub(super) resumed: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    times: Told,
    /// Inverted: zero is as good as none.
    shortest: AtomicU64,
    longest: AtomicU64,
    /// Era and generation of what follows; 0 at first, which is never armed.
    pub(super) key: AtomicU64,
    pub(super) thread: AtomicU64,
    /// Calls that may be timed yet, and those of them that will be cold.
    left: AtomicU32,
    cold: AtomicU32,
    /// Calls under way that are timed.
    timed: AtomicU32,
    /// And that are not.
    untimed: AtomicU32,
    starts: [Start; DEPTH],
}

/// The beginning of a call that is timed.
#[repr(C)]
struct Start {
    time: AtomicU64,
    /// The thread's hits so far.
    hits: AtomicU64,
    /// In C code: the stack pointer.
    mark: AtomicUsize,
    is_cold: AtomicBool,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Part {}

/// What all threads have seen of a function.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Seen {
    /// Calls that began, and polls: those that the runtime has counted, and those whose hits were
    /// delivered.
    pub(super) counted: u64,
    pub(super) delivered: u64,
    /// Of both, polls after a future's first.
    pub(super) resumed: u64,
    /// Calls that were timed: begun, and ended.
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) times: Kinds<Times>,
    /// The shortest and the longest; `u64::MAX` and 0 without any.
    pub(super) shortest: u64,
    pub(super) longest: u64,
}

impl Seen {
    /// What a thread has seen, if it has.
    pub(super) fn add(&mut self, part: Option<&Part>) {
        let Some(part) = part.filter(|part| part.calls.load(Relaxed) != 0) else { return };
        // In this order: what has a time has ended, what has ended has begun, and what has begun is
        // a call.
        self.times = self.times.and(&part.times.get());
        self.ended += part.ended.load(Acquire);
        self.begun += part.begun.load(Relaxed);
        self.resumed += part.resumed.load(Relaxed);
        self.delivered += part.calls.load(Relaxed);
        self.shortest = self.shortest.min(!part.shortest.load(Relaxed));
        self.longest = self.longest.max(part.longest.load(Relaxed));
    }

    /// All calls that began, and polls.
    pub(super) fn calls(&self) -> u64 {
        self.counted + self.delivered
    }

    /// The part of them that were no later polls of a future.
    #[expect(clippy::cast_precision_loss, reason = "a part")]
    pub(super) fn first_polls(&self) -> f64 {
        let all = self.calls();
        if all == 0 { 1.0 } else { all.saturating_sub(self.resumed) as f64 / all as f64 }
    }
}

impl Part {
    /// What is under way can't be paired any more.
    #[cold]
    #[inline(never)]
    pub(super) fn reset(&self, key: u64, thread: u64, quota: u32) {
        self.key.store(key, Relaxed);
        self.thread.store(thread, Relaxed);
        self.timed.store(0, Relaxed);
        self.untimed.store(0, Relaxed);
        self.cold.store(COLD, Relaxed);
        // While other sites of the attachment are being switched, some hits may be missing.
        let is_settled = !key.is_multiple_of(2);
        self.left.store(if is_settled { quota } else { 0 }, Relaxed);
    }

    /// Tells how deep the call is, if it is timed.
    #[inline(always)]
    pub(super) fn begin(&self, frame: Option<usize>, hits: &AtomicU64, time: Time) -> Option<usize> {
        if let Some(stack_pointer) = frame {
            self.drop_dead(|mark| mark <= stack_pointer);
        }
        let (left, timed) = (self.left.load(Relaxed), self.timed.load(Relaxed));
        let start = self.starts.get(timed as usize).filter(|_| left != 0 && self.untimed.load(Relaxed) == 0);
        let Some(start) = start else {
            if frame.is_none() {
                self.untimed.store(self.untimed.load(Relaxed).wrapping_add(1), Relaxed);
            }
            return None;
        };
        self.left.store(left - 1, Relaxed);
        self.timed.store(timed + 1, Relaxed);
        add(&self.begun, 1);
        let cold = self.cold.load(Relaxed);
        self.cold.store(cold.saturating_sub(1), Relaxed);
        start.is_cold.store(cold != 0, Relaxed);
        start.mark.store(frame.unwrap_or_default(), Relaxed);
        start.hits.store(hits.load(Relaxed), Relaxed);
        // As late as can be: what is done here is not the call's.
        start.time.store(time.now_in_order(), Relaxed);
        Some(timed as usize)
    }

    /// Tells how deep the call was, if it was timed.
    #[inline(always)]
    pub(super) fn end(&self, frame: Option<usize>, hits: &AtomicU64, time: Time) -> Option<usize> {
        let untimed = self.untimed.load(Relaxed);
        if untimed != 0 {
            self.untimed.store(untimed - 1, Relaxed);
            return None;
        }
        if self.timed.load(Relaxed) == 0 {
            return None;
        }
        let now = time.now();
        self.end_timed(frame, hits, now)
    }

    #[inline(never)]
    fn end_timed(&self, frame: Option<usize>, hits: &AtomicU64, now: u64) -> Option<usize> {
        if let Some(stack_pointer) = frame {
            self.drop_dead(|mark| mark < stack_pointer);
        }
        let timed = self.timed.load(Relaxed);
        let depth = (timed as usize).wrapping_sub(1);
        let start = self.starts.get(depth)?;
        if frame.is_some_and(|stack_pointer| start.mark.load(Relaxed) != stack_pointer) {
            return None;
        }
        self.timed.store(timed - 1, Relaxed);
        let elapsed = now.saturating_sub(start.time.load(Relaxed));
        // Without its own exit.
        let inner = hits.load(Relaxed).wrapping_sub(start.hits.load(Relaxed)).wrapping_sub(1);
        self.times.add(start.is_cold.load(Relaxed), elapsed, inner);
        if !elapsed > self.shortest.load(Relaxed) {
            self.shortest.store(!elapsed, Relaxed);
        }
        if elapsed > self.longest.load(Relaxed) {
            self.longest.store(elapsed, Relaxed);
        }
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Release);
        Some(depth)
    }

    /// Forgets the innermost calls of C code that are over without an exit.
    fn drop_dead(&self, is_dead: impl Fn(usize) -> bool) {
        let mut timed = self.timed.load(Relaxed);
        let top = |timed: u32| self.starts.get((timed as usize).wrapping_sub(1));
        while top(timed).is_some_and(|start| is_dead(start.mark.load(Relaxed))) {
            timed -= 1;
        }
        self.timed.store(timed, Relaxed);
    }
}
