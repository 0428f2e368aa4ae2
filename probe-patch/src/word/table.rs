//! Instructions that are, or were, being replaced through a trap, by address. An entry takes
//! 64 bytes, in a table that a signal handler can look into. An address whose object was unloaded
//! keeps its entry, for whatever is patched there next.

// Safety: relies on entries of zeroes being free ones, as `entry` has it.
#![expect(unsafe_code, reason = "see above")]

use super::entry::Entry;
use super::sync::Ordering;
use crate::table::{self, Table};

/// Up to 2^32 of them.
static TABLE: Table<Entry, { 1 << 10 }, 22> = Table::new();

// SAFETY: atomics, of which zeroes are a free entry.
unsafe impl table::Entry for Entry {
    fn key(&self) -> usize {
        self.addr.load(Ordering::Acquire)
    }

    fn take(&self, key: usize) -> Result<(), usize> {
        self.addr.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Finds the entry of an address.
pub(super) fn find(addr: usize) -> Option<&'static Entry> {
    TABLE.find(addr)
}

/// Finds the entry of an address, or makes it; `None` when there is no memory.
pub(super) fn find_or_insert(addr: usize) -> Option<&'static Entry> {
    TABLE.find_or_insert(addr)
}

/// All entries in use.
pub(super) fn all() -> impl Iterator<Item = &'static Entry> {
    TABLE.all()
}
