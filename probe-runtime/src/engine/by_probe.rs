//! Consumers' tables by probe, to which probes are added while hits read them.
//!
//! Life cycle: made when the consumer is prepared, with numbers for probes that may join a
//! [persistent](crate::ProbeSet::persistent) attachment later ▸ each join adds a piece ▸ all is
//! dropped with the consumer. Nothing is moved or replaced in place, so hits read without a lock.
//!
//! Cost: a hit loads from a table, by its probe's number, whenever the probe has joined. Numbers
//! without a probe take addresses, and no memory.

// Safety: relies on zeroes being null pointers and zero integers; on pieces that are dropped with
// their table only, which no borrow outlives; and on values of a list being written once, before
// `len` counts them, by the thread that holds `adding`, and never moving.
#![expect(unsafe_code, reason = "see above")]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, ptr, slice};

use crate::engine::registry::ProbeId;

/// An integer for each probe, at first 0.
pub(crate) struct Numbers(Box<[AtomicU32]>);

impl Numbers {
    pub(crate) fn new(len: usize) -> Self {
        let zeroes = Box::into_raw(vec![0_u32; len].into_boxed_slice());
        // SAFETY: the layout of an atomic integer is that of the integer.
        Self(unsafe { Box::from_raw(zeroes as *mut [AtomicU32]) })
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: ProbeId) -> u32 {
        self.0.get(id.index()).map_or(0, |number| number.load(Ordering::Relaxed))
    }

    /// Sets a probe's number. The table must have the probe.
    pub(crate) fn set(&self, id: ProbeId, number: u32) {
        self.0[id.index()].store(number, Ordering::Relaxed);
    }

    /// Returns whether the table has this probe.
    pub(crate) fn has(&self, id: ProbeId) -> bool {
        id.index() < self.0.len()
    }
}

/// A value for each probe, at first none.
pub(crate) struct ByProbe<T> {
    at: Box<[AtomicPtr<T>]>,
    pieces: Mutex<Vec<Arc<[T]>>>,
    /// `at` leads to values of it.
    values: PhantomData<T>,
}

impl<T> ByProbe<T> {
    pub(crate) fn new(len: usize) -> Self {
        let none = Box::into_raw(vec![ptr::null_mut::<T>(); len].into_boxed_slice());
        // SAFETY: the layout of an atomic pointer is that of the pointer.
        let at = unsafe { Box::from_raw(none as *mut [AtomicPtr<T>]) };
        Self { at, pieces: Mutex::default(), values: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: ProbeId) -> Option<&T> {
        let at = self.at.get(id.index())?.load(Ordering::Acquire);
        // SAFETY: null, or a value in a piece, which is dropped with this table only.
        unsafe { at.as_ref() }
    }

    /// Returns whether the table has this probe.
    pub(crate) fn has(&self, id: ProbeId) -> bool {
        id.index() < self.at.len()
    }

    /// Sets the values of these probes, which the table must have. Hits that have read a former
    /// value may continue with it.
    pub(crate) fn add(&self, values: impl IntoIterator<Item = (ProbeId, T)>) {
        let (ids, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        if ids.is_empty() {
            return;
        }
        let piece: Arc<[T]> = values.into();
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&piece));
        let first = Arc::as_ptr(&piece).cast::<T>().cast_mut();
        for (at, id) in ids.iter().enumerate() {
            self.at[id.index()].store(first.wrapping_add(at), Ordering::Release);
        }
    }
}

impl<T> fmt::Debug for ByProbe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByProbe").field("numbers", &self.at.len()).finish_non_exhaustive()
    }
}

/// A list that grows at its end, up to a fixed length, while others read it. It derefs to the
/// values that there are.
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

    #[test]
    fn former_values_stay_readable() {
        let (table, id) = (ByProbe::new(3), ProbeId::new);
        assert_eq!((table.get(id(1)), table.get(id(7))), (None, None));
        assert!(table.has(id(2)) && !table.has(id(3)));
        table.add([(id(1), "a".to_owned()), (id(2), "b".to_owned())]);
        let first = table.get(id(1));
        table.add([(id(1), "c".to_owned())]);
        table.add([]);
        assert_eq!(
            [first, table.get(id(1)), table.get(id(2))].map(|it| it.unwrap().as_str()),
            ["a", "c", "b"]
        );
        assert_eq!(table.get(id(0)), None);
    }

    #[test]
    fn numbers_are_zero_until_they_are_set() {
        let (numbers, id) = (Numbers::new(2), ProbeId::new);
        numbers.set(id(1), 5);
        assert_eq!([0, 1, 2].map(|at| numbers.get(id(at))), [0, 5, 0]);
        assert!(numbers.has(id(1)) && !numbers.has(id(2)));
    }

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
