//! `SIGTRAP`: who runs into an `int3`, and who had the signal before.
//!
//! The handler is installed on top of the one that was there. What is not ours goes to that one, as if it stood alone:
//! with its mask, its flags, or its default action.

// Safety: relies on sigaction(2) and the frames that the kernel hands to handlers.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use super::thread::{errno, set_errno};

/// Says whether the `int3` at an address was ours, once the thread may execute what is there now.
pub(crate) type Hold = fn(addr: usize) -> bool;

/// A [`Hold`]; null until there is one. No lock guards these: a fork would leave it taken.
static HOLD: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Who had the signal before; never freed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// `SA_RESETHAND` of the previous handler has had its effect.
static IS_RESET: AtomicBool = AtomicBool::new(false);

/// `si_code` of an `int3`: sent by the kernel, see sigaction(2).
const SI_KERNEL: libc::c_int = 0x80;

/// Installs the handler, unless it is there.
///
/// # Errors
/// The system's.
pub(crate) fn install(hold: Hold) -> io::Result<()> {
    HOLD.store(hold as *mut (), Ordering::Release);
    let before = action()?;
    if before.sa_sigaction == handler() {
        return Ok(());
    }
    // Known before our handler can run.
    remember(before);
    // SAFETY: zeroes are an action with an empty mask.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = handler();
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    let mut replaced = MaybeUninit::uninit();
    // Nothing interrupts a thread that takes a patch's steps.
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
        // Somebody was faster.
        remember(replaced);
    }
    Ok(())
}

fn remember(action: libc::sigaction) {
    PREVIOUS.store(Box::into_raw(Box::new(action)), Ordering::Release);
}

/// Whether the handler is still the one that the kernel calls.
pub(crate) fn is_installed() -> bool {
    /// `struct kernel_sigaction`.
    #[repr(C)]
    struct Action {
        handler: libc::sighandler_t,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    let mut action = MaybeUninit::<Action>::uninit();
    let (signal, mask) = (i64::from(libc::SIGTRAP), size_of::<u64>());
    // Not through the C library's function, which may be a program's own, with a probe in it that has brought us here.
    // SAFETY: a place for the action, as the kernel has it; nothing is changed.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, 0_usize, action.as_mut_ptr(), mask) };
    // SAFETY: the call has filled it.
    result == 0 && unsafe { action.assume_init() }.handler == handler()
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

/// Threads of this process that block the signal, as far as `/proc` tells: an `int3` would kill the process there. Takes several looks, since a
/// thread that is just being created blocks all signals for a moment.
pub(crate) fn blocking_threads() -> Vec<u32> {
    let mut blocking = blocking_now();
    for _ in 0..LOOKS {
        if blocking.is_empty() {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        let now = blocking_now();
        blocking.retain(|thread| now.contains(thread));
    }
    blocking
}

const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

fn blocking_now() -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir("/proc/thread-self/../../task") else { return Vec::new() };
    let blocks = |path: std::path::PathBuf| {
        std::fs::read_to_string(path.join("status")).is_ok_and(|status| blocks_trap(&status))
    };
    (tasks.flatten().filter(|task| blocks(task.path())))
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a thread's status, see `proc_pid_status(5)`, says that it blocks `SIGTRAP`.
fn blocks_trap(status: &str) -> bool {
    (status.lines().find_map(|line| line.strip_prefix("SigBlk:")))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 << (libc::SIGTRAP - 1) != 0)
}

/// Something that tells this thread from all others, without a call: its thread pointer.
pub(crate) fn this_thread() -> usize {
    let pointer;
    // SAFETY: the first word that FS points at is the thread pointer itself (System V ABI, x86-64 supplement of the
    // ELF TLS ABI).
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
    // SAFETY: the kernel's own, valid while the handler runs.
    let (code, registers) =
        unsafe { ((*info).si_code, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
    let next = &mut registers[libc::REG_RIP.cast_unsigned() as usize];
    // The processor goes on behind the `int3`.
    let addr = next.wrapping_sub(1);
    let is_ours = || hold().is_some_and(|hold| usize::try_from(addr).is_ok_and(hold));
    if code == SI_KERNEL && is_ours() {
        // Returning from a handler serialises: the thread fetches anew what is there.
        *next = addr;
    } else {
        pass_on(signal, info, context);
    }
    set_errno(errno);
}

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own, valid while the handler runs.
    let is_sent = unsafe { (*info).si_code } <= 0;
    // SAFETY: null, or an action that stays.
    let previous = unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() };
    let Some(previous) = previous.filter(|_| !IS_RESET.load(Ordering::Relaxed)) else {
        return default_action(signal);
    };
    match previous.sa_sigaction {
        // What a processor raises can't be ignored: the kernel then takes the default action, too.
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
        // SAFETY: whoever installed it with SA_SIGINFO gave such a function.
        let handler: Informed = unsafe { std::mem::transmute(previous.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: whoever installed it without SA_SIGINFO gave such a function.
        let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(previous.sa_sigaction) };
        handler(signal);
    }
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

/// Ends the process as the signal does where nobody handles it: the signal is blocked here, so it comes again when the
/// handler returns, and finds nobody.
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
    fn a_status_says_whether_the_signal_is_blocked() {
        let status = |mask: &str| format!("Name:\tx\nSigPnd:\tffffffffffffffff\nSigBlk:\t{mask}\n");
        assert!(blocks_trap(&status("0000000000000010")));
        assert!(blocks_trap(&status("fffffffe7ffbba1f")));
        assert!(!blocks_trap(&status("ffffffffffffffef")));
        assert!(!blocks_trap(&status("?")));
        assert!(!blocks_trap(""));
    }

    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn threads_have_pointers_of_their_own() {
        let here = this_thread();
        assert_eq!(here, this_thread());
        assert_ne!(std::thread::spawn(this_thread).join().unwrap(), here);
    }
}
