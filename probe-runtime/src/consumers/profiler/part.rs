//! One thread's sums of one function. Only the thread writes them; other threads may read them.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::engine::calls::add_single_writer;
use crate::engine::per_thread::Zeroed;
use probe_core::pairing::MAX_FRAME_BYTES;

/// Declares the sums of a function: for each thread, and over all threads.
macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// One thread's sums of one function. Times in ticks, as they were measured.
        #[repr(C)]
        pub(super) struct FunctionSums {
            /// The mode or window, with the generation, to which `untimed` belongs; and the thread.
            key: AtomicU64,
            thread: AtomicU64,
            /// Calls under way that are not timed, and the stack pointer of the last that began.
            pub(super) untimed: AtomicU64,
            untimed_at: AtomicU64,
            /// Timed calls that have ended.
            ended: AtomicU64,
            /// The longest of the times that windows have measured.
            longest: AtomicU64,
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        /// The sums of one function over all threads.
        #[derive(Clone, Copy, PartialEq, Default, Debug)]
        pub(super) struct FunctionTotals {
            /// Calls that began, and polls: counted by the runtime, or delivered.
            pub(super) calls: f64,
            /// Timed calls that have ended.
            pub(super) ended: f64,
            /// Threads on which windows were hit.
            pub(super) threads: f64,
            $($(#[$doc])* pub(super) $name: f64,)*
        }

        impl FunctionTotals {
            pub(super) fn add(&mut self, part: &FunctionSums) {
                if part.delivered.load(Relaxed) == 0 {
                    return;
                }
                // Read first: a call that counts as ended has a time, and was delivered.
                self.ended += part.ended.load(Acquire) as f64;
                self.threads += f64::from(u8::from(part.windows.load(Relaxed) != 0));
                $(self.$name += part.$name.load(Relaxed) as f64;)*
            }
        }
    };
}

sums! {
    /// Delivered hits that begin a call or a poll.
    delivered
    /// Polls after a future's first one: of the delivered hits, or in `FunctionTotals` of all
    /// calls.
    resumed
    /// Timed calls that began.
    begun
    /// The time of timed calls that have ended, and the hits inside.
    time
    hits
    /// Windows in which a thread hit the function, if the first hit began a call, or ended one that
    /// had been running no longer than the longest call that was timed.
    windows
    /// Calls that were timed inside of another call of the function.
    nested
    /// The time of calls that began before each call was timed, from then until their end.
    spanned
    /// Calls that were timed with all calls inside, weighted: their number, their time outside of
    /// timed calls directly inside, and the number of the latter.
    whole
    own
    inside
    /// Calls directly inside that windows time, while this function is timed at each call:
    /// weighted, and their unweighted number.
    below
    below_calls
    below_seen
}

// SAFETY: atomics only.
unsafe impl Zeroed for FunctionSums {}

impl FunctionTotals {
    /// Converts times to nanoseconds; a tick takes `scale` of them.
    pub(super) fn scaled(self, scale: f64) -> Self {
        let [time, spanned, own, below] =
            [self.time, self.spanned, self.own, self.below].map(|it| it * scale);
        Self { time, spanned, own, below, ..self }
    }
}

impl FunctionSums {
    /// Forgets the calls under way in another mode, window or generation, or on another thread.
    /// Returns whether there was such a change.
    #[inline(always)]
    pub(super) fn belongs_to(&self, key: u64, thread: u64) -> bool {
        let is_new = self.key.load(Relaxed) != key || self.thread.load(Relaxed) != thread;
        if is_new {
            self.key.store(key, Relaxed);
            self.thread.store(thread, Relaxed);
            self.untimed.store(0, Relaxed);
            self.untimed_at.store(0, Relaxed);
        }
        is_new
    }

    /// Notes that a window was hit, first by a call that began this long before the window.
    #[inline(always)]
    pub(super) fn hit_window(&self, ago: u64) {
        if ago <= self.longest.load(Relaxed) {
            add_single_writer(&self.windows, 1);
        }
    }

    /// Begins an untimed call.
    #[inline(always)]
    pub(super) fn begin_untimed(&self, stack_pointer: u64) {
        add_single_writer(&self.untimed, 1);
        self.untimed_at.store(stack_pointer, Relaxed);
    }

    /// Begins an untimed call whose stack pointer no other open call has; 0 if nobody asks for its
    /// end. It is not counted: it may end without an exit.
    #[inline(always)]
    pub(super) fn begin_untimed_at(&self, stack_pointer: u64) {
        self.untimed_at.store(stack_pointer, Relaxed);
    }

    /// Ends such a call. Returns whether it was the one that began last.
    #[inline(always)]
    pub(super) fn end_untimed_at(&self, stack_pointer: u64) -> bool {
        let is_last = self.untimed_at.load(Relaxed) == stack_pointer;
        if is_last {
            self.untimed_at.store(0, Relaxed);
        }
        is_last
    }

    /// Returns whether the untimed call that began last is on another stack than this.
    #[inline(always)]
    pub(super) fn is_untimed_elsewhere(&self, stack_pointer: u64) -> bool {
        let at = self.untimed_at.load(Relaxed);
        at != 0 && stack_pointer != 0 && at.abs_diff(stack_pointer) >= MAX_FRAME_BYTES
    }

    /// Ends an untimed call. Returns whether there was one.
    #[inline(always)]
    pub(super) fn end_untimed(&self) -> bool {
        let untimed = self.untimed.load(Relaxed);
        self.untimed.store(untimed.saturating_sub(1), Relaxed);
        untimed != 0
    }

    /// Adds a timed call that has ended, with the number of hits inside.
    #[inline(always)]
    pub(super) fn end_timed(&self, elapsed: u64, hits: u64, is_of_window: bool) {
        add_single_writer(&self.time, elapsed);
        add_single_writer(&self.hits, hits);
        if is_of_window && elapsed > self.longest.load(Relaxed) {
            self.longest.store(elapsed, Relaxed);
        }
        // Last: a reader that sees the call also sees its time.
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_untimed_call_that_began_last_is_known_by_its_place() {
        // SAFETY: zeroes are no call.
        let part: FunctionSums = unsafe { std::mem::zeroed() };
        part.belongs_to(1, 1);
        part.begin_untimed_at(0x1000);
        part.begin_untimed_at(0x900);
        assert_eq!([0x1000, 0x900, 0x900].map(|at| part.end_untimed_at(at)), [false, true, false]);
        // Another window knows of none.
        part.begin_untimed_at(0x1000);
        part.belongs_to(3, 1);
        assert!(!part.end_untimed_at(0x1000));
    }
}
