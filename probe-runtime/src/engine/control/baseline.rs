//! The starting point of readings: the values at the last reset.
//!
//! A reset writes to no counter. It keeps a reading, which is subtracted from later ones. So no hit
//! waits for a reset, and each hit is counted on exactly one side of it.
//!
//! Life: none until the first reset ▸ each reset replaces it ▸ dropped with its owner. A forked
//! child finds it whole: see [`Held`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::held::Held;

/// The reading that is subtracted from later ones, if there is one.
pub(crate) struct Baseline<T> {
    /// Whether a reset has begun. Readings take no lock before.
    is_reset: AtomicBool,
    began: Held<Option<Arc<T>>>,
}

impl<T: Clone> Baseline<T> {
    /// Returns the reading of `read`, less the baseline.
    pub(crate) fn now(&self, read: impl FnOnce() -> T, since: fn(&T, &T) -> T) -> T {
        // Taken before the reading, so that the reading is no less.
        let began = self.is_reset.load(Relaxed).then(|| self.began.get());
        match began.as_deref() {
            Some(Some(began)) => since(&read(), began),
            _ => read(),
        }
    }

    /// Returns the reading less the baseline, and makes the reading the new baseline. Of several
    /// concurrent resets, each begins where another one ends.
    pub(crate) fn reset(&self, read: impl Fn() -> T, since: fn(&T, &T) -> T) -> T {
        self.is_reset.store(true, Relaxed);
        loop {
            let began = self.began.get();
            let now = Arc::new(read());
            if self.began.replace(&began, &Arc::new(Some(Arc::clone(&now)))) {
                return match &*began {
                    Some(began) => since(&now, began),
                    None => T::clone(&now),
                };
            }
        }
    }
}

impl<T> Default for Baseline<T> {
    fn default() -> Self {
        Self { is_reset: AtomicBool::new(false), began: Held::new(None) }
    }
}

impl<T> fmt::Debug for Baseline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baseline").field("is_reset", &self.is_reset).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as of any reading")]
    fn since(now: &u64, earlier: &u64) -> u64 {
        now - earlier
    }

    #[test]
    fn readings_begin_at_the_last_reset() {
        let baseline = Baseline::default();
        assert_eq!(baseline.now(|| 3, since), 3);
        assert_eq!(baseline.reset(|| 5, since), 5);
        assert_eq!(baseline.now(|| 5, since), 0);
        assert_eq!(baseline.reset(|| 12, since), 7);
        assert_eq!(baseline.now(|| 13, since), 1);
        let kept = Arc::downgrade(&baseline.began.get());
        let is_kept = || kept.upgrade().is_some();
        assert!(is_kept());
        drop(baseline);
        assert!(!is_kept());
    }

    /// A reset that is overtaken between its reading and its end reads anew.
    #[test]
    fn a_reset_that_is_overtaken_reads_again() {
        let baseline = Baseline::default();
        let (reads, overtaker) = (Cell::new(10), Cell::new(0));
        let read = || {
            reads.set(reads.get() + 1);
            let read = reads.get();
            if read == 11 {
                overtaker.set(baseline.reset(|| 40, since));
                reads.set(40);
            }
            read
        };
        assert_eq!((baseline.reset(read, since), overtaker.get()), (1, 40));
    }

    #[test]
    fn resets_of_several_threads_share_all_between_them() {
        let (baseline, count) = (Baseline::default(), AtomicU64::new(0));
        let told: u64 = thread::scope(|scope| {
            let resets =
                || (0..200).map(|_| baseline.reset(|| count.fetch_add(1, Relaxed) + 1, since)).sum::<u64>();
            let threads = [(); 3].map(|()| scope.spawn(resets));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let rest = baseline.now(|| count.load(Relaxed), since);
        assert_eq!(told + rest, count.into_inner());
    }
}
