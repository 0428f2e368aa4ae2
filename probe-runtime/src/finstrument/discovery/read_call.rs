//! Reads the call that has reached a hook.

// Safety: relies on callers. They name the return address of a call, or the target of a jump, in
// text that stays mapped: a hook's own call's, or that of an object that can't be unloaded
// meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use super::call::{Call, LOOKED_AT, Target};
use crate::engine::entry::backend::stub::{self, StubCode};
use crate::engine::os::text::page_size;
use crate::engine::os::thread::errno;
use crate::engine::sites::read_word;

/// Returns the call of the hook that returns to this address, if it is understood.
///
/// # Safety
/// The byte before the address is in text that stays mapped.
pub(super) unsafe fn call_of(returns: usize, hook: usize) -> Option<Call> {
    let start = returns.checked_sub(LOOKED_AT)?;
    // The call's own bytes can be read. The page before them may not be mapped.
    if start / page_size() != (returns - 1) / page_size() && !is_readable(start) {
        return None;
    }
    // Each aligned word is read at once, so that its bytes are of one moment. Switching a call
    // changes one word.
    // SAFETY: the words that hold readable bytes, and so are in the same pages, which stay mapped:
    // the caller's promise.
    let words = unsafe { [read_word(start & !7), read_word((returns - 1) & !7)] };
    let mut bytes = [0; LOOKED_AT];
    for (at, byte) in (start..returns).zip(&mut bytes) {
        let [first, second] = words.map(u64::to_le_bytes);
        *byte = if at & !7 == start & !7 { first[at % 8] } else { second[at % 8] };
    }
    Call::before(returns, bytes).filter(|call| {
        // SAFETY: of a call in mapped text.
        unsafe { leads_to(call.target, hook) }
    })
}

/// Returns whether a call or a jump leads to the hook, perhaps through a linkage table.
///
/// # Safety
/// It is an instruction of text that stays mapped, with the linkage table of the same object.
pub(super) unsafe fn leads_to(target: Target, hook: usize) -> bool {
    let through = |pointer: usize| {
        // SAFETY: readable, and of the object whose text stays mapped.
        is_readable(pointer) && unsafe { ptr::read_unaligned(pointer as *const usize) } == hook
    };
    match target {
        Target::Direct(there) if there == hook => true,
        Target::Direct(there) if is_readable(there) && is_readable(there.wrapping_add(PLT_LEN - 1)) => {
            // SAFETY: readable, as above.
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
