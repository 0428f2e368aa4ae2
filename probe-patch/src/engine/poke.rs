//! The only code that writes to code that threads may be executing. Linux calls such a write
//! `text_poke`.

// Safety: relies on its callers to pass words of text that are mapped and, by the text policy,
// writable. Also relies on the protocols of `patch`: an aligned 8-byte write is atomic for
// instruction fetch.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch::TextWord;

/// One write: some bytes of one aligned word, its other bytes left as they are.
///
/// ```
/// use probe_patch::Bytes;
/// use probe_patch::word::{Plan, Write};
/// let (old, new) = (Bytes::from([0xb0, 1]), Bytes::from([0xb0, 2])); // mov al, 1; mov al, 2
/// let plan = Plan::new(0x1002, old, new).expect("of one length");
/// let write = Write { word: 0x1000, mask: 0xffff_0000, from: 0x01b0_0000, to: 0x02b0_0000 };
/// assert_eq!(plan.whole(), Some(write));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The word's address, a multiple of 8.
    pub word: usize,
    /// The bytes concerned: all bits of each are set.
    pub mask: u64,
    /// Their values before the write.
    pub from: u64,
    /// Their values after the write.
    pub to: u64,
}

/// Reads the aligned word at `addr`.
///
/// # Safety
/// `addr` is a multiple of 8, and the word is mapped.
#[inline(always)]
pub unsafe fn read(addr: usize) -> TextWord {
    // SAFETY: aligned and mapped; text is only ever changed through atomics.
    TextWord(unsafe { AtomicU64::from_ptr(addr as *mut u64) }.load(Ordering::Relaxed))
}

/// Replaces the aligned word at `addr`, if it still is `expected`.
///
/// # Safety
/// `addr` is a multiple of 8, and the word is mapped and writable.
///
/// # Errors
/// Returns the present word if it is not `expected`.
#[inline(always)]
pub unsafe fn poke(addr: usize, expected: TextWord, new: TextWord) -> Result<(), TextWord> {
    // SAFETY: aligned, mapped and writable.
    let word = unsafe { AtomicU64::from_ptr(addr as *mut u64) };
    match word.compare_exchange(expected.0, new.0, Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(found) => Err(TextWord(found)),
    }
}

/// Replaces some bytes of a word, if they are as the write expects, even if other bytes of the word
/// change meanwhile. Otherwise returns the word that was found.
///
/// # Safety
/// The same as for [`poke`].
#[inline(always)]
pub(super) unsafe fn write(write: Write) -> Result<(), TextWord> {
    // SAFETY: as above.
    let mut found = unsafe { read(write.word) };
    while found.0 & write.mask == write.from {
        // SAFETY: as above.
        match unsafe { poke(write.word, found, TextWord(found.0 & !write.mask | write.to)) } {
            Ok(()) => return Ok(()),
            Err(now) => found = now,
        }
    }
    Err(found)
}

/// Replaces some bytes of a word, whatever their values, as long as other bytes of it are as
/// `beside` expects.
///
/// # Safety
/// The same as for [`poke`].
pub(super) unsafe fn write_beside(beside: Write, write: Write) {
    // SAFETY: as above.
    let mut found = unsafe { read(write.word) };
    while found.0 & beside.mask == beside.from && found.0 & write.mask != write.to {
        // SAFETY: as above.
        match unsafe { poke(write.word, found, TextWord(found.0 & !write.mask | write.to)) } {
            Ok(()) => return,
            Err(now) => found = now,
        }
    }
}

/// Replaces some bytes of a word, whatever their values.
///
/// # Safety
/// The same as for [`poke`].
pub(super) unsafe fn overwrite(write: Write) {
    // SAFETY: as above.
    unsafe { write_beside(Write { mask: 0, from: 0, ..write }, write) };
}
