//! A function that is called to measure its hits; it has definitions and stubs, but no sites.

// Safety: relies on the contract of `call` for stubs, and on slots that are never freed.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;

use super::enter::enter;
use crate::engine::dispatch::layout::SCRATCH;
use probe_core::abi::Definition;
use probe_core::site::backend::call as hit;

pub(crate) static CALL: [Definition; 2] = Definition::entry_and_exit("rehearsed", "", "", 0, 0);

/// Delivers an entry and an exit, as a call of the function would if its sites were active.
pub(crate) fn call() {
    use CALL as __PROBE_DEFINITION;
    probe_core::__private::v1::stub! { Entry, "lea rdi, [rip + {definition}]" }
    probe_core::__private::v1::stub! { Exit, "lea rdi, [rip + {definition} + 192]" }
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
            // SAFETY: all other registers are kept. It writes a counter in this thread's slot.
            unsafe {
                asm!(
                    "mov r11, [rip + {enter}.slot@GOTTPOFF]",
                    "mov r11, fs:[r11]",
                    "test r11, r11",
                    "jz 2f",
                    "inc qword ptr [r11 + {at}]",
                    "2:",
                    enter = sym enter,
                    at = const $at,
                    out("r11") _,
                    options(nostack),
                )
            }
        };
    }
    count!(SCRATCH[0]);
    count!(SCRATCH[1]);
}
