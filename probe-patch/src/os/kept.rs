//! A value that a thread keeps from before a fork until after it, such as a lock's guard.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// One value of this thread. It has no destructor, so that a thread's last destructors may fork,
/// and no lock is taken to register one.
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
