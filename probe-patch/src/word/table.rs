//! The instructions that are, or were, being replaced through a trap, by address. An entry takes 64
//! bytes, in a table that a signal handler can look into. If an object is unloaded, its addresses
//! keep their entries, for later code that is patched there.

// Safety: relies on zeroed entries being free ones, as `entry` says.
#![expect(unsafe_code, reason = "see above")]

use super::entry::WordEntry;
use super::sync::Ordering;
use crate::table::{self, Table};

/// Holds up to 2^32 entries.
static TABLE: Table<WordEntry, { 1 << 10 }, 22> = Table::new();

// SAFETY: an entry consists of atomics, and zeroes are a free entry.
unsafe impl table::Entry for WordEntry {
    fn key(&self) -> usize {
        self.addr.load(Ordering::Acquire)
    }

    fn take(&self, key: usize) -> Result<(), usize> {
        self.addr.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

pub(super) fn find(addr: usize) -> Option<&'static WordEntry> {
    TABLE.find(addr)
}

/// Returns the entry of an address, adding it if needed; `None` when there is no memory.
pub(super) fn find_or_insert(addr: usize) -> Option<&'static WordEntry> {
    TABLE.find_or_insert(addr)
}

/// Returns all entries in use.
pub(super) fn all() -> impl Iterator<Item = &'static WordEntry> {
    TABLE.all()
}
