//! Whether a thread is in a hit: what a hit says before it reads what may be retired, and what a detacher looks at.
//!
//! ```text
//!  a hit                              a detacher
//!  1. mark = entered                  1. publish what comes in its place
//!  2. light barrier                   2. heavy barrier
//!  3. read the hook, use it           3. wait until the mark is idle, or the sequence is another one
//!  4. sequence + 1, mark = idle       4. free the hook
//! ```
//! Of 2 and 2 together it needs that either the hit reads what was published, or the detacher sees its mark. The light
//! barrier is only the compiler's where the heavy one is membarrier(2): that has each thread of the process execute a full
//! fence at some point of its program. Up to 1, and the hit reads what was published before; after 1, and the mark
//! is there to be seen. `interleavings` checks all of it, with a full fence at the light barrier, which is the same: no less, since it stands where
//! it serves both cases; no more, since a fence elsewhere serves one of them.

use super::sync::{AtomicU32, AtomicU64, Ordering, light_barrier};

/// What a thread is doing, as far as probes are concerned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub(crate) enum Mark {
    /// Not in a hit.
    Idle = 0,
    /// In a hit, outside of consumers.
    Entered = 1,
    /// In a consumer.
    Consuming = 2,
}

/// A thread's mark. Zeroes are an idle one.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Presence {
    /// `enter` of the x86-64 backend sets it, too.
    mark: AtomicU32,
    /// How many hits have ended on the long way: tells a detacher that a marked thread has moved on. A hit
    /// that is nested in another does not count: the outer one may hold what it has read.
    sequence: AtomicU64,
}

/// Which hit a thread was in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched(u64);

impl Presence {
    /// An idle one.
    #[cfg(all(test, loom))]
    pub(super) fn new() -> Self {
        Self { mark: AtomicU32::new(0), sequence: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(super) fn mark(&self) -> Mark {
        match self.mark.load(Ordering::Acquire) {
            0 => Mark::Idle,
            1 => Mark::Entered,
            _ => Mark::Consuming,
        }
    }

    /// Begins a hit: from here on what is read is not freed. Returns the mark to [`set`](Self::set) at its end.
    #[inline(always)]
    pub(super) fn enter(&self) -> Mark {
        let outer = self.mark();
        if outer == Mark::Idle {
            self.mark.store(Mark::Entered as u32, Ordering::Release);
            light_barrier();
        }
        outer
    }

    /// Only the thread itself does.
    #[inline(always)]
    pub(super) fn set(&self, mark: Mark) {
        if mark == Mark::Idle {
            self.sequence.store(self.sequence().wrapping_add(1), Ordering::Release);
        }
        self.mark.store(mark as u32, Ordering::Release);
    }

    /// Of a thread that is no more.
    pub(super) fn clear(&self) {
        self.mark.store(Mark::Idle as u32, Ordering::Release);
    }

    /// To be asked after the heavy barrier.
    pub(super) fn watch(&self) -> Watched {
        Watched(self.sequence())
    }

    /// Whether the thread has left the hit that it was in then, if it was in one.
    pub(super) fn has_left(&self, watched: Watched) -> bool {
        self.mark() == Mark::Idle || self.sequence() != watched.0
    }

    #[inline(always)]
    fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }
}
