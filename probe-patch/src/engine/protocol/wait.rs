//! Waits until every thread that fetches instructions sees the earlier writes.
//!
//! Both ways take a *stamp* after the write, and later ask whether it has *passed*.
//!
//! - [`Wait::Barrier`]: a stamp is the number of barriers that had been started. It has passed once
//!   a barrier with a higher number is over. Since one barrier serves every stamp taken before it,
//!   a thousand patches under way share it.
//! - [`Wait::Tmax`]: a stamp is a time. It has passed once that time is long enough ago.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch::{timestamp, timestamp_after_writes};
use crate::os;

/// A span of time in ticks of the processor's time stamp counter.
///
/// ```
/// use probe_patch::word::{Ticks, Wait, WordOptions};
/// // One microsecond, on a processor whose counter runs at 3 GHz.
/// let options = WordOptions::new().wait(Wait::Tmax(Ticks(3_000)));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticks(pub u64);

/// The way to wait until every thread has seen a write to code.
///
/// ```
/// use probe_patch::word::{Ticks, Wait, WordOptions};
/// assert_eq!(Wait::default(), Wait::Barrier);
/// // As long as the example `tmax` has measured on this machine, with a margin.
/// let options = WordOptions::new().wait(Wait::Tmax(Ticks(5_000)));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Wait {
    /// A barrier that makes each running thread of the process execute a serialising instruction:
    /// membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE`. It needs no calibration, and
    /// takes 0.4 µs alone, 1 to 8 µs with running peers.
    #[default]
    Barrier,
    /// `T_max` of "Living on the edge", section 3: the time after which no processor executes the
    /// old code. No processor manufacturer promises such a time. Measure it
    /// (`cargo run --release --example tmax`), and add a margin.
    ///
    /// If the wait is too short, a thread may execute a mix of two instructions. On a virtual
    /// machine no wait is known to be long enough. On one with two processors, a mix occurred about
    /// once in six million toggles, with any wait up to 2,400 ticks, and never in 20 million with
    /// [`Barrier`](Self::Barrier). A wait that never passes holds each thread that arrives for
    /// ever.
    Tmax(Ticks),
}

impl Wait {
    /// Returns a stamp for the writes of this thread so far.
    pub(crate) fn stamp(self) -> u64 {
        match self {
            // The write was a locked instruction, or a system call: barriers that start after this
            // load find it.
            Self::Barrier => STARTED.load(Ordering::SeqCst),
            Self::Tmax(_) => timestamp_after_writes(),
        }
    }

    /// Returns whether all threads see the writes before the stamp. Runs a barrier rather than
    /// return `false`.
    pub(crate) fn has_passed(self, stamp: u64) -> bool {
        match self {
            Self::Barrier => OVER.load(Ordering::Acquire) > stamp || barrier(),
            Self::Tmax(Ticks(ticks)) => timestamp().saturating_sub(stamp) >= ticks,
        }
    }
}

/// Number of barriers that have been started, and the highest number of those that are over.
static STARTED: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU64 = AtomicU64::new(0);

/// Runs a barrier, which serves all stamps taken before. Returns whether it succeeded.
fn barrier() -> bool {
    let number = STARTED.fetch_add(1, Ordering::SeqCst) + 1;
    let is_over = os::heavy_barrier();
    if is_over {
        OVER.fetch_max(number, Ordering::AcqRel);
    }
    is_over
}

/// Waits until every thread of the process executes the code that was written before. One system
/// call, membarrier(2): 0.4 µs alone, 1 to 8 µs with running peers.
///
/// If the system denies that call, each running thread is interrupted instead, which is best
/// effort.
///
/// ```
/// // After patches that did not wait, once for all of them:
/// probe_patch::synchronize();
/// ```
pub fn synchronize() {
    while !os::heavy_barrier() {
        // No memory, for a moment.
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "membarrier(2)")]
    fn a_barrier_serves_the_stamps_before_it_and_none_after() {
        let before = Wait::Barrier.stamp();
        assert!(barrier());
        assert!(OVER.load(Ordering::Acquire) > before);
        let after = Wait::Barrier.stamp();
        assert!(after > before);
        assert!(Wait::Barrier.has_passed(after));
        assert!(OVER.load(Ordering::Acquire) > after);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads the time stamp counter")]
    fn time_passes() {
        let wait = Wait::Tmax(Ticks(1_000));
        let stamp = wait.stamp();
        while !wait.has_passed(stamp) {}
        assert!(timestamp() - stamp >= 1_000);
        assert!(!Wait::Tmax(Ticks(u64::MAX)).has_passed(stamp));
    }
}
