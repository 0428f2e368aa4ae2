//! Wrappers: functions that take the place of a library's function, and call it between two hits.
//!
//! ```text
//! caller ─▶ wrapper 7 ─▶ wrap ─┬─▶ hit of the entry, if that is active
//!                              ├─▶ the function, with the same arguments
//!                              └─▶ hit of the exit, if that is active ─▶ caller
//! ```
//! No code is made at run time: a wrapper of this table leads to its [`WrapperData`], which names
//! the function and the definitions. Unwinders find tables for all of it.
//!
//! The frame has the arguments in registers, so that both hits find them in memory:
//!
//! ```text
//!  site's rsp + 8   r9        + 32  rdx    + 56  the wrapper's data     + 72  the return address
//!             + 16  r8        + 40  rsi    + 64  rbp                    + 80  arguments on the
//!   stack + 24  rcx       + 48  rdi
//! ```
//! Both hits have the same stack pointer, which tells calls apart. The function finds copies of
//! the arguments on the stack, as many as the data says. It returns to the wrapper, whose caller
//! gets all registers that hold results as they are. An exception, a cancellation or a `longjmp`
//! passes the frame without a hit. Without an active exit, the wrapper jumps to the function, which
//! returns to the caller.
//!
//! Cost: 28 instructions, besides the hits.

// Safety: relies on the layout of `WrapperData`, asserted here, and on its writers: a wrapper is
// called only once its data is complete.
#![expect(unsafe_code, reason = "see above")]

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::registers::StoredRegister;
use probe_core::abi::Definition;

/// The number of wrappers.
pub(crate) const WRAPPERS: usize = 1024;

/// Bytes from one wrapper to the next.
const LEN: usize = 16;

/// The function behind a wrapper, and its probes.
#[repr(C, align(64))]
pub(crate) struct WrapperData {
    function: AtomicUsize,
    entry: AtomicPtr<Definition>,
    exit: AtomicPtr<Definition>,
    /// The number of words of arguments on the stack.
    words: AtomicU32,
    is_entry_active: AtomicBool,
    is_exit_active: AtomicBool,
}

const _: () = {
    assert!(size_of::<WrapperData>() == 64);
    assert!(offset_of!(WrapperData, function) == 0);
    assert!(offset_of!(WrapperData, entry) == 8);
    assert!(offset_of!(WrapperData, exit) == 16);
    assert!(offset_of!(WrapperData, words) == 24);
    assert!(offset_of!(WrapperData, is_entry_active) == 28);
    assert!(offset_of!(WrapperData, is_exit_active) == 29);
};

static DATA: [WrapperData; WRAPPERS] = [const {
    WrapperData {
        function: AtomicUsize::new(0),
        entry: AtomicPtr::new(ptr::null_mut()),
        exit: AtomicPtr::new(ptr::null_mut()),
        words: AtomicU32::new(0),
        is_entry_active: AtomicBool::new(false),
        is_exit_active: AtomicBool::new(false),
    }
}; WRAPPERS];

/// One wrapper, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wrapper(usize);

impl Wrapper {
    /// Returns the wrapper with this number; `None` if there are not as many.
    pub(crate) fn new(number: usize) -> Option<Self> {
        (number < WRAPPERS).then_some(Self(number))
    }

    /// Returns the wrapper at this address.
    pub(crate) fn at(address: usize) -> Option<Self> {
        let distance = address.checked_sub((wrappers as *const ()).addr())?;
        Self::new(distance / LEN).filter(|it| it.address() == address)
    }

    /// Returns its address, which a caller may take for the function's.
    pub(crate) fn address(self) -> usize {
        (wrappers as *const ()).addr() + self.0 * LEN
    }

    /// Tells it the function, the number of words of its arguments on the stack, and its probes,
    /// whose hits are inactive. Nothing may have led to it before.
    pub(crate) fn begin(self, function: usize, words: u32, definitions: [&'static Definition; 2]) {
        let data = &DATA[self.0];
        let [entry, exit] = definitions.map(|it| ptr::from_ref(it).cast_mut());
        data.entry.store(entry, Ordering::Relaxed);
        data.exit.store(exit, Ordering::Relaxed);
        data.words.store(words, Ordering::Relaxed);
        data.function.store(function, Ordering::Release);
    }

    /// Returns the function.
    pub(crate) fn function(self) -> usize {
        DATA[self.0].function.load(Ordering::Relaxed)
    }

    /// Switches the hits of the entry and of the exit. Both definitions must have their entry.
    pub(crate) fn switch(self, entry: bool, exit: bool) {
        DATA[self.0].is_entry_active.store(entry, Ordering::SeqCst);
        DATA[self.0].is_exit_active.store(exit, Ordering::SeqCst);
    }
}

/// Returns the addresses behind the calls that are the entries' and the exits' sites.
pub(crate) fn after_sites() -> [usize; 2] {
    let (entry, exit);
    // SAFETY: addresses of labels in `wrap`.
    unsafe {
        asm!(
            "lea {entry}, [rip + {wrap}.entered]",
            "lea {exit}, [rip + {wrap}.left]",
            entry = out(reg) entry,
            exit = out(reg) exit,
            wrap = sym wrap,
            options(nostack, nomem, preserves_flags),
        );
    }
    [entry, exit]
}

/// Returns the offset from the stack pointer at both sites of an argument that the caller has
/// passed in this register for integers, by its number in DWARF.
pub(crate) fn argument_in_register(number: u8) -> Option<i32> {
    const OFFSETS: [(u8, i32); 6] = [(5, 48), (4, 40), (1, 32), (2, 24), (8, 16), (9, 8)];
    OFFSETS.iter().find(|(register, _)| *register == number).map(|(_, offset)| *offset)
}

/// Returns the same of an argument on the stack, by its offset from the return address.
pub(crate) fn argument_on_stack(offset: i32) -> i32 {
    72 + offset
}

/// Returns the register of a result.
pub(crate) fn result(is_floating: bool) -> Option<StoredRegister> {
    StoredRegister::of(if is_floating { 17 } else { 0 })
}

/// All wrappers. Not callable from Rust.
#[unsafe(naked)]
unsafe extern "C" fn wrappers() {
    naked_asm!(
        ".cfi_startproc",
        ".irp a, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        ".irp b, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "endbr64",
        "lea r11, [rip + {data} + 64 * (32 * \\a + \\b)]",
        ".byte 0xe9", // always the long form
        ".long {wrap} - . - 4",
        ".endr",
        ".endr",
        ".cfi_endproc",
        data = sym DATA,
        wrap = sym wrap,
    )
}

/// The rest of each wrapper, whose data is in `r11`.
#[unsafe(naked)]
unsafe extern "C" fn wrap() {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push r11",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push r11", // for alignment
        "cmp byte ptr [r11 + 28], 0",
        "je 2f",
        "call 8f",
        ".globl {wrap}.entered\n.hidden {wrap}.entered\n{wrap}.entered:",
        "2:",
        "cmp byte ptr [r11 + 29], 0",
        "je 5f",
        "cmp dword ptr [r11 + 24], 0",
        "jne 6f",
        "3:",
        "call [r11]",
        "mov r11, [rbp - 8]",
        "lea rsp, [rbp - 64]",
        "cmp byte ptr [r11 + 29], 0",
        "je 4f",
        "call 9f",
        ".globl {wrap}.left\n.hidden {wrap}.left\n{wrap}.left:",
        "4:",
        ".cfi_remember_state",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_restore_state",
        "5:", // nothing to do behind the function
        ".cfi_remember_state",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp [r11]",
        ".cfi_restore_state",
        "6:", // copies arguments, the last one first
        "mov r11d, [r11 + 24]",
        "test r11b, 1",
        "jz 7f",
        "push r11",
        "7:",
        "push qword ptr [rbp + 8 + 8 * r11]",
        "dec r11d",
        "jnz 7b",
        "mov r11, [rbp - 8]",
        "jmp 3b",
        "8:", // the stubs of both sites
        "push rdi",
        "mov rdi, [r11 + 8]",
        "jmp [rdi]",
        "9:",
        "push rdi",
        "mov rdi, [r11 + 16]",
        "jmp [rdi]",
        ".cfi_endproc",
        wrap = sym wrap,
    )
}
