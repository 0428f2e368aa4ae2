//! The owner of a slot, as consumers may know it.

// Safety: relies on the callers of `errno`, who ask on the thread that owns the slot.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicU64, Ordering};

use super::ThreadSlot;
use crate::engine::os;

/// Offset of the thread's number, in bytes from the start of a slot.
#[cfg(probe_backend = "patched")]
pub(crate) const THREAD: usize = std::mem::offset_of!(ThreadSlot, thread);

/// Number of threads that have had a slot.
static THREADS: AtomicU64 = AtomicU64::new(0);

impl ThreadSlot {
    /// Returns the owner's error number, which a hit must not change.
    ///
    /// # Safety
    /// The calling thread owns the slot.
    #[inline(always)]
    pub(super) unsafe fn errno(&self) -> os::thread::Errno {
        // SAFETY: the calling thread owns the slot. An owner calls `note_thread` before its first
        // hit, so the slot holds the place of this thread's error number.
        unsafe { os::thread::Errno::keep(self.errno.load(Ordering::Relaxed)) }
    }

    /// Records the number and the name of the owner's thread.
    pub(super) fn note_thread(&self) {
        self.errno.store(os::thread::errno_place(), Ordering::Relaxed);
        let name = os::thread::name();
        for (word, bytes) in self.name.iter().zip(name.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.thread.store(THREADS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns the number of the present or last owner, counted from 1 in the order of threads'
    /// first hits.
    #[inline(always)]
    pub(crate) fn thread(&self) -> u64 {
        self.thread.load(Ordering::Acquire)
    }

    /// Returns the name that the thread had at its first hit, padded with zeros.
    pub(crate) fn thread_name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        for (bytes, word) in name.as_chunks_mut::<8>().0.iter_mut().zip(&self.name) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        name
    }

    /// Returns whether the thread has not ended.
    pub(crate) fn is_owned(&self) -> bool {
        self.owner().is_thread()
    }
}
