//! Instructions that the engine executes itself, and the registers that its signal handlers read.

// Safety: relies on instructions that change no more than their operands, and on the frames that
// the kernel hands to signal handlers.
#![expect(unsafe_code, reason = "see above")]

use std::arch::{asm, naked_asm};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering, fence};

/// The size of a page, in bytes.
pub(crate) const PAGE_SIZE: usize = 4096;

/// `int3`, which stands at an instruction's first byte while the rest of it is being replaced.
///
/// ```
/// use probe_patch::Bytes;
/// use probe_patch::word::{INT3, Plan};
/// let (old, new) = (Bytes::from([0xb8, 1, 0, 0, 0]), Bytes::from([0xb8, 2, 0, 0, 0]));
/// let lock = Plan::new(0x1000, old, new).expect("of one length").lock();
/// assert_eq!(lock.to.to_le_bytes()[0], INT3);
/// ```
pub const INT3: u8 = 0xcc;

/// The breakpoint, with which a patch through a trap begins.
pub(crate) const BREAKPOINT: [u8; 1] = [INT3];

/// The greatest distance between the outer ends of two pieces of code of which each byte has to
/// reach every other: a bit less than a CALL or JMP can reach.
pub(crate) const BRANCH_REACH: usize = (1 << 31) - 64;

/// Returns, and does nothing else.
#[unsafe(naked)]
pub(crate) extern "C" fn return_at_once() {
    naked_asm!("ret")
}

/// Fills a page with a function that returns at once, and breakpoints behind it.
pub(crate) fn fill_return_page(page: &mut [u8]) {
    const RET: u8 = 0xc3;
    page.fill(INT3);
    page[0] = RET;
}

/// Returns whether a breakpoint is at an address.
///
/// # Safety
/// The address is mapped, and all code that changes it does so by whole bytes.
pub(crate) unsafe fn has_breakpoint(addr: usize) -> bool {
    // SAFETY: as the caller says; text is only ever changed through atomics.
    unsafe { AtomicU8::from_ptr(addr as *mut u8) }.load(Ordering::Relaxed) == INT3
}

/// Returns the time stamp counter. It is the same on all processors, and steady, on every x86-64 of
/// the last fifteen years.
pub(crate) fn timestamp() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns a time at which this thread's writes are visible. Without the fences, the counter could
/// be read before the writes are visible (SDM vol. 2, RDTSC).
pub(crate) fn timestamp_after_writes() -> u64 {
    fence(Ordering::SeqCst);
    // SAFETY: part of every x86-64 processor.
    unsafe { std::arch::x86_64::_mm_lfence() };
    timestamp()
}

/// Returns a number that tells this thread from all others, without a call: its thread pointer.
pub(crate) fn this_thread() -> usize {
    let pointer;
    // SAFETY: the first word that FS points at is the thread pointer itself (System V ABI, x86-64
    // supplement of the ELF TLS ABI).
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// Returns whether valgrind executes this program: its `RUNNING_ON_VALGRIND`, see `valgrind.h`.
pub(crate) fn is_valgrind() -> bool {
    const RUNNING: u64 = 0x1001;
    let request = [RUNNING, 0, 0, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: rotates a register by 128 bits in all, and exchanges another one with itself.
    // Valgrind reads the request, and writes the answer.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer != 0
}

/// The registers of a thread that a signal has interrupted.
pub(crate) struct Registers<'a>(&'a mut [i64; 23]);

impl Registers<'_> {
    /// # Safety
    /// `context` is the one that the kernel has handed to a signal handler, which runs.
    pub(crate) unsafe fn of(context: *mut c_void) -> Self {
        // SAFETY: the kernel's own structure, valid while the handler runs.
        Self(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs })
    }

    /// Returns the address where the thread continues.
    pub(crate) fn next(&self) -> usize {
        self.get(libc::REG_RIP)
    }

    /// Lets the thread continue at an address.
    pub(crate) fn set_next(&mut self, addr: usize) {
        self.0[libc::REG_RIP.cast_unsigned() as usize] = addr.cast_signed() as i64;
    }

    /// Returns the address of the breakpoint that the thread has executed, if the kernel has raised
    /// a signal with this code for one.
    pub(crate) fn breakpoint(&self, code: libc::c_int) -> Option<usize> {
        /// The code of the signal for an `int3`, from the kernel. In a process with a uprobe, the
        /// kernel sends it without the exception number: its uprobes look at each `int3` first.
        const SI_KERNEL: libc::c_int = 0x80;
        /// The exception number of `int3`. Under valgrind, it tells an `int3`.
        const BREAKPOINT_EXCEPTION: usize = 3;
        // The codes of signals that a program sends are negative, or 0.
        let is_breakpoint =
            code == SI_KERNEL || code > 0 && self.get(libc::REG_TRAPNO) == BREAKPOINT_EXCEPTION;
        // The processor continues behind the `int3`.
        is_breakpoint.then(|| self.next().wrapping_sub(BREAKPOINT.len()))
    }

    /// Returns whether a breakpoint is the one of [`debugger_must_pass_on_sigtrap`], and tells that
    /// function then that the handler has its signal.
    pub(crate) fn confirm_debugger_check(&mut self, breakpoint: usize) -> bool {
        let is_check = self.get(libc::REG_RSI) == (&raw const DEBUGGER_CHECK).addr()
            && self.get(libc::REG_RDI) == breakpoint;
        if is_check {
            self.0[libc::REG_RAX.cast_unsigned() as usize] = 1;
        }
        is_check
    }

    #[expect(clippy::cast_possible_truncation, reason = "both are 64 bits")]
    fn get(&self, register: libc::c_int) -> usize {
        self.0[register.cast_unsigned() as usize].cast_unsigned() as usize
    }
}

/// Its address marks the breakpoint of the check below.
static DEBUGGER_CHECK: u8 = 0;

/// Executes an `int3`. Returns whether the handler got its signal. A debugger that keeps the signal
/// for itself stops here. If the program then continues, this returns `false`.
#[inline(never)]
pub(crate) fn debugger_must_pass_on_sigtrap() -> bool {
    let mut is_handled = 0_u64;
    // SAFETY: if the handler is called, it changes RAX alone. The thread continues behind the
    // `int3`, at the end of the code, in either case.
    unsafe {
        asm!(
            "lea rdi, [rip + 2f]",
            "2: int3",
            inout("rax") is_handled,
            out("rdi") _,
            in("rsi") &raw const DEBUGGER_CHECK,
        );
    }
    is_handled != 0
}

/// Returns the number of bytes before the first NUL, at most `most`; `None` if one can't be read.
///
/// # Safety
/// The handlers of `SIGSEGV` and `SIGBUS` move a thread from the first of the [`fault_addresses`]
/// to the second.
pub(crate) unsafe fn scan_text(start: usize, most: usize) -> Option<usize> {
    // SAFETY: as the caller says.
    Some(unsafe { scan(start, most) }).filter(|len| *len != usize::MAX)
}

/// Returns the number of bytes before the first NUL, at most `most`; -1 after a fault.
#[unsafe(naked)]
unsafe extern "C" fn scan(start: usize, most: usize) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "xor eax, eax",
        "2: cmp rax, rsi",
        "jae 3f",
        ".globl {scan}.read",
        ".hidden {scan}.read",
        "{scan}.read:",
        "cmp byte ptr [rdi + rax], 0",
        "je 3f",
        "inc rax",
        "jmp 2b",
        ".globl {scan}.fault",
        ".hidden {scan}.fault",
        "{scan}.fault:",
        "mov rax, -1",
        "3: ret",
        ".cfi_endproc",
        scan = sym scan,
    )
}

/// Returns the address of the instruction in [`scan_text`] that may fault, and the address
/// where the thread continues then.
pub(crate) fn fault_addresses() -> (usize, usize) {
    let (read, fault);
    // SAFETY: takes two addresses of the function's code.
    unsafe {
        asm!(
            "lea {read}, [rip + {scan}.read]",
            "lea {fault}, [rip + {scan}.fault]",
            read = out(reg) read,
            fault = out(reg) fault,
            scan = sym scan,
            options(nomem, nostack, preserves_flags),
        );
    }
    (read, fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn threads_have_pointers_of_their_own() {
        let here = this_thread();
        assert_eq!(here, this_thread());
        assert_ne!(std::thread::spawn(this_thread).join().unwrap(), here);
    }

    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn it_is_asked_for_nothing_but_an_answer() {
        assert_eq!(is_valgrind(), is_valgrind());
    }
}
