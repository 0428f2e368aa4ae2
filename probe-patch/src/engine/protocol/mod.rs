//! The protocol that replaces an instruction through a breakpoint: its plan, the steps that any
//! thread may take, and the waits between them. [`word`](crate::word) describes it.

// Safety: relies on zeroed entries being free ones, as `state_machine` says.
#![expect(unsafe_code, reason = "see above")]

#[cfg(test)]
mod interleavings;
mod plan;
mod state_machine;
mod text;
mod wait;

use std::sync::atomic::Ordering;

use crate::engine::table::{self, Table};

pub use plan::{Plan, Step, is_straddler};
pub(crate) use state_machine::{Method, NotStarted, Phase, Progress, Ticket, WordEntry};
pub(crate) use text::Text;
pub use wait::{Ticks, Wait, synchronize};

/// The instructions that are, or were, being replaced through a trap, by address: up to 2^32. An
/// entry takes 64 bytes, in a table that a signal handler can look into. If an object is unloaded,
/// its addresses keep their entries, for later code that is patched there.
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

pub(crate) fn find(addr: usize) -> Option<&'static WordEntry> {
    TABLE.find(addr)
}

/// Returns the entry of an address, adding it if needed; `None` when there is no memory.
pub(crate) fn find_or_insert(addr: usize) -> Option<&'static WordEntry> {
    TABLE.find_or_insert(addr)
}

/// Ends, in a forked child, the patches that other threads had under way. Only the thread that
/// forked runs there.
pub(crate) fn end_in_child() {
    for entry in TABLE.all() {
        entry.finish_in_child(&Text);
    }
}
