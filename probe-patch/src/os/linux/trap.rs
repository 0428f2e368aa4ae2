//! The handler of `SIGTRAP`, for threads that run into an `int3` of this crate.
//!
//! The handler is installed on top of the previous one. A signal that is not for this crate goes to
//! the previous handler, as if that one stood alone: with its mask, its flags, or its default
//! action.

// Safety: relies on sigaction(2) and the frames that the kernel hands to handlers.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use super::masks::action as action_of;
use super::text::page_size;
use super::thread::{errno, set_errno};

/// Returns whether the `int3` at an address was this crate's. It returns `true` once the thread may
/// execute the instruction there.
pub type Hold = fn(addr: usize) -> bool;

/// A [`Hold`]; null until there is one. No lock guards these: a fork would leave it taken.
static HOLD: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// The previous action; never freed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// Whether `SA_RESETHAND` of the previous handler has had its effect.
static IS_RESET: AtomicBool = AtomicBool::new(false);

/// The exception number of `int3` on x86. The signal's code is `SI_KERNEL` from the kernel, and
/// `TRAP_BRKPT` under valgrind.
const BREAKPOINT: i64 = 3;
const INT3: u8 = 0xcc;

/// Installs the handler, unless it is installed already.
///
/// # Errors
/// The system's.
pub fn install(hold: Hold) -> io::Result<()> {
    HOLD.store(hold as *mut (), Ordering::Release);
    let before = action()?;
    if before.sa_sigaction == handler() {
        return Ok(());
    }
    // Stored before the handler can run.
    remember(before);
    // SAFETY: zeroes are an action with an empty mask.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = handler();
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    let mut replaced = MaybeUninit::uninit();
    // No signal interrupts a thread that takes a patch's steps.
    // SAFETY: whole actions, a mask, and a place; `handle` does only what a signal handler may.
    let result = unsafe {
        libc::sigfillset(&raw mut ours.sa_mask);
        libc::sigaction(libc::SIGTRAP, &raw const ours, replaced.as_mut_ptr())
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let replaced = unsafe { replaced.assume_init() };
    if replaced.sa_sigaction != before.sa_sigaction && replaced.sa_sigaction != handler() {
        // Another thread was faster.
        remember(replaced);
    }
    Ok(())
}

fn remember(action: libc::sigaction) {
    PREVIOUS.store(Box::into_raw(Box::new(action)), Ordering::Release);
}

/// Returns whether the kernel still calls this handler.
pub fn is_installed() -> bool {
    action_of(libc::SIGTRAP).is_some_and(|action| action.handler == handler())
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

fn handler() -> libc::sighandler_t {
    handle as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

fn action() -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a place for the action.
    match unsafe { libc::sigaction(libc::SIGTRAP, ptr::null(), action.as_mut_ptr()) } {
        // SAFETY: the call has filled it.
        0 => Ok(unsafe { action.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
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

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = errno();
    // SAFETY: the kernel's own structures, valid while the handler runs.
    let (code, registers) =
        unsafe { ((*info).si_code, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
    let at = |register: libc::c_int| register.cast_unsigned() as usize;
    // The kernel raised it: the codes of signals that a program sends are negative, or 0.
    let is_int3 = code > 0 && registers[at(libc::REG_TRAPNO)] == BREAKPOINT;
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
        pass_on(signal, info, context);
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

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own structure, valid while the handler runs.
    let is_sent = unsafe { (*info).si_code } <= 0;
    // SAFETY: null, or an action that stays.
    let previous = unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() };
    let Some(previous) = previous.filter(|_| !IS_RESET.load(Ordering::Relaxed)) else {
        return default_action(signal);
    };
    match previous.sa_sigaction {
        // A signal that the processor raises can't be ignored: the kernel then takes the default
        // action.
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => default_action(signal),
        _ => call(previous, signal, info, context),
    }
}

/// Calls the previous handler as the kernel would.
fn call(previous: &libc::sigaction, signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if previous.sa_flags & libc::SA_RESETHAND != 0 {
        IS_RESET.store(true, Ordering::Relaxed);
    }
    let mut mask = previous.sa_mask;
    let mut before = MaybeUninit::uninit();
    // SAFETY: whole masks; these calls are async-signal-safe.
    unsafe {
        if previous.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, before.as_mut_ptr());
        if previous.sa_flags & libc::SA_NODEFER != 0 {
            let mut trap = mask;
            libc::sigemptyset(&raw mut trap);
            libc::sigaddset(&raw mut trap, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const trap, ptr::null_mut());
        }
    }
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: the code that installed it with SA_SIGINFO gave such a function.
        let handler: Informed = unsafe { std::mem::transmute(previous.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: the code that installed it without SA_SIGINFO gave such a function.
        let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(previous.sa_sigaction) };
        handler(signal);
    }
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

/// Ends the process as the signal's default action does. The signal is blocked here, so it takes
/// effect when the handler returns.
fn default_action(signal: libc::c_int) {
    // SAFETY: zeroes are the default action; raising is async-signal-safe.
    unsafe {
        let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        libc::raise(signal);
    }
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
