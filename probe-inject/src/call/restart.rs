//! The registers with which a thread resumes after a call from outside (pure).
//!
//! A stop interrupts a system call. The kernel restarts it when the thread resumes, unless a
//! handler of a signal runs; after one, that depends on the handler. Here no handler of the
//! program's runs. So the thread restarts the call in each case where this loses nothing.
//!
//! | result at the stop | the kernel, without a handler | here |
//! |---|---|---|
//! | none: in user space | resumes | resumes |
//! | −512, −513, −514 | restarts the call | restarts the call |
//! | −516: a time limit in the kernel's memory, which `rt_sigreturn` forgets | continues with the rest of the time | restarts the call if it has no limit, or one that is a point in time (futex), or if the kernel has written the rest over the limit; else waits for its end |
//! | −4 (`EINTR`) from epoll and `sigwaitinfo` without a limit | returns it | restarts the call |
//! | −4 from these with a limit, and from a socket with one (`SO_RCVTIMEO`) | returns it | returns it |
//! | another one: the call has ended | returns it | the thread is not taken |

use crate::process::{Activity, Registers, Syscall};

/// Results of system calls that a signal has interrupted. Only a tracer sees those below −500.
const EINTR: i64 = -4;
/// `ERESTARTSYS`, `ERESTARTNOINTR` and `ERESTARTNOHAND`.
const ERESTART: [i64; 3] = [-512, -513, -514];
/// The result of a call whose limit only the kernel knows.
pub const ERESTART_RESTARTBLOCK: i64 = -516;
/// The bytes of the instruction `syscall`.
const SYSCALL_BYTES: u64 = 2;

/// The suitability of a thread, by the system call in which it waits. The first is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// The call can be restarted.
    Waits,
    /// The same, but a socket may have a limit, which the arguments don't tell. The call returns
    /// `EINTR` then.
    Reads,
    /// It runs in user space.
    Runs,
    /// It waits for a lock. Its frames must tell that this is one of the program's.
    Locks,
    /// The call has a time limit, and nobody knows the rest. So it must end first, or return
    /// `EINTR`.
    Limited,
}

/// Returns how suitable a thread is. `None` for one in a system call outside of the known list: a
/// library may make such a call while it holds a lock.
pub fn rank(activity: Activity) -> Option<Rank> {
    let Syscall { number, arguments } = match activity {
        Activity::Runs => return Some(Rank::Runs),
        Activity::Unknown => return None,
        Activity::InSyscall(call) => call,
    };
    let known = match number {
        libc::SYS_read | libc::SYS_accept | libc::SYS_accept4 | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            return Some(Rank::Reads);
        }
        libc::SYS_select
        | libc::SYS_pause
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_rt_sigsuspend
        | libc::SYS_pselect6
        | libc::SYS_ppoll => true,
        libc::SYS_restart_syscall => return Some(Rank::Limited),
        libc::SYS_futex if futex_operation(arguments) == FUTEX_WAIT => {
            return Some(if can_restart(number, arguments) { Rank::Locks } else { Rank::Limited });
        }
        libc::SYS_futex if futex_operation(arguments) != FUTEX_WAIT_BITSET => return None,
        libc::SYS_futex
        | libc::SYS_rt_sigtimedwait
        | libc::SYS_poll
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2 => can_restart(number, arguments),
        _ => return None,
    };
    Some(if known { Rank::Waits } else { Rank::Limited })
}

/// Returns whether a thread waits for a futex, or may do so.
pub fn may_wait_for_futex(activity: Activity) -> bool {
    matches!(
        activity,
        Activity::InSyscall(Syscall { number: libc::SYS_futex | libc::SYS_restart_syscall, .. })
    )
}

/// Returns whether a thread continues a call that an earlier stop has interrupted. The kernel no
/// longer tells which call that is.
pub fn is_restarted(activity: Activity) -> bool {
    matches!(activity, Activity::InSyscall(Syscall { number: libc::SYS_restart_syscall, .. }))
}

/// Returns whether a thread waits for a futex as locks do: those of the C library, and others.
pub fn waits_for_lock(activity: Activity) -> bool {
    let Activity::InSyscall(Syscall { number: libc::SYS_futex, arguments }) = activity else { return false };
    futex_operation(arguments) == FUTEX_WAIT
}

/// The C library's locks wait so, and others.
const FUTEX_WAIT: u64 = 0;
/// The C library's conditions, semaphores and joins wait so, and the locks of Rust's.
const FUTEX_WAIT_BITSET: u64 = 9;

/// Returns a futex's operation.
fn futex_operation(arguments: [u64; 6]) -> u64 {
    arguments[1] & 0x7f
}

/// Returns whether a call has no time limit, or one that the kernel replaces by the rest.
fn can_restart(number: i64, arguments: [u64; 6]) -> bool {
    let is_negative = |argument: u64| argument >> 31 & 1 == 1;
    match number {
        // The limit of `FUTEX_WAIT_BITSET` is a point in time, that of `FUTEX_WAIT` a span.
        libc::SYS_futex => futex_operation(arguments) == FUTEX_WAIT_BITSET || arguments[3] == 0,
        libc::SYS_rt_sigtimedwait => arguments[2] == 0,
        libc::SYS_poll => is_negative(arguments[2]),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => is_negative(arguments[3]),
        libc::SYS_epoll_pwait2 => arguments[3] == 0,
        libc::SYS_nanosleep => arguments[0] == arguments[1],
        // With `TIMER_ABSTIME` the limit is a point in time.
        libc::SYS_clock_nanosleep => arguments[1] & 1 == 1 || arguments[2] == arguments[3],
        _ => false,
    }
}

/// Returns whether a thread was stopped at the end of a system call that nothing has interrupted.
pub fn has_just_ended(registers: &Registers) -> bool {
    let result = registers.rax.cast_signed();
    Activity::at_stop(registers) != Activity::Runs
        && ![EINTR, ERESTART_RESTARTBLOCK].contains(&result)
        && !ERESTART.contains(&result)
}

/// Given a thread's registers at a stop, returns those to resume it with. `None` if its system call
/// must end first.
pub fn to_resume(registers: Registers) -> Option<Registers> {
    let Activity::InSyscall(Syscall { number: call, arguments }) = Activity::at_stop(&registers) else {
        return Some(registers);
    };
    let at_syscall = registers.rip.wrapping_sub(SYSCALL_BYTES);
    let restarted = Registers { rip: at_syscall, rax: call.cast_unsigned(), orig_rax: u64::MAX, ..registers };
    let is_never_restarted_by_kernel =
        [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_rt_sigtimedwait]
            .contains(&call);
    match registers.rax.cast_signed() {
        result if ERESTART.contains(&result) => Some(restarted),
        ERESTART_RESTARTBLOCK if can_restart(call, arguments) => Some(restarted),
        ERESTART_RESTARTBLOCK => None,
        EINTR if is_never_restarted_by_kernel && can_restart(call, arguments) => Some(restarted),
        _ => Some(Registers { orig_rax: u64::MAX, ..registers }),
    }
}

/// Returns the registers with which a thread's call returns `EINTR`.
pub fn with_eintr(registers: Registers) -> Registers {
    Registers { rax: EINTR.cast_unsigned(), orig_rax: u64::MAX, ..registers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::zeroed_registers;

    fn stopped(call: i64, result: i64, arguments: [u64; 6]) -> Registers {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let (orig_rax, rax) = (call.cast_unsigned(), result.cast_unsigned());
        let rip = 0x1002;
        Registers { rip, orig_rax, rax, rdi, rsi, rdx, r10, r8, r9, ..zeroed_registers() }
    }

    fn assert_same(one: Registers, other: Registers) {
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }

    /// Returns `true` for a call that is restarted, `false` for a result that is returned.
    fn is_restarted(call: i64, result: i64, arguments: [u64; 6]) -> Option<bool> {
        let before = stopped(call, result, arguments);
        match to_resume(before) {
            None => None,
            Some(it) if it.rip == 0x1000 => {
                assert_same(
                    it,
                    Registers { rip: 0x1000, rax: before.orig_rax, orig_rax: u64::MAX, ..before },
                );
                Some(true)
            }
            Some(it) => {
                assert_same(it, Registers { orig_rax: u64::MAX, ..before });
                Some(false)
            }
        }
    }

    #[test]
    fn a_call_is_restarted_where_that_loses_nothing() {
        const NONE: [u64; 6] = [0; 6];
        let minus = u64::from(u32::MAX);
        assert_eq!(is_restarted(-1, 5, NONE), Some(false), "user code, whatever its registers");
        assert_eq!(is_restarted(-1, -512, NONE), Some(false));
        assert_eq!([-512, -513, -514].map(|it| is_restarted(0, it, NONE)), [Some(true); 3]);
        assert_eq!([0, 7, -4, -11].map(|it| is_restarted(0, it, NONE)), [Some(false); 4]);
        assert_eq!(is_restarted(7, -516, [9, 1, minus, 0, 0, 0]), Some(true), "poll without a limit");
        assert_eq!(is_restarted(7, -516, [9, 1, 100, 0, 0, 0]), None);
        assert_eq!(is_restarted(35, -516, [64, 64, 0, 0, 0, 0]), Some(true), "the rest is in its place");
        assert_eq!(is_restarted(35, -516, [64, 80, 0, 0, 0, 0]), None);
        assert_eq!(is_restarted(230, -516, [0, 0, 64, 64, 0, 0]), Some(true));
        assert_eq!(is_restarted(230, -516, [0, 0, 64, 0, 0, 0]), None);
        assert_eq!(is_restarted(202, -516, [64, 137, 1, 80, 0, 0]), Some(true), "a futex's point in time");
        assert_eq!(is_restarted(202, -516, [64, 128, 1, 80, 0, 0]), None, "a futex, for a time");
        assert_eq!(is_restarted(128, -4, [64, 80, 0, 8, 0, 0]), Some(true), "sigwaitinfo");
        assert_eq!(is_restarted(128, -4, [64, 80, 96, 8, 0, 0]), Some(false), "sigtimedwait");
        assert_eq!(is_restarted(45, -4, NONE), Some(false), "a socket with a limit");
        assert_eq!(is_restarted(232, -4, [5, 64, 1, minus, 0, 0]), Some(true));
        assert_eq!(is_restarted(232, -4, [5, 64, 1, 100, 0, 0]), Some(false), "its end is not known");
        assert_eq!(is_restarted(441, -4, NONE), Some(true));
    }

    #[test]
    fn calls_have_ranks() {
        let of = |number, arguments| rank(Activity::InSyscall(Syscall { number, arguments }));
        let limited = Some(Rank::Limited);
        assert_eq!(rank(Activity::Runs), Some(Rank::Runs));
        assert_eq!([0, 43, 45, 47, 288].map(|it| of(it, [0; 6])), [Some(Rank::Reads); 5]);
        assert_eq!([61, 34, 271, 128].map(|it| of(it, [0; 6])), [Some(Rank::Waits); 4]);
        assert_eq!(
            [1, 9, 56, 58, 257].map(|it| of(it, [0; 6])),
            [None; 5],
            "write, mmap, clone, vfork, openat"
        );
        assert_eq!(of(202, [64, 137, 0, 0, 0, 0]), Some(Rank::Waits));
        assert_eq!(of(202, [64, 137, 0, 80, 0, 0]), Some(Rank::Waits), "until a point in time");
        assert_eq!(of(128, [64, 80, 96, 8, 0, 0]), limited);
        assert_eq!(of(202, [64, 129, 0, 0, 0, 0]), None, "it wakes others");
        assert_eq!(of(202, [64, 128, 2, 0, 0, 0]), Some(Rank::Locks));
        assert_eq!(of(202, [64, 128, 2, 80, 0, 0]), limited, "a lock, for a span of time");
        assert_eq!(of(219, [64, 0, 0, 0, 0, 0]), limited, "one of these calls, after a stop");
        assert!(Rank::Runs < Rank::Locks && Rank::Locks < Rank::Limited);
        assert_eq!(of(7, [9, 1, 100, 0, 0, 0]), limited);
        assert_eq!(of(232, [5, 64, 1, u64::MAX, 0, 0]), Some(Rank::Waits));
        assert_eq!(of(230, [0, 1, 64, 0, 0, 0]), Some(Rank::Waits), "until a point in time");
        assert!([Rank::Waits, Rank::Reads, Rank::Runs, Rank::Limited].is_sorted());
    }

    #[test]
    fn a_call_that_nothing_has_interrupted_has_just_ended() {
        let has = |result| has_just_ended(&stopped(0, result, [0; 6]));
        assert_eq!([0, 7, -11].map(has), [true; 3]);
        assert_eq!([-4, -512, -513, -514, -516].map(has), [false; 5]);
        assert!(!has_just_ended(&stopped(-1, 7, [0; 6])), "it runs");
    }
}
