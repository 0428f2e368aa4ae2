//! A value that its owner replaces while others read it, and that no fork cuts in two.
//!
//! It is read and replaced under the control lock, which is held across forks: a child finds the
//! value whole, and its lock free. A reader gets a share of the value, so that it holds the lock
//! for a moment only.

use std::sync::{Arc, Mutex, PoisonError};

use super::lock::lock;

/// The value. Neither method may be called under the control lock.
pub(crate) struct Held<T>(Mutex<Arc<T>>);

impl<T> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> Arc<T> {
        let _locked = lock();
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        let mut value = Arc::new(value);
        let locked = lock();
        std::mem::swap(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), &mut value);
        drop(locked);
        // The former value is dropped without the lock.
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
}
