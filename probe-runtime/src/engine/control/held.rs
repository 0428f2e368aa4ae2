//! A value that its owner replaces while others read it, and that no fork cuts in two.
//!
//! It is read and replaced under the control lock, which is held across forks: a child finds the
//! value whole, and its lock free. A reader gets a share of the value, so that it holds the lock
//! for a moment only.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lock::lock;

/// The value. No method may be called under the control lock.
pub(crate) struct Held<T>(Mutex<Arc<T>>);

impl<T> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> Arc<T> {
        let _locked = lock();
        Arc::clone(&self.value())
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        let mut value = Arc::new(value);
        let locked = lock();
        mem::swap(&mut *self.value(), &mut value);
        drop(locked);
        // The former value is dropped without the lock.
    }

    /// Replaces the value if it still is the one that the caller has got. Returns whether it was.
    pub(super) fn replace(&self, former: &Arc<T>, value: &Arc<T>) -> bool {
        let _locked = lock();
        let mut held = self.value();
        let is_same = Arc::ptr_eq(&held, former);
        if is_same {
            // The caller drops the former value, without the lock.
            *held = Arc::clone(value);
        }
        is_same
    }

    /// Locks the value, for a holder of the control lock.
    fn value(&self) -> MutexGuard<'_, Arc<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_as_it_was() {
        let held = Held::new(vec![1, 2]);
        let before = held.get();
        held.set(vec![3]);
        assert_eq!((&*before, &*held.get()), (&vec![1, 2], &vec![3]));
        assert_eq!(Arc::strong_count(&before), 1, "the former value goes with its last reader");
    }

    #[test]
    fn a_value_is_replaced_once() {
        let held = Held::new(1);
        let (former, value) = (held.get(), Arc::new(1));
        assert_eq!([held.replace(&former, &value), held.replace(&former, &value)], [true, false]);
        assert!(Arc::ptr_eq(&held.get(), &value));
    }
}
