//! The only code that writes code.

// Safety: relies on its callers, `batch` and `call`, which hand in words of text that are mapped and, by the text
// policy, writable; and on the protocol of `patch`: an aligned 8-byte write is atomic for fetch.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicU64, Ordering};

use super::TextWord;

/// Reads the aligned word at `addr`.
///
/// # Safety
/// `addr` is a multiple of 8, and the word is mapped.
#[inline(always)]
pub(super) unsafe fn read(addr: usize) -> TextWord {
    // SAFETY: aligned and mapped; text is only ever changed through atomics.
    TextWord(unsafe { AtomicU64::from_ptr(addr as *mut u64) }.load(Ordering::Relaxed))
}

/// Replaces the aligned word at `addr`, if it still is `expected`; else returns what it is.
///
/// # Safety
/// `addr` is a multiple of 8, and the word is mapped and writable.
#[inline(always)]
pub(super) unsafe fn poke(addr: usize, expected: TextWord, new: TextWord) -> Result<(), TextWord> {
    // SAFETY: aligned, mapped and writable.
    let word = unsafe { AtomicU64::from_ptr(addr as *mut u64) };
    match word.compare_exchange(expected.0, new.0, Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(found) => Err(TextWord(found)),
    }
}
