//! The way into dispatch: what a stub jumps to when its site is active.
//!
//! ```text
//! on entry   rdi = &Definition, rsi = values or anything, [rsp] = a return address in the cold block
//! on return  every general register but rdi and r11 is kept; vector registers, x87 and flags are not
//! ```
//! (docs/abi.md, "Entry".) A probe that is only counted is done here, in 18 instructions: the thread's slot
//! is marked (so that no detach frees the hook underneath), the hook's counter is bumped, the mark is
//! cleared. No lock, no locked instruction, no heap, no system call. All else goes to `dispatch`.
//!
//! A signal may arrive between any two instructions. Its handler's hits find the slot marked and take the
//! long way, which counts them and leaves the mark as it is; `inc` on memory is one instruction, so a
//! counter can't lose a hit to it.

// Safety: relies on the layouts of `Definition` (its hook at 8), `Slot` (its state at 0) and `Hook` (its
// sole tally at 0), which are asserted beside them, and on `enter` being reached through stubs only.
#![allow(unsafe_code)]

use std::arch::{asm, naked_asm};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::dispatch::{Slot, dispatch};

/// What a stub jumps to. Not callable from Rust: it has a calling convention of its own.
///
/// The thread-local pointer to the thread's slot is defined here, in the initial-exec model: reading it
/// never allocates, so a probe may sit in an allocator or a signal handler, and in a library that is
/// loaded late it needs 8 bytes of the C library's reserve. It is named after this function's mangled name,
/// so that two versions of this crate don't share it.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter() {
    naked_asm!(
        ".pushsection .tbss, \"awT\", @nobits",
        ".p2align 3",
        ".globl {enter}.slot",
        ".hidden {enter}.slot",
        ".type {enter}.slot, @object",
        ".size {enter}.slot, 8",
        "{enter}.slot: .zero 8",
        ".popsection",
        ".cfi_startproc",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "mov rax, [rip + {enter}.slot@GOTTPOFF]",
        "mov rax, fs:[rax]",
        "test rax, rax",
        "jz 4f", // a new thread
        "cmp dword ptr [rax], 0",
        "jne 4f", // inside already: a signal, or a consumer's own probe
        "mov dword ptr [rax], 1",
        "mov rcx, [rdi + 8]",
        "test rcx, rcx",
        "jz 2f", // detached while we were on the way
        "mov rcx, [rcx]",
        "test rcx, rcx",
        "jz 3f", // more than one counter
        "inc qword ptr [rax + rcx]",
        "2:",
        "mov dword ptr [rax], 0",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_adjust_cfa_offset 16",
        "3:",
        "mov dword ptr [rax], 0",
        "4:",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push r8",
        ".cfi_adjust_cfa_offset 8",
        "push r9",
        ".cfi_adjust_cfa_offset 8",
        "push r10", // seven pushes and a return address: the stack is aligned for the call
        ".cfi_adjust_cfa_offset 8",
        "call {dispatch}",
        "pop r10",
        ".cfi_adjust_cfa_offset -8",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        "pop r8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        enter = sym enter,
        dispatch = sym dispatch,
    )
}

/// The slot of this thread; null before its first hit. One load, safe anywhere.
#[inline(never)]
pub(crate) fn slot() -> *mut Slot {
    let slot;
    // SAFETY: reads this thread's own pointer, which `enter` defines.
    unsafe {
        asm!(
            "mov {slot}, [rip + {enter}.slot@GOTTPOFF]",
            "mov {slot}, fs:[{slot}]",
            slot = out(reg) slot,
            enter = sym enter,
            options(nostack, readonly, preserves_flags),
        );
    }
    slot
}

/// Sets the slot of this thread.
#[inline(never)]
pub(crate) fn set_slot(slot: *mut Slot) {
    // SAFETY: writes this thread's own pointer, which `enter` defines.
    unsafe {
        asm!(
            "mov {at}, [rip + {enter}.slot@GOTTPOFF]",
            "mov fs:[{at}], {slot}",
            at = out(reg) _,
            slot = in(reg) slot,
            enter = sym enter,
            options(nostack, preserves_flags),
        );
    }
}

/// The address that active sites' definitions carry.
pub(crate) fn entry() -> usize {
    enter as *const () as usize
}

/// Orders the slot's mark before the read of the hook, as seen by a thread that passed
/// [`heavy_barrier`](crate::os::heavy_barrier) in between: an asymmetric fence, free on this side.
#[inline(always)]
pub(crate) fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Counts one more. One instruction, so that a signal handler on this thread can't come in between; not
/// locked, since only the owner of a slot counts there.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64) {
    // SAFETY: the counter is alive and aligned; other threads only read it.
    unsafe { asm!("inc qword ptr [{}]", in(reg) counter.as_ptr(), options(nostack)) };
}
