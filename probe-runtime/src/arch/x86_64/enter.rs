//! The way into dispatch: the code that a stub jumps to when its site is active.
//!
//! ```text
//! on entry   rdi = &Definition, [rsp] = the rdi to restore, [rsp + 8] = a return address in the cold block,
//!            [rsp + 16] = the values, if the probe has fields
//! on return  every general register is kept; flags are not; vector registers and x87 only for
//!            `Convention::Hidden` and `Convention::KeptColdBlock`
//! ```
//! (docs/abi.md, "Entry".) In C code the compiler may know nothing of the site, or would spill
//! vector registers on the hot path. For such sites the way to `dispatch` also keeps vector and x87
//! registers ([`vectors`](super::vectors)).
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
// 0, its sequence at 8, its calls at 16), `Subscription` (its generation and its silence, a word,
// at 0) and `Hook` (its sole counter at 0, zero or less if it has none; the
// function for all other hits at 8; the subscription whose consumer it calls at 16), which are
// asserted beside them or here, and on `enter` being reached only through stubs.
#![expect(unsafe_code, reason = "see above")]

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::record::record;
use super::saved::{leave, pop, push};
use super::vectors::{self, AREA};
use crate::abi::{Convention, Definition, FIELD_COUNT, Type, Value};
use crate::dispatch::{PROBE, THREAD, ThreadSlot, UNMARKED, head};

// The numbers that `record` has of values: it stores a value's first word, unless the type's number
// is 3 or 4, which have two, or more than 7. A value has 24 bytes.
const _: () = {
    assert!(size_of::<Value<'_>>() == 24 && offset_of!(Value<'_>, ty) == 0);
    assert!(offset_of!(Value<'_>, words) == 8);
    assert!(Type::U64 as u64 == 1 && Type::I64 as u64 == 2);
    assert!(Type::U128 as u64 == 3 && Type::I128 as u64 == 4);
    assert!(Type::F64 as u64 == 5 && Type::Bool as u64 == 6 && Type::Char as u64 == 7);
};

/// The code that a stub jumps to, for probes whose cold block steps down by `$step` bytes. `$tls`
/// comes first. `$save` and `$restore` surround the call of the hook's function, with the stack
/// pointer aligned to 16, and `rax` and `rdx` free. `$record` is the assembly for hits that are
/// recorded; where these call the consumer instead, there is none. `$to_record` jumps to either.
macro_rules! enter {
    ($step:literal, [$($tls:literal,)*], [$record:ident], $($operands:tt)*) => {
        enter!(
            $step, [$($tls,)*], [], [], "jne 8b", [record!($record),],
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
    ($step:literal, calling) => {
        enter!($step, [], [], [], "jne 5f", [],)
    };
    (
        $step:literal, [$($tls:literal,)*], [$($save:literal,)*], [$($restore:literal,)*],
        $to_record:literal, [$($record:expr,)?], $($operands:tt)*
    ) => {
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
            $($record,)?
            "4:",
            "lfence", // a consumer may need order, and this way is slow anyway
            "xor eax, eax",
            "lea rcx, [rip + {unmarked}]",
            "jmp 6f",
            "3:",
            "jns 5f",
            "cmp rcx, -1",
            $to_record,
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
            $($save,)*
            "call [r9 + 8]",
            $($restore,)*
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
            unmarked = sym UNMARKED,
            $($operands)*
        )
    };
}

/// Keeps vector, mask and x87 registers in an area on the stack, whose header must be zero
/// ([`vectors`](super::vectors)). The x87 stack may hold values in the middle of a function; the
/// hook's function finds it empty, as every function does.
macro_rules! enter_keeping {
    ($step:literal, $save:literal, $restore:literal) => {
        enter!(
            $step,
            [],
            [
                "sub rsp, [rip + {area}]",
                "and rsp, -64",
                "xor eax, eax",
                "mov [rsp + 512], rax",
                "mov [rsp + 520], rax",
                "mov [rsp + 528], rax",
                "mov [rsp + 536], rax",
                "mov [rsp + 544], rax",
                "mov [rsp + 552], rax",
                "mov [rsp + 560], rax",
                "mov [rsp + 568], rax",
                "mov eax, [rip + {area} + 8]",
                "xor edx, edx",
                $save,
                "emms",
            ],
            ["mov eax, [rip + {area} + 8]", "xor edx, edx", $restore,],
            "jne 5f",
            [],
            area = sym AREA,
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
        [without_fields],
    )
}

/// The way in for probes with fields.
#[unsafe(naked)]
unsafe extern "C" fn enter_with_values() {
    enter!(
        "192", [], [with_fields],
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
    enter!("0", calling)
}

/// The ways in that keep vector registers: for sites that the compiler does not know of, and for
/// cold blocks without and with fields; on a processor with `XSAVEC`, with `XSAVE`, and without
/// either.
macro_rules! keeping {
    ($($name:ident: $step:literal, $save:literal, $restore:literal;)*) => { $(
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            enter_keeping!($step, $save, $restore)
        }
    )* };
}

keeping! {
    hidden_xsavec: "0", "xsavec64 [rsp]", "xrstor64 [rsp]";
    hidden_xsave: "0", "xsave64 [rsp]", "xrstor64 [rsp]";
    hidden_fxsave: "0", "fxsave64 [rsp]", "fxrstor64 [rsp]";
    kept_xsavec: "128", "xsavec64 [rsp]", "xrstor64 [rsp]";
    kept_xsave: "128", "xsave64 [rsp]", "xrstor64 [rsp]";
    kept_fxsave: "128", "fxsave64 [rsp]", "fxrstor64 [rsp]";
    kept_with_values_xsavec: "192", "xsavec64 [rsp]", "xrstor64 [rsp]";
    kept_with_values_xsave: "192", "xsave64 [rsp]", "xrstor64 [rsp]";
    kept_with_values_fxsave: "192", "fxsave64 [rsp]", "fxrstor64 [rsp]";
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
    // The functions for `XSAVEC`, for `XSAVE`, and for neither.
    let keeping: [unsafe extern "C" fn(); 3] = match definition.convention() {
        Convention::ColdBlock => return address(if has_fields { enter_with_values } else { enter }),
        Convention::Call => return address(enter_called),
        Convention::Hidden => [hidden_xsavec, hidden_xsave, hidden_fxsave],
        Convention::KeptColdBlock if has_fields => {
            [kept_with_values_xsavec, kept_with_values_xsave, kept_with_values_fxsave]
        }
        Convention::KeptColdBlock => [kept_xsavec, kept_xsave, kept_fxsave],
    };
    address(keeping[vectors::prepare() as usize])
}

fn address(enter: unsafe extern "C" fn()) -> *mut () {
    (enter as *const ()).cast_mut()
}

/// Orders the slot's mark before the read of the hook, as seen by a thread that passed
/// [`heavy_barrier`](crate::os::heavy_barrier) in between: an asymmetric fence, free on this side.
#[inline(always)]
pub(crate) fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Adds one. A single instruction, so that a signal handler on this thread can't run in between. It
/// is not locked, since only the owner of a slot counts there.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64) {
    // SAFETY: the counter is alive and aligned; other threads only read it.
    unsafe { asm!("inc qword ptr [{}]", in(reg) counter.as_ptr(), options(nostack)) };
}
