//! One thread's sums of one function. Only the thread writes them; anybody may read.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::calls::add;
use crate::per_thread::Zeroed;

/// Declares what is summed of a function: by each thread, and then over all threads.
macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// One thread's sums of one function. Times in ticks, as they were measured.
        #[repr(C)]
        pub(super) struct Part {
            /// The mode, or window, and the generation that `untimed` is of; and the thread.
            key: AtomicU64,
            thread: AtomicU64,
            /// Calls under way that are not timed.
            pub(super) untimed: AtomicU64,
            /// Timed calls that have ended.
            ended: AtomicU64,
            /// The longest of their times, of those that windows have timed.
            longest: AtomicU64,
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        /// The sums of one function over all threads.
        #[derive(Clone, Copy, PartialEq, Default, Debug)]
        pub(super) struct Seen {
            /// Calls that began, and polls: counted by the runtime, or delivered.
            pub(super) calls: f64,
            /// Timed calls that have ended.
            pub(super) ended: f64,
            /// Threads on which windows were hit.
            pub(super) threads: f64,
            $($(#[$doc])* pub(super) $name: f64,)*
        }

        impl Seen {
            /// Adds the sums of a thread.
            #[expect(clippy::cast_precision_loss, reason = "as many digits as count")]
            pub(super) fn add(&mut self, part: &Part) {
                if part.delivered.load(Relaxed) == 0 {
                    return;
                }
                // First: a call that has ended has a time, and was delivered.
                self.ended += part.ended.load(Acquire) as f64;
                self.threads += f64::from(u8::from(part.windows.load(Relaxed) != 0));
                $(self.$name += part.$name.load(Relaxed) as f64;)*
            }
        }
    };
}

sums! {
    /// Delivered hits: calls that began, and polls.
    delivered
    /// Of these, or of all, polls after a future's first.
    resumed
    /// Timed calls: begun.
    begun
    /// The time of those that have ended, and the hits inside.
    time
    hits
    /// Windows in which it was hit, on a thread, first by a call that began, or by the end of one that
    /// had gone on for no longer than the longest that was timed.
    windows
    /// Calls that were timed inside of others of the function.
    nested
    /// How long calls went on for, while each is timed, that had begun before that.
    spanned
    /// Calls that were timed with all that is in them, weighted: their number, their time in no
    /// timed call right inside, and the number of those.
    whole
    own
    inside
    /// Calls right inside that are timed in windows, while this one is always: weighted; and how many
    /// of them were seen.
    below
    below_calls
    below_seen
}

// SAFETY: atomics only.
unsafe impl Zeroed for Part {}

impl Seen {
    /// The same with times in nanoseconds; a tick takes `scale` of them.
    pub(super) fn scaled(self, scale: f64) -> Self {
        let [time, spanned, own, below] =
            [self.time, self.spanned, self.own, self.below].map(|it| it * scale);
        Self { time, spanned, own, below, ..self }
    }
}

impl Part {
    /// Forgets what was under way in another mode, window or generation, or on another thread; tells
    /// if that is so.
    #[inline(always)]
    pub(super) fn belongs_to(&self, key: u64, thread: u64) -> bool {
        let is_new = self.key.load(Relaxed) != key || self.thread.load(Relaxed) != thread;
        if is_new {
            self.key.store(key, Relaxed);
            self.thread.store(thread, Relaxed);
            self.untimed.store(0, Relaxed);
        }
        is_new
    }

    /// A window is hit, first by a call that began so long before it.
    #[inline(always)]
    pub(super) fn hit_window(&self, ago: u64) {
        if ago <= self.longest.load(Relaxed) {
            add(&self.windows, 1);
        }
    }

    /// A call ends that is not timed, if there is any.
    #[inline(always)]
    pub(super) fn end_untimed(&self) -> bool {
        let untimed = self.untimed.load(Relaxed);
        self.untimed.store(untimed.saturating_sub(1), Relaxed);
        untimed != 0
    }

    /// A timed call has ended, with so many hits inside.
    #[inline(always)]
    pub(super) fn end_timed(&self, elapsed: u64, hits: u64, is_of_window: bool) {
        add(&self.time, elapsed);
        add(&self.hits, hits);
        if is_of_window && elapsed > self.longest.load(Relaxed) {
            self.longest.store(elapsed, Relaxed);
        }
        // Last: a reader that sees the call also sees its time.
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Release);
    }
}
