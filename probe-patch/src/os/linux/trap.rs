//! The handler of `SIGTRAP`, for threads that run into an `int3` of this crate.
//!
//! The handler is installed on top of the previous one, which gets the signals that are not for
//! this crate.

// Safety: relies on sigaction(2) and the frames that the kernel hands to handlers.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use super::handlers::action as action_of;
use super::text::page_size;
use crate::os::chained::Chained;
use crate::os::thread::{errno, set_errno};

/// Returns whether the `int3` at an address was this crate's. It returns `true` once the thread may
/// execute the instruction there.
pub type Hold = fn(addr: usize) -> bool;

/// A [`Hold`]; null until there is one. No lock guards it: a fork would leave it taken.
static HOLD: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static CHAINED: Chained = Chained::new(libc::SIGTRAP, handle);

/// The exception number of `int3` on x86. Under valgrind, it tells an `int3`.
const BREAKPOINT: i64 = 3;
/// The code of the signal for an `int3`, from the kernel. In a process with a uprobe, the kernel
/// sends it without the exception number: its uprobes look at each `int3` first.
const SI_KERNEL: libc::c_int = 0x80;
const INT3: u8 = 0xcc;

/// Installs the handler, unless it is installed already.
///
/// # Errors
/// The system's.
pub fn install(hold: Hold) -> io::Result<()> {
    HOLD.store(hold as *mut (), Ordering::Release);
    CHAINED.install()
}

/// Returns whether the kernel still calls this handler.
pub fn is_installed() -> bool {
    action_of(libc::SIGTRAP).is_some_and(|action| action.handler == CHAINED.handler())
}

/// Its address marks the `int3` of the question below.
static QUESTION: u8 = 0;

/// Executes an `int3`. Returns whether the handler got its signal. A debugger that keeps the signal
/// for itself stops here. If the program then continues, this returns `false`.
#[inline(never)]
pub fn debugger_must_pass_on_sigtrap() -> bool {
    let mut is_handled = 0_u64;
    // SAFETY: if the handler is called, it changes RAX alone. The thread continues behind the
    // `int3`, at the end of the code, in either case.
    unsafe {
        std::arch::asm!(
            "lea rdi, [rip + 2f]",
            "2: int3",
            inout("rax") is_handled,
            out("rdi") _,
            in("rsi") &raw const QUESTION,
        );
    }
    is_handled != 0
}

/// Returns a number that tells this thread from all others, without a call: its thread pointer.
pub fn this_thread() -> usize {
    let pointer;
    // SAFETY: the first word that FS points at is the thread pointer itself (System V ABI, x86-64
    // supplement of the ELF TLS ABI).
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

fn hold() -> Option<Hold> {
    let hold = HOLD.load(Ordering::Acquire);
    // SAFETY: null, or what `install` was given.
    unsafe { std::mem::transmute::<*mut (), Option<Hold>>(hold) }
}

extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = errno();
    // SAFETY: the kernel's own structures, valid while the handler runs.
    let (code, registers) =
        unsafe { ((*info).si_code, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
    let at = |register: libc::c_int| register.cast_unsigned() as usize;
    // The kernel raised it: the codes of signals that a program sends are negative, or 0.
    let is_int3 = code == SI_KERNEL || code > 0 && registers[at(libc::REG_TRAPNO)] == BREAKPOINT;
    // The processor continues behind the `int3`.
    let addr = registers[at(libc::REG_RIP)].wrapping_sub(1);
    let is_question = || {
        usize::try_from(registers[at(libc::REG_RSI)]) == Ok((&raw const QUESTION).addr())
            && registers[at(libc::REG_RDI)] == addr
    };
    let is_ours = |addr: i64| hold().is_some_and(|hold| usize::try_from(addr).is_ok_and(hold));
    if is_int3 && is_question() {
        registers[at(libc::REG_RAX)] = 1;
    } else if is_int3 && is_ours(addr) {
        // Returning from a handler serialises: the thread fetches the instruction anew.
        registers[at(libc::REG_RIP)] = addr;
    } else if is_int3 && !is_behind_int3(addr) && is_ours(addr + 1) {
        // A debugger has moved the thread back to the instruction, whose `int3` is gone by now.
    } else {
        // SAFETY: the kernel's own structures, which this handler was given.
        unsafe { CHAINED.pass_on(info, context) };
    }
    set_errno(errno);
}

/// Returns whether there is an `int3` at `addr`, right before the address that the thread continues
/// at.
fn is_behind_int3(addr: i64) -> bool {
    let addr = usize::try_from(addr).unwrap_or_default();
    // The thread continues at `addr + 1`, which is mapped. If a page begins there, `addr` may not
    // be.
    let is_mapped = !(addr + 1).is_multiple_of(page_size());
    // SAFETY: in a page that the thread executes. All code that changes it does so by whole bytes.
    !is_mapped || unsafe { AtomicU8::from_ptr(addr as *mut u8) }.load(Ordering::Relaxed) == INT3
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
}
