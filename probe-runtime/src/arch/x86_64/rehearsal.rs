//! A function that is called to see what its hits take; it has definitions and stubs, but no sites.

// Safety: relies on what `call` says of a stub, and on a thread's slot being there for ever.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;

use super::call::call as hit;
use super::enter::enter;
use crate::abi::Definition;
use crate::dispatch::{ALSO_UNREAD, UNREAD};

/// Its entry, and its exit.
pub(crate) static CALL: [Definition; 2] = Definition::entry_and_exit("rehearsed", "rehearsed", "", "", 0, 0);

/// Calls it as if its sites were active: an entry, and an exit.
pub(crate) fn call() {
    use CALL as __PROBE_DEFINITION;
    crate::__private::v1::stub! { Entry, "lea rdi, [rip + {definition}]" }
    crate::__private::v1::stub! { Exit, "lea rdi, [rip + {definition} + 192]" }
    // SAFETY: this stands for the cold blocks of both.
    unsafe {
        hit::<Entry>();
        hit::<Exit>();
    }
}

/// Counts what nobody asks for, twice, as the [blocks](super::block) of an entry and an exit would: at two
/// places. Of a thread without a slot, it counts nothing.
pub(crate) fn count_in_place() {
    macro_rules! count {
        ($at:expr) => {
            // SAFETY: all other registers are kept; what is written is a counter in this thread's
            // slot, and memory below the red zone.
            unsafe {
                asm!(
                    // As in a program, nothing of before is waited for.
                    "xor eax, eax",
                    "xor ecx, ecx",
                    "lea rsp, [rsp - 128]",
                    "push rcx",
                    "push rax",
                    "lahf",
                    "seto al",
                    "mov rcx, [rip + {enter}.slot@GOTTPOFF]",
                    "mov rcx, fs:[rcx]",
                    "jrcxz 2f",
                    "inc qword ptr [rcx + {at}]",
                    "2: add al, 0x7f",
                    "sahf",
                    "pop rax",
                    "pop rcx",
                    "lea rsp, [rsp + 128]",
                    enter = sym enter,
                    at = const $at,
                    out("rax") _,
                    out("rcx") _,
                )
            }
        };
    }
    count!(UNREAD);
    count!(ALSO_UNREAD);
}
