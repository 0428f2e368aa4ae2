//! The way into dispatch: the code that a stub jumps to when its site is active.
//!
//! ```text
//! on entry   rdi = &Definition, [rsp] = the rdi to restore, [rsp + 8] = a return address in the cold block,
//!            [rsp + 16] = the values, if the probe has fields
//! on return  every general register is kept; flags are not; vector registers and x87 only for
//!            `Convention::Hidden` and `Convention::KeptColdBlock`
//! ```
//! (docs/abi.md, "Entry".) In C code the compiler may know nothing of the site, or would spill
//! vector registers on the hot path. For such sites the way to a consumer also keeps vector and x87
//! registers ([`vectors`](super::vectors)). Counting and recording touch none.
//!
//! A probe that is only counted is handled here, in 20 instructions: the way in marks the thread's
//! slot (so that no detach frees the hook meanwhile), increments the hook's counter, and clears the
//! mark. There is no lock, no locked instruction, no heap and no system call. A hit that a trace
//! would write as it is can be recorded here, too ([`record`](super::record)). For all other hits
//! it calls the function that the hook names, with the slot marked, and clears the mark when the
//! function returns. On a thread without a slot, and inside another hit, it calls the function of
//! [`UNMARKED`] instead, which looks for the hook itself.
//!
//! If a consumer needs order, the way in waits for all earlier instructions (`lfence`; Intel SDM
//! 2A). The hook says so by -1 in place of its counter; other negative numbers are recorders'.
//!
//! The direction flag is left alone: it is clear wherever a site may stand, as at any call, and in
//! signal handlers.
//!
//! A signal may arrive between any two instructions. Its handler's hits find the slot marked and
//! take the long way, which counts them and leaves the mark unchanged. `inc` on memory is one
//! instruction, so a counter can't lose a hit to a signal.
//!
//! Unwinding: the caller's frame gets the stack pointer that it had before the step over the red
//! zone (`.cfi_val_offset`). The caller's own unwind tables start from that value.

// Safety: relies on the layouts of `Definition` (its hook at 8), `ThreadSlot` (its mark, a word, at
// 0, its sequence at 8, its calls at 16), `Subscription` (its generation and its blocked flags, a
// word, at 0) and `Hook` (its sole counter at 0, zero or less if it has none; the function for all
// other hits at 8; the subscription whose consumer it calls at 16), which are asserted beside them
// or here, and on `enter` being reached only through stubs.
#![expect(unsafe_code, reason = "see above")]

use std::arch::{asm, naked_asm};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::record::record;
#[cfg(probe_narrow)]
use super::vectors::each_xmm;
use super::vectors::{self, AROUND, quickly};
use crate::engine::dispatch::layout::{PROBE, QUICK, THREAD, UNMARKED, UNMARKED_OF_C};
use crate::engine::dispatch::{ThreadSlot, head};
use probe_core::abi::{Convention, Definition, FIELD_COUNT, Type, Value};

// The numbers that `record` has of values: it stores a value's first word, unless the type's number
// is 3 or 4, which have two, or more than 7. A value has 24 bytes, and begins with its type.
const _: () = {
    assert!(size_of::<Value<'_>>() == 24);
    assert!(Type::U64 as u64 == 1 && Type::I64 as u64 == 2);
    assert!(Type::U128 as u64 == 3 && Type::I128 as u64 == 4);
    assert!(Type::F64 as u64 == 5 && Type::Bool as u64 == 6 && Type::Char as u64 == 7);
};

/// Pushes a register, and says so to unwinders. `$size` is the frame's size afterwards, as
/// unwinders count it: the assembler doesn't count from a restored state.
macro_rules! push {
    ($register:literal, $size:literal) => {
        concat!(
            "push ", $register, "\n.cfi_def_cfa_offset ", $size, "\n.cfi_offset ", $register, ", -", $size,
            "\n"
        )
    };
}

/// Pops a register. `$size` is the frame's size afterwards.
macro_rules! pop {
    ($register:literal, $size:literal) => {
        concat!("pop ", $register, "\n.cfi_def_cfa_offset ", $size, "\n.cfi_restore ", $register, "\n")
    };
}

/// Returns to the cold block, from a frame with the three registers that each way in saves.
macro_rules! leave {
    () => {
        concat!(pop!("rcx", 24), pop!("rax", 16), pop!("rdi", 8), "ret\n")
    };
}

/// The code that a stub jumps to, for probes whose cold block steps down by `$step` bytes. `$tls`
/// comes first. `$record` names the assembly for hits that are recorded. `$deliver` calls the
/// hook's function, with the stack pointer aligned to 16, and continues with its last instruction.
macro_rules! enter {
    ($step:literal, [$($tls:literal,)*], $record:ident, [$($deliver:expr,)*], $($operands:tt)*) => {
        naked_asm!(
            $($tls,)*
            ".cfi_startproc",
            ".cfi_def_cfa_offset 16", // the rdi that the stub pushed
            ".cfi_offset rdi, -16",
            concat!(".cfi_val_offset rsp, ", $step),
            "endbr64", // reached by a jump through memory
            push!("rax", 24),
            push!("rcx", 32),
            "mov rax, [rip + {enter}.slot@GOTTPOFF]",
            "mov rax, fs:[rax]",
            "test rax, rax",
            "jz 4f", // a new thread
            "cmp qword ptr [rax], 0",
            "jne 4f", // inside a hit: a signal handler, or a consumer's own probe
            "mov qword ptr [rax], 1",
            "mov rcx, [rdi + 8]",
            "test rcx, rcx",
            "jz 2f", // detached meanwhile
            "mov rcx, [rcx]",
            "test rcx, rcx",
            "jle 3f", // more to do than to count once; in order, if it is negative
            "inc qword ptr [rax + rcx]",
            "2:",
            "mov qword ptr [rax], 0",
            ".cfi_remember_state",
            leave!(),
            ".cfi_restore_state",
            record!($record),
            "4:",
            "lfence", // a consumer may need order, and this way is slow anyway
            "xor eax, eax",
            "lea rcx, [rip + {unmarked}]",
            "jmp 6f",
            "3:",
            "jns 5f",
            "cmp rcx, -1",
            "jne 8b", // recorded
            "lfence", // a consumer needs order
            "5:",
            "mov rcx, [rdi + 8]", // again: no register was free to keep it
            "test rcx, rcx",
            "jz 2b",
            "6:",
            push!("rbp", 40),
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "push rdx",
            "push rsi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "push rax", // this thread's slot, if it is marked
            ".cfi_offset rdx, -48",
            ".cfi_offset rsi, -56",
            ".cfi_offset r8, -64",
            ".cfi_offset r9, -72",
            ".cfi_offset r10, -80",
            ".cfi_offset r11, -88",
            "lea rsi, [rbp + 40]", // above rbp, rcx, rax, rdi and the return address
            "mov r8, rax",
            "mov r9, rcx", // the hook
            "mov rcx, [r9 + 16]", // the subscription whose consumer is called
            "and rsp, -16", // the cold block may be anywhere in its function's frame
            $($deliver,)*
            "mov rax, [rbp - 56]",
            "test rax, rax",
            "jz 7f",
            "inc qword ptr [rax + 8]",
            "mov qword ptr [rax], 0",
            "7:",
            "lea rsp, [rbp - 48]",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rsi",
            "pop rdx",
            "pop rbp",
            ".cfi_def_cfa rsp, 32",
            leave!(),
            ".cfi_endproc",
            enter = sym enter,
            slot_thread = const THREAD,
            probe = const PROBE,
            probe_shift = const head::PROBE_SHIFT,
            position = const head::POSITION,
            end = const head::END,
            origin = const head::ORIGIN,
            base = const head::BASE,
            thread = const head::THREAD,
            generation = const head::GENERATION,
            written = const head::WRITTEN,
            $($operands)*
        )
    };
}

/// Calls the hook's function where the hit must keep all registers. A
/// [quick](crate::engine::dispatch::Quick) function comes first, if the consumer has one, with
/// fewer registers to keep. If it has not handled the hit, the hook is read again, since the quick
/// function's call has ended; then the hook's function is called with everything kept
/// ([`vectors`](super::vectors)).
macro_rules! enter_keeping {
    ($step:literal, $record:ident, $($operands:tt)*) => {
        enter!(
            $step,
            [],
            $record,
            [
                "test rcx, rcx",
                "jz 12f", // several consumers, or unmarked
                "mov r11, [rcx + {quick}]",
                "test r11, r11",
                "jz 12f",
                quickly!(),
                "test al, al",
                "jnz 13f",
                "mov rdi, [rsp + 256]",
                "lea rsi, [rbp + 40]",
                "mov r8, [rbp - 56]",
                "mov r9, [rdi + 8]",
                "test r9, r9",
                "jz 13f", // detached meanwhile
                "mov rcx, [r9 + 16]",
                "12:",
                "mov r11, [r9 + 8]",
                "call [rip + {around}]",
                "13:",
            ],
            quick = const QUICK,
            around = sym AROUND,
            $($operands)*
        )
    };
}

/// The way in for probes without fields. Not callable from Rust: it has a calling convention of its
/// own.
///
/// It also defines the thread-local pointer to the thread's slot, in the initial-exec model.
/// Reading it never allocates, so a probe may sit in an allocator or a signal handler. In a library
/// that is loaded late, it needs 8 bytes of the C library's reserve. It is named after this
/// function's mangled name, so that two versions of this crate don't share it.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter() {
    enter!(
        "128",
        [
            ".pushsection .tbss, \"awT\", @nobits",
            ".p2align 3",
            ".globl {enter}.slot",
            ".hidden {enter}.slot",
            ".type {enter}.slot, @object",
            ".size {enter}.slot, 8",
            "{enter}.slot: .zero 8",
            ".popsection",
        ],
        without_fields,
        ["call [r9 + 8]",],
        unmarked = sym UNMARKED,
    )
}

/// The way in for probes with fields.
#[unsafe(naked)]
unsafe extern "C" fn enter_with_values() {
    enter!(
        "192", [], with_fields, ["call [r9 + 8]",],
        unmarked = sym UNMARKED,
        field_count = const FIELD_COUNT,
        payload_shift = const head::PAYLOAD_SHIFT,
        inline_values = const INLINE_VALUES,
        values_at = const VALUES_AT,
    )
}

/// The way in for sites in C code where the compiler expects a call, without a step over the red
/// zone.
#[unsafe(naked)]
unsafe extern "C" fn enter_called() {
    enter!(
        "0", [], with_stack_pointer, ["call [r9 + 8]",],
        unmarked = sym UNMARKED_OF_C,
        field_count = const FIELD_COUNT,
        payload_shift = const head::PAYLOAD_SHIFT,
    )
}

/// The way in for sites that the compiler does not know of.
#[unsafe(naked)]
unsafe extern "C" fn enter_hidden() {
    enter_keeping!(
        "0", with_stack_pointer,
        unmarked = sym UNMARKED_OF_C,
        field_count = const FIELD_COUNT,
        payload_shift = const head::PAYLOAD_SHIFT,
    )
}

/// The way in for cold blocks that keep vector registers, without fields.
#[unsafe(naked)]
unsafe extern "C" fn enter_kept() {
    enter_keeping!("128", without_fields, unmarked = sym UNMARKED,)
}

/// The same with fields.
#[unsafe(naked)]
unsafe extern "C" fn enter_kept_with_values() {
    enter_keeping!(
        "192", with_fields,
        unmarked = sym UNMARKED,
        field_count = const FIELD_COUNT,
        payload_shift = const head::PAYLOAD_SHIFT,
        inline_values = const INLINE_VALUES,
        values_at = const VALUES_AT,
    )
}

/// Returns the address of the values of a hit with `count` fields.
///
/// # Safety
/// `frame` must be the pointer that the way in has passed to the hook's function, which must not
/// have returned yet.
pub(crate) unsafe fn values(frame: *const Value<'_>, count: usize) -> *const Value<'_> {
    if count <= INLINE_VALUES {
        frame
    } else {
        // SAFETY: the cold block of a probe with more fields left the address of its values here.
        unsafe { *frame.byte_add(VALUES_AT).cast::<*const Value<'_>>() }
    }
}

/// Up to this number, the values themselves lie on the stack; more values are there by their
/// address.
const INLINE_VALUES: usize = 2;
/// Offset of that address in the frame.
const VALUES_AT: usize = 56;

/// Returns the slot of this thread; null before its first hit. One load, safe anywhere.
#[inline(never)]
pub(crate) fn slot() -> *mut ThreadSlot {
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

#[inline(never)]
pub(crate) fn set_slot(slot: *mut ThreadSlot) {
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

/// Sets the slot of this thread if it has none and returns null; otherwise returns the slot that it
/// has. One instruction decides: a signal handler's hit comes before it, or finds the slot.
#[inline(never)]
pub(crate) fn claim_slot(slot: *mut ThreadSlot) -> *mut ThreadSlot {
    let before;
    // SAFETY: compares and writes this thread's own pointer, which `enter` defines.
    unsafe {
        asm!(
            "mov {at}, [rip + {enter}.slot@GOTTPOFF]",
            "cmpxchg fs:[{at}], {slot}",
            at = out(reg) _,
            slot = in(reg) slot,
            inout("rax") std::ptr::null_mut::<ThreadSlot>() => before,
            enter = sym enter,
            options(nostack),
        );
    }
    before
}

/// Returns the `entry` of definitions that this runtime owns.
pub(crate) fn entry(definition: &Definition) -> *mut () {
    let has_fields = definition.field_count() != 0;
    let enter: unsafe extern "C" fn() = match definition.convention() {
        Convention::ColdBlock if has_fields => enter_with_values,
        Convention::ColdBlock => enter,
        Convention::Call | Convention::Wrapped => enter_called,
        Convention::Hidden => enter_hidden,
        Convention::KeptColdBlock if has_fields => enter_kept_with_values,
        Convention::KeptColdBlock => enter_kept,
    };
    if matches!(definition.convention(), Convention::Hidden | Convention::KeptColdBlock) {
        vectors::prepare();
    }
    (enter as *const ()).cast_mut()
}

/// Orders the slot's mark before the read of the hook, as seen by a thread that passed
/// [`heavy_barrier`](crate::engine::os::heavy_barrier) in between: an asymmetric fence, free on
/// this side.
#[inline(always)]
pub(crate) fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Adds one. A single instruction, so that a signal handler on this thread can't run in between. It
/// is not locked, since only the owner of a slot counts there.
#[inline(always)]
pub(crate) fn increment(counter: &AtomicU64) {
    // SAFETY: the counter is alive and aligned; other threads only read it.
    unsafe { asm!("inc qword ptr [{}]", in(reg) counter.as_ptr(), options(nostack)) };
}

/// Brings the cache line of an address to this processor, to be written soon.
#[inline(always)]
pub(crate) fn prefetch_for_write(addr: usize) {
    // SAFETY: a hint; it does not fault.
    unsafe {
        asm!("prefetchw [{}]", in(reg) addr, options(nostack, preserves_flags, readonly));
    }
}
