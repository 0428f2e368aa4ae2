//! A value that is replaced while hits read it.
//!
//! Cost: one load to read it. Replaced values stay until the end, since readers may hold them.

// Safety: relies on values being dropped with the `Latest` only, which no borrow outlives.
#![expect(unsafe_code, reason = "see above")]

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// The last value that was set.
pub(crate) struct Latest<T> {
    current: AtomicPtr<T>,
    all: Mutex<Vec<Box<T>>>,
}

impl<T> Latest<T> {
    /// Creates it without a value.
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()), all: Mutex::new(Vec::new()) }
    }

    /// Returns the last value, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or a box of `all`, which is never removed, and only read.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn set(&self, value: T) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(value));
        let last = all.last().map_or(ptr::null_mut(), |last| ptr::from_ref(&**last).cast_mut());
        self.current.store(last, Ordering::Release);
    }
}

impl<T> fmt::Debug for Latest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latest").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_values_stay() {
        let latest = Latest::new();
        assert_eq!(latest.get(), None);
        latest.set(1);
        let first = latest.get();
        latest.set(2);
        assert_eq!((first, latest.get()), (Some(&1), Some(&2)));
    }
}
