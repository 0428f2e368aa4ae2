//! The starting point of readings: the values at the last reset.
//!
//! A reset writes to no counter. It keeps a reading, which is subtracted from later ones. So no hit
//! waits for a reset, and each hit is counted on exactly one side of it.
//!
//! Life: none until the first reset, at no cost ▸ each reset replaces it ▸ dropped with its owner.
//! It is kept under the control lock, which is held across forks: a child finds it whole, and the
//! lock free.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::lock::{Locked, lock};
use super::state::Reading;

/// The reading that is subtracted from later ones, if there is one.
pub(crate) struct Baseline<T> {
    /// Its number in the control's list; 0 before the first reset.
    number: AtomicUsize,
    of: PhantomData<fn() -> T>,
}

impl<T: Clone + Send + Sync + 'static> Baseline<T> {
    /// Returns the reading of `read`, less the baseline.
    pub(crate) fn now(&self, read: impl FnOnce() -> T, since: fn(&T, &T) -> T) -> T {
        // Taken before the reading, so that the reading is no less.
        match self.kept() {
            Some(began) => since(&read(), &began),
            None => read(),
        }
    }

    /// Returns the reading less the baseline, and makes the reading the new baseline. Of several
    /// concurrent resets, each begins where another one ends.
    pub(crate) fn reset(&self, read: impl Fn() -> T, since: fn(&T, &T) -> T) -> T {
        loop {
            let began = self.kept();
            let now = Arc::new(read());
            if self.replace(began.as_ref(), &now) {
                return match began {
                    Some(began) => since(&now, &began),
                    None => T::clone(&now),
                };
            }
        }
    }

    fn kept(&self) -> Option<Arc<T>> {
        // Takes no lock before the first reset.
        (self.number.load(Relaxed) != 0).then(|| self.kept_in(&lock())).flatten()
    }

    fn kept_in(&self, locked: &Locked) -> Option<Arc<T>> {
        let number = self.number.load(Relaxed);
        let (_, kept) = locked.baselines.iter().find(|(of, _)| *of == number)?;
        Arc::downcast(Arc::clone(kept)).ok()
    }

    /// Replaces the baseline by `now` if it still is `began`. Returns whether it was.
    fn replace(&self, began: Option<&Arc<T>>, now: &Arc<T>) -> bool {
        static NUMBERS: AtomicUsize = AtomicUsize::new(1);
        let mut locked = lock();
        let kept = self.kept_in(&locked);
        let is_same = match (&kept, began) {
            (Some(kept), Some(began)) => Arc::ptr_eq(kept, began),
            (kept, began) => kept.is_none() && began.is_none(),
        };
        if is_same {
            if kept.is_none() {
                self.number.store(NUMBERS.fetch_add(1, Relaxed), Relaxed);
            }
            let number = self.number.load(Relaxed);
            let now: Reading = Arc::<T>::clone(now);
            // This replaces `began`, which the caller drops without the lock.
            match locked.baselines.iter_mut().find(|(of, _)| *of == number) {
                Some((_, kept)) => *kept = now,
                None => locked.baselines.push((number, now)),
            }
        }
        is_same
    }
}

impl<T> Default for Baseline<T> {
    fn default() -> Self {
        Self { number: AtomicUsize::new(0), of: PhantomData }
    }
}

impl<T> Drop for Baseline<T> {
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        if number != 0 {
            let mut locked = lock();
            let at = locked.baselines.iter().position(|(of, _)| *of == number);
            let kept = at.map(|at| locked.baselines.swap_remove(at));
            drop(locked);
            drop(kept);
        }
    }
}

impl<T> fmt::Debug for Baseline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_reset = self.number.load(Relaxed) != 0;
        f.debug_struct("Baseline").field("is_reset", &is_reset).finish_non_exhaustive()
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
        let number = baseline.number.load(Relaxed);
        let is_kept = || lock().baselines.iter().any(|(of, _)| *of == number);
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
