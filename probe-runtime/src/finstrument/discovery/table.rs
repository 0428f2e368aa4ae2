//! The discovery of each return address: 16 bytes a call site, in a table that a hook may look into
//! anywhere.

// Safety: relies on entries of zeroes being free ones; and on discoveries, whose memory is never
// given back.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::call_site::Discovery;
use super::chunk::{self, ChunkPlace};
use crate::engine::sites::table::{self, Table};

static TABLE: Table<CallEntry, { 1 << 12 }, 18> = Table::new();

/// One call site. Zeroes are a free entry.
#[repr(C)]
pub(super) struct CallEntry {
    key: AtomicUsize,
    discovery: AtomicPtr<Discovery>,
}

impl CallEntry {
    /// Returns its discovery, if it has one.
    pub(super) fn discovery(&self) -> Option<&'static Discovery> {
        // SAFETY: null, or a discovery, whose memory is never given back.
        unsafe { self.discovery.load(Ordering::Acquire).as_ref() }
    }

    /// Replaces the discovery, if it still is `old`. Otherwise returns the present one.
    pub(super) fn replace(
        &self,
        old: Option<&'static Discovery>,
        new: Option<&'static Discovery>,
    ) -> Result<(), Option<&'static Discovery>> {
        let pointer =
            |it: Option<&'static Discovery>| it.map_or(ptr::null_mut(), |it| ptr::from_ref(it).cast_mut());
        (self.discovery)
            .compare_exchange(pointer(old), pointer(new), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            // SAFETY: as above.
            .map_err(|found| unsafe { found.as_ref() })
    }
}

// SAFETY: atomics, of which zeroes are a free entry.
unsafe impl table::Entry for CallEntry {
    fn key(&self) -> usize {
        self.key.load(Ordering::Acquire)
    }

    fn take(&self, key: usize) -> Result<(), usize> {
        self.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Finds the entry of a key, which is not 0.
pub(super) fn find(key: usize) -> Option<&'static CallEntry> {
    TABLE.find(key)
}

/// Finds the entry of a key, or makes it. Returns `None` if there is no memory.
pub(super) fn find_or_insert(key: usize) -> Option<&'static CallEntry> {
    TABLE.find_or_insert(key)
}

/// Finds the entry of a key, or makes it in memory that the table has.
pub(super) fn find_or_place(key: usize) -> Option<&'static CallEntry> {
    TABLE.find_or_place(key)
}

/// Makes sure that [`find_or_place`] has room for most keys, unless there is no memory.
pub(super) fn keep_room() {
    TABLE.keep_room(published().count());
}

/// Returns the places of discoveries that the table knows.
pub(super) fn published() -> impl Iterator<Item = ChunkPlace> {
    chunk::all().filter(|place| is_published(place.discovery()))
}

/// Returns whether the table knows a discovery.
pub(super) fn is_published(discovery: &'static Discovery) -> bool {
    let known = find(discovery.key()).and_then(CallEntry::discovery);
    known.is_some_and(|known| ptr::eq(known, discovery))
}
