//! A list that grows at its end, up to a fixed length, while others read it.

// Safety: relies on values up to `len` being written once, before `len` counts them, by the thread
// that holds `adding`; and on the places of values never moving.
#![expect(unsafe_code, reason = "see above")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The list. It derefs to the values that there are.
pub(crate) struct Appended<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    len: AtomicUsize,
    adding: Mutex<()>,
}

// SAFETY: readers share values; a thread that adds or drops one may not be the one that made it.
unsafe impl<T: Send + Sync> Sync for Appended<T> {}

impl<T> Appended<T> {
    /// Creates the list of these values, with room for `more` of them.
    pub(crate) fn new(values: Vec<T>, more: usize) -> Self {
        let room = values.len() + more;
        let mut places = Vec::with_capacity(room);
        places.extend(values.into_iter().map(|value| UnsafeCell::new(MaybeUninit::new(value))));
        let len = AtomicUsize::new(places.len());
        // SAFETY: it has this capacity, and uninitialised places are values.
        unsafe { places.set_len(room) };
        Self { places: places.into_boxed_slice(), len, adding: Mutex::new(()) }
    }

    /// Returns the number of further values that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.places.len() - self.len()
    }

    /// Adds values. Returns whether there was room; else nothing has changed.
    pub(crate) fn add(&self, values: Vec<T>) -> bool {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.len();
        let Some(places) = self.places[len..].get(..values.len()) else { return false };
        let more = values.len();
        for (place, value) in places.iter().zip(values) {
            // SAFETY: nobody reads beyond `len`, and this thread alone adds.
            unsafe { *place.get() = MaybeUninit::new(value) };
        }
        self.len.store(len + more, Ordering::Release);
        true
    }
}

impl<T> Deref for Appended<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let len = self.len.load(Ordering::Acquire);
        // SAFETY: these values were written, and are not written again.
        unsafe { slice::from_raw_parts(self.places.as_ptr().cast::<T>(), len) }
    }
}

impl<T> Drop for Appended<T> {
    fn drop(&mut self) {
        let values = ptr::slice_from_raw_parts_mut(self.places.as_mut_ptr().cast::<T>(), *self.len.get_mut());
        // SAFETY: these values were written, and nobody borrows them any more.
        unsafe { ptr::drop_in_place(values) };
    }
}

impl<T: fmt::Debug> fmt::Debug for Appended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn values_stay_where_they_are() {
        let value = Arc::new(());
        let list = Appended::new(vec![Arc::clone(&value)], 2);
        let first = &list[0];
        assert!(!list.add(vec![Arc::clone(&value); 3]));
        assert_eq!((list.len(), list.room(), Arc::strong_count(&value)), (1, 2, 2));
        assert!(list.add(vec![Arc::clone(&value)]) && list.add(Vec::new()));
        assert_eq!((list.len(), list.room(), Arc::strong_count(first)), (2, 1, 3));
        drop(list);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn readers_see_whole_values() {
        let list = Appended::new(vec![0_u64], 100);
        thread::scope(|scope| {
            scope.spawn(|| (1..=100).for_each(|value| assert!(list.add(vec![value]))));
            while list.len() < 101 {
                // Values may come while they are read.
                let values: Vec<u64> = list.iter().copied().collect();
                assert!(values.iter().copied().eq(0..values.len() as u64));
            }
        });
        assert!(!list.add(vec![0]));
    }
}
