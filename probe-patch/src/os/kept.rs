//! What a thread keeps from before it forks until after: a lock's guard, in a thread-local.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// Keeps one value for this thread. Without a destructor, so that the last destructors of a thread
/// may fork, and no lock is taken to register one.
pub struct Kept<T>(RefCell<ManuallyDrop<Option<T>>>);

impl<T> Kept<T> {
    pub const fn new() -> Self {
        Self(RefCell::new(ManuallyDrop::new(None)))
    }

    pub fn keep(&self, value: T) {
        **self.0.borrow_mut() = Some(value);
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_none()
    }

    pub fn take(&self) -> Option<T> {
        self.0.borrow_mut().take()
    }
}
