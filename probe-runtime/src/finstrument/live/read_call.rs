//! Reads the call that has reached a hook.

// Safety: relies on return addresses: the bytes before one are code, and stay mapped while the hook
// runs, or the operation that looks.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use super::call::{Call, LOOKED_AT, Target};
use crate::arch::backend::stub::{self, StubCode};
use crate::os::text::page_size;
use crate::os::thread::errno;
use crate::patch::read_word;

/// Returns the call of the hook that returns to this address, if it is understood.
pub(super) fn call_of(returns: usize, hook: usize) -> Option<Call> {
    let start = returns.checked_sub(LOOKED_AT)?;
    // The call was just executed, so its own bytes can be read. The page before them may not be
    // mapped.
    if start / page_size() != (returns - 1) / page_size() && !is_readable(start) {
        return None;
    }
    // Each aligned word is read at once, so that its bytes are of one moment. Switching a call
    // changes one word.
    // SAFETY: the words that hold readable bytes, and so are in the same pages.
    let words = unsafe { [read_word(start & !7), read_word((returns - 1) & !7)] };
    let mut bytes = [0; LOOKED_AT];
    for (at, byte) in (start..returns).zip(&mut bytes) {
        let [first, second] = words.map(u64::to_le_bytes);
        *byte = if at & !7 == start & !7 { first[at % 8] } else { second[at % 8] };
    }
    Call::before(returns, bytes).filter(|call| leads_to(call.target, hook))
}

/// Returns whether a call leads to the hook, perhaps through a linkage table.
pub(super) fn leads_to(target: Target, hook: usize) -> bool {
    let through = |pointer: usize| {
        // SAFETY: the call, or the jump, that was just executed has read it.
        is_readable(pointer) && unsafe { ptr::read_unaligned(pointer as *const usize) } == hook
    };
    match target {
        Target::Direct(there) if there == hook => true,
        Target::Direct(there) if is_readable(there) && is_readable(there.wrapping_add(PLT_LEN - 1)) => {
            // SAFETY: readable.
            let bytes = unsafe { ptr::read_volatile(there as *const [u8; PLT_LEN]) };
            matches!(stub::decode(there, &bytes), Some(StubCode::Plt(pointer)) if through(pointer))
        }
        Target::Direct(_) => false,
        Target::Through(pointer) => through(pointer),
    }
}

/// The longest entry of a linkage table that is understood, in bytes.
const PLT_LEN: usize = 12;

/// Returns whether an address can be read. The bytes before a return address need not be the call
/// that was executed. Asks the kernel, which does not fault: sigprocmask(2) reads a signal set
/// there before it refuses its invalid operation. Costs some 0.1 µs.
fn is_readable(addr: usize) -> bool {
    const NO_SUCH: libc::c_int = -1;
    let word = addr & !7;
    // SAFETY: reads a word, or fails; changes nothing, as there is no such change.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH, word, 0, 8) };
    errno() == libc::EINVAL
}
