//! One thread's counts of one function: its calls, and the times of some, paired by entry and exit.
//!
//! Only the thread writes these. Reports read them at any time, without a lock or a locked
//! instruction.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use super::time::Time;
use super::times::{Kinds, Times, Told};
use crate::calls::add;
use crate::per_thread::Zeroed;

/// How many calls of one function a thread times at once. Deeper calls are only counted.
pub(in crate::consumers) const DEPTH: usize = 8;

/// The number of cold calls of a window.
const COLD: u32 = 2;

/// One thread's counts of one function.
#[repr(C)]
pub(super) struct Part {
    /// Calls that began, and polls.
    pub(super) calls: AtomicU64,
    /// Those of them that are polls after a future's first.
    pub(super) resumed: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    times: Told,
    /// Inverted, so that zero means none.
    shortest: AtomicU64,
    longest: AtomicU64,
    /// The era and the generation of the fields below. 0 at first, which is never armed.
    pub(super) key: AtomicU64,
    pub(super) thread: AtomicU64,
    /// The number of calls that may still be timed, and of cold ones among them.
    left: AtomicU32,
    cold: AtomicU32,
    /// Timed calls under way.
    timed: AtomicU32,
    /// Other calls under way.
    untimed: AtomicU32,
    starts: [Start; DEPTH],
}

/// The beginning of a timed call.
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

/// The counts of one function on all threads.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Seen {
    /// Calls that began, and polls: counted by the runtime, or delivered.
    pub(super) counted: u64,
    pub(super) delivered: u64,
    /// Those of both that are polls after a future's first.
    pub(super) resumed: u64,
    /// Timed calls: begun, and ended.
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) times: Kinds<Times>,
    /// The shortest and the longest one; `u64::MAX` and 0 if there is none.
    pub(super) shortest: u64,
    pub(super) longest: u64,
}

impl Seen {
    /// Adds the counts of a thread, if it has any.
    pub(super) fn add(&mut self, part: Option<&Part>) {
        let Some(part) = part.filter(|part| part.calls.load(Relaxed) != 0) else { return };
        // In this order: a call with a time has ended, one that has ended has begun, and one that
        // has begun is counted.
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

    /// The share of them that were not later polls of a future.
    #[expect(clippy::cast_precision_loss, reason = "a part")]
    pub(super) fn first_polls(&self) -> f64 {
        let all = self.calls();
        if all == 0 { 1.0 } else { all.saturating_sub(self.resumed) as f64 / all as f64 }
    }
}

impl Part {
    /// Calls under way can't be paired any more.
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

    /// Begins a call. Returns its depth, if it is timed.
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
        // As late as possible: the work before is not the call's.
        start.time.store(time.now_in_order(), Relaxed);
        Some(timed as usize)
    }

    /// Ends a call. Returns its depth, if it was timed.
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
        // Without the call's own exit.
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
