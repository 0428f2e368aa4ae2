//! The handler of `SIGTRAP`, for threads that run into a breakpoint of this crate.
//!
//! The handler is installed on top of the previous one, which gets the signals that are not for
//! this crate.

// Safety: relies on sigaction(2) and the frames that the kernel hands to handlers.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{io, ptr};

use super::text::page_size;
use crate::arch::{Registers, has_breakpoint};
use crate::os::chained_handler::ChainedHandler;
use crate::os::thread::{errno, set_errno};

/// Returns whether the breakpoint at an address was this crate's. It returns `true` once the thread
/// may execute the instruction there.
pub type BreakpointHandler = fn(addr: usize) -> bool;

/// A [`BreakpointHandler`]; null until there is one. No lock guards it: a fork would leave it
/// taken.
static BREAKPOINT_HANDLER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static CHAINED: ChainedHandler = ChainedHandler::new(libc::SIGTRAP, handle);

/// Installs the handler, unless it is installed already.
///
/// # Errors
/// The system's.
pub fn install(handler: BreakpointHandler) -> io::Result<()> {
    BREAKPOINT_HANDLER.store(handler as *mut (), Ordering::Release);
    CHAINED.install()
}

/// Returns whether the kernel still calls this handler.
pub fn is_installed() -> bool {
    action(libc::SIGTRAP).is_some_and(|action| action.handler == CHAINED.handler())
}

/// The kernel's action for a signal: `struct kernel_sigaction`.
#[repr(C)]
pub(super) struct Action {
    pub(super) handler: libc::sighandler_t,
    flags: u64,
    restorer: usize,
    pub(super) mask: u64,
}

/// Asks the kernel for a signal's action. The C library's function would hide some signals. It may
/// also be a program's own, with a probe in it that has brought this thread here.
pub(super) fn action(signal: libc::c_int) -> Option<Action> {
    let mut action = MaybeUninit::<Action>::uninit();
    let (none, len) = (ptr::null::<Action>(), size_of::<u64>());
    // SAFETY: a place for the action, as the kernel has it; nothing is changed.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, i64::from(signal), none, action.as_mut_ptr(), len) };
    // SAFETY: the call has filled it.
    (result == 0).then(|| unsafe { action.assume_init() })
}

fn breakpoint_handler() -> Option<BreakpointHandler> {
    let handler = BREAKPOINT_HANDLER.load(Ordering::Acquire);
    // SAFETY: null, or what `install` was given.
    unsafe { std::mem::transmute::<*mut (), Option<BreakpointHandler>>(handler) }
}

extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = errno();
    // SAFETY: the kernel's own structures, valid while the handler runs.
    let (code, mut registers) = unsafe { ((*info).si_code, Registers::of(context)) };
    let is_ours = |addr| breakpoint_handler().is_some_and(|handler| handler(addr));
    let is_handled = registers.breakpoint(code).is_some_and(|addr| {
        if registers.confirm_debugger_check(addr) {
            return true;
        }
        if is_ours(addr) {
            // Returning from a handler serialises: the thread fetches the instruction anew.
            registers.set_next(addr);
            return true;
        }
        // A debugger may have moved the thread back to the instruction, whose breakpoint is gone by
        // now.
        !is_behind_breakpoint(addr, registers.next()) && is_ours(registers.next())
    });
    if !is_handled {
        // SAFETY: the kernel's own structures, which this handler was given.
        unsafe { CHAINED.pass_on(info, context) };
    }
    set_errno(errno);
}

/// Returns whether there is a breakpoint at `addr`, right before the address that the thread
/// continues at.
fn is_behind_breakpoint(addr: usize, next: usize) -> bool {
    // The thread continues at `next`, which is mapped. If a page begins there, `addr` may not be.
    let is_mapped = !next.is_multiple_of(page_size());
    // SAFETY: in a page that the thread executes. All code that changes it does so by whole bytes.
    !is_mapped || unsafe { has_breakpoint(addr) }
}
