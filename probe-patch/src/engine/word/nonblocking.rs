//! Replaces one instruction at once, or not at all. Callers may be in a signal handler, in the
//! allocator, before `main`, or hold any of this crate's locks. So these functions use no heap and
//! wait for no other thread. A patch that needs either is left to a later try.
//!
//! Cost: with `Sealed`, two `mprotect` and a locked instruction. Once for each mapping, the kernel
//! is asked for its rights.

// Safety: hands on what its callers promise.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;

use crate::engine::bytes::Bytes;
use crate::engine::pages::{NotNow, READY, WritableRuns, write_now};
use crate::engine::poke;
use crate::engine::word::{Plan, Write};
use crate::os::text::pages;
use crate::text::TextPolicy;

/// Replaces an instruction of loaded text that lies in one aligned word.
///
/// # Safety
/// As for [`word::patch`](super::patch()); its text is not unmapped meanwhile.
///
/// # Errors
/// [`NotNow`] says why the instruction was not replaced.
pub unsafe fn replace_now(
    addr: usize,
    expected: Bytes,
    value: Bytes,
    policy: TextPolicy,
) -> Result<(), NotNow> {
    let whole = Plan::new(addr, expected, value).and_then(|plan| plan.whole()).ok_or(NotNow::Changed)?;
    let mut is_written = false;
    write_text_now(&(addr..addr + value.len()), policy, &mut || {
        // SAFETY: a word of the caller's text, which is writable now.
        is_written = unsafe { write_word(whole) };
    })?;
    if is_written { Ok(()) } else { Err(NotNow::Changed) }
}

/// Calls `write` as [`write_text`] does, or not at all.
///
/// # Errors
/// [`NotNow`] says why `write` was not called.
pub fn write_text_now(
    text: &Range<usize>,
    policy: TextPolicy,
    write: &mut dyn FnMut(),
) -> Result<(), NotNow> {
    // A write through the kernel needs more than that. A later operation does it.
    if !READY.is_ready() || policy == TextPolicy::Alias {
        return Err(NotNow::Later);
    }
    write_now(text, policy == TextPolicy::Open, write)
}

/// Calls `write` while some text of a loaded object is writable. Waits for others that open text.
///
/// # Errors
/// [`NotNow::Protected`].
pub fn write_text(text: &Range<usize>, write: &mut dyn FnMut()) -> Result<(), NotNow> {
    let opened = WritableRuns::new().with_open(&pages(text.clone()), write);
    // `unrestored_bytes` counts pages that could not be restored.
    opened.map(drop).map_err(|error| NotNow::Protected(error.errno().unwrap_or(libc::EFAULT)))
}

/// Replaces some bytes of an aligned word of text, if they are as expected. Returns whether they
/// were.
///
/// # Safety
/// The word is mapped and writable. Threads may execute either its old or its new bytes.
pub unsafe fn write_word(write: Write) -> bool {
    // SAFETY: as the caller says.
    unsafe { poke::write(write) }.is_ok()
}

/// Reads an aligned word of text.
///
/// # Safety
/// The word is mapped, and its address is a multiple of 8.
pub unsafe fn read_word(addr: usize) -> u64 {
    // SAFETY: as the caller says.
    unsafe { poke::read(addr) }.0
}
