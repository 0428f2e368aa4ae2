//! Signals' actions, as the kernel has them, and the handlers that block `SIGTRAP`.
//!
//! Cost: 10 µs for all handlers' masks.

// Safety: relies on sigaction(2), as the kernel has it, which is asked and changes nothing.
#![expect(unsafe_code, reason = "see above")]

use std::mem::MaybeUninit;
use std::ptr;

use super::masks::TRAP;

/// The kernel's action for a signal: `struct kernel_sigaction`.
#[repr(C)]
pub(super) struct Action {
    pub(super) handler: libc::sighandler_t,
    flags: u64,
    restorer: usize,
    mask: u64,
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

/// Returns the signals whose handlers block `SIGTRAP` while they run, except `SIGTRAP` itself.
pub fn blocking_handlers() -> Vec<libc::c_int> {
    const LAST: libc::c_int = 64;
    let is_handled = |action: &Action| ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.handler);
    let blocks = |signal: &libc::c_int| {
        action(*signal).is_some_and(|action| is_handled(&action) && action.mask & TRAP != 0)
    };
    (1..=LAST).filter(|signal| *signal != libc::SIGTRAP).filter(blocks).collect()
}

/// Returns a signal's name.
pub fn signal_name(signal: libc::c_int) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    match usize::try_from(signal - 1).ok().and_then(|at| NAMES.get(at)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(libc::SIGPROF), "SIGPROF");
        assert_eq!(signal_name(libc::SIGSYS), "SIGSYS");
        assert_eq!((signal_name(34), signal_name(0)), ("signal 34".to_owned(), "signal 0".to_owned()));
    }
}
