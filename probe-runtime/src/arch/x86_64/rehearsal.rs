//! A function that is called to measure its hits; it has definitions and stubs, but no sites.

// Safety: relies on the contract of `call` for stubs, and on slots that are never freed.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;

use super::call::call as hit;
use super::enter::enter;
use crate::abi::Definition;
use crate::dispatch::{ALSO_UNREAD, UNREAD};

/// Definitions of its entry and its exit.
pub(crate) static CALL: [Definition; 2] = Definition::entry_and_exit("rehearsed", "rehearsed", "", "", 0, 0);

/// Delivers an entry and an exit, as a call of the function would if its sites were active.
pub(crate) fn call() {
    use CALL as __PROBE_DEFINITION;
    crate::__private::v1::stub! { Entry, "lea rdi, [rip + {definition}]" }
    crate::__private::v1::stub! { Exit, "lea rdi, [rip + {definition} + 192]" }
    // SAFETY: this takes the place of both cold blocks.
    unsafe {
        hit::<Entry>();
        hit::<Exit>();
    }
}

/// Increments two counters that no report reads, as the [blocks](super::block) of an entry and an
/// exit would. On a thread without a slot, it counts nothing.
pub(crate) fn count_in_place() {
    macro_rules! count {
        ($at:expr) => {
            // SAFETY: all other registers are kept. The code writes a counter in this thread's
            // slot, and memory below the red zone.
            unsafe {
                asm!(
                    // Breaks dependencies on earlier instructions, as in a program.
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
