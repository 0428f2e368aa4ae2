//! Leads a call of a C function to another function, from the site at the function's entry.
//!
//! ```text
//! call ▸ site ▸ stub ▸ way in ▸ hit: its return address becomes a thunk's ▸ thunk ▸ `common`
//! common   keeps all registers ▸ `around`: vectors, x87 ▸ `inner`: copies the stack's parameters
//!          ▸ the other function ▸ its result ▸ the caller
//! ```
//! The site stands where nothing was pushed yet, and the way in restores all registers. So a thunk
//! begins as the function would have begun. A thunk is one call of `common`, which knows by its
//! return address which one it was.
//!
//! A caller may keep values in any register that it knows its callee to leave alone (gcc's
//! `-fipa-ra`), and the other function changes more of them. So all registers are kept but that of
//! the result.
//!
//! Thunks and their targets are never given back: a thread may be about to execute one. One
//! that leads to the same function again is the same one.

// Safety: relies on the way in, which jumps to the address that `divert` has written with the
// registers and the stack of the site; on `divert` being called for sites at entries of C functions
// alone; and on the targets, which are never dropped.
#![expect(unsafe_code, reason = "see above")]

use std::arch::naked_asm;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use super::vectors::AROUND;
use probe_core::abi::Value;

/// The number of thunks.
const THUNKS: usize = 256;

/// Bytes of a thunk. Then the distance of a thunk is that of its word in `TARGETS`.
const THUNK_LEN: usize = 8;
const _: () = assert!(THUNK_LEN == size_of::<AtomicPtr<Target>>());

/// A function that runs instead of another one.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) function: usize,
    /// Words of the stack that have parameters.
    pub(crate) stack_words: usize,
    pub(crate) result: ResultIn,
}

/// The register that has a function's result.
#[repr(usize)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResultIn {
    Nothing = 0,
    Integer = 1,
    Vector = 2,
}

/// The target of each thunk in use, in order.
static TARGETS: [AtomicPtr<Target>; THUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; THUNKS];

/// Returns the address of a thunk that leads to a target; `None` if all lead elsewhere.
pub(crate) fn thunk_to(target: Target) -> Option<usize> {
    static TAKING: Mutex<()> = Mutex::new(());
    let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
    for (number, known) in TARGETS.iter().enumerate() {
        // SAFETY: null, or a target, which is never dropped.
        match unsafe { known.load(Ordering::Acquire).as_ref() } {
            Some(known) if *known != target => continue,
            Some(_) => (),
            None => known.store(Box::into_raw(Box::new(target)), Ordering::Release),
        }
        return Some((thunks as *const ()).addr() + number * THUNK_LEN);
    }
    None
}

/// Makes a hit return to a thunk.
///
/// # Safety
/// The frame must be what the way in has passed for a hit at the entry of a C function that has not
/// returned, and the thunk must be [`thunk_to`]'s for this function.
pub(crate) unsafe fn divert(frame: *const Value<'_>, thunk: usize) {
    // SAFETY: the caller's promise; the word above the stub's own has the address after the site.
    unsafe { *frame.byte_sub(8).cast_mut().cast::<usize>() = thunk };
}

/// The thunks, and the code that they call.
///
/// ```text
///  rbp + 24 …  the stack's parameters        rbp - 8   rbx        rbp - 80  rax
///  rbp + 16    the caller's return address   rbp - 16  rcx        rbp - 88  the result in xmm0
///  rbp + 8     the end of the thunk's call   …
/// ```
#[unsafe(naked)]
unsafe extern "C" fn thunks() {
    naked_asm!(
        ".cfi_startproc",
        ".rept {thunks}",
        ".p2align 3",
        "call 2f",
        ".endr",
        ".p2align 3",
        "2:",
        ".cfi_def_cfa_offset 16",
        "push rbp",
        ".cfi_def_cfa_offset 24",
        ".cfi_offset rbp, -24",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        ".cfi_offset rbx, -32",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rax",
        "sub rsp, 16",
        "mov rbx, [rbp + 8]",
        "lea r11, [rip + {this} + 5]", // the end of the first thunk's call
        "sub rbx, r11",
        "lea r11, [rip + {targets}]",
        "mov rbx, [r11 + rbx]",
        "and rsp, -16",
        "lea r11, [rip + {inner}]",
        "call [rip + {around}]",
        "cmp qword ptr [rbx + {result}], 1",
        "jb 4f",
        "jne 3f",
        "mov [rbp - 80], rax",
        "jmp 4f",
        "3:",
        "movsd xmm0, [rbp - 88]",
        "4:",
        "lea rsp, [rbp - 80]",
        "pop rax",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rbx",
        ".cfi_restore rbx",
        "pop rbp",
        ".cfi_restore rbp",
        ".cfi_def_cfa rsp, 16",
        "lea rsp, [rsp + 8]",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        thunks = const THUNKS,
        this = sym thunks,
        targets = sym TARGETS,
        inner = sym inner,
        around = sym AROUND,
        result = const offset_of!(Target, result),
    )
}

/// Calls the target at `rbx`, with the stack's parameters of the frame two above.
#[unsafe(naked)]
unsafe extern "C" fn inner() {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, [rbx + {stack_words}]",
        "lea r11, [rax * 8 + 15]",
        "and r11, -16",
        "sub rsp, r11",
        "test rax, rax",
        "jz 3f",
        "mov r11, [rbp]", // the frame of `around`
        "mov r11, [r11]",
        "2:",
        "mov r10, [r11 + rax * 8 + 16]",
        "mov [rsp + rax * 8 - 8], r10",
        "dec rax",
        "jnz 2b",
        "3:",
        "call [rbx]",
        "mov r11, [rbp]",
        "mov r11, [r11]",
        "movsd [r11 - 88], xmm0",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        stack_words = const offset_of!(Target, stack_words),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::entry::x86_64::vectors;

    #[expect(clippy::many_single_char_names, reason = "one digit each")]
    extern "C" fn sum(a: i64, b: f64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "small")]
        let b = b as i64;
        [b, c, d, e, f, g, h, i].into_iter().fold(a, |sum, digit| sum * 10 + digit)
    }

    extern "C" fn half(x: f64) -> f64 {
        x / 2.0
    }

    #[test]
    fn a_thunk_is_the_function_that_it_leads_to() {
        vectors::prepare();
        let target =
            Target { function: (sum as *const ()).addr(), stack_words: 2, result: ResultIn::Integer };
        let thunk = thunk_to(target).unwrap();
        assert_eq!(thunk_to(target), Some(thunk));
        // SAFETY: it behaves as `sum`.
        let led: extern "C" fn(i64, f64, i64, i64, i64, i64, i64, i64, i64) -> i64 =
            unsafe { std::mem::transmute(thunk) };
        assert_eq!(led(1, 2.0, 3, 4, 5, 6, 7, 8, 9), 123_456_789);
        let target =
            Target { function: (half as *const ()).addr(), stack_words: 0, result: ResultIn::Vector };
        let other = thunk_to(target).unwrap();
        assert_ne!(other, thunk);
        // SAFETY: it behaves as `half`.
        let led: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(other) };
        assert_eq!(led(5.0).to_bits(), 2.5_f64.to_bits());
    }
}
