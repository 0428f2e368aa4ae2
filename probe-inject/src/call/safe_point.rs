//! The point at which a thread may be hijacked.
//!
//! The called code may take the locks of the loader and of `malloc`. So the thread must hold none
//! of them. Two kinds of threads don't:
//!
//! - one that waits in a system call of a known list. Neither the loader nor `malloc` makes these,
//!   or only from its own code. The thread waits indeed: the stop has interrupted the call;
//! - one that runs outside of the libraries that have these locks, and that they have not called a
//!   moment ago: no return address among the nearest [`NEAR_BYTES`] of its stack leads there.
//!   Farther out, the loader may run initialisers. It is consistent then, and its thread may take
//!   the lock again.
//!
//! A thread that waits for a lock is of the first kind only if the program's own code has called
//! the C library's function that waits.
//!
//! Neither may be in the handler of a signal, which may have interrupted `malloc`.
//!
//! A number on the stack that only looks like a return address counts as one, but not where a
//! [`Backtrace`] tells the real ones.

use std::cell::LazyCell;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::hijack::MAX_FRAME_BYTES;
use super::restart::{
    ERESTART_RESTARTBLOCK, has_just_ended, is_restarted, may_wait_for_futex, rank, to_resume, waits_for_lock,
    with_eintr,
};
use super::unwind::Backtrace;
use crate::process::{
    Activity, Filters, Mapping, Memory, RESTART_SYSCALL, RT_SIGRETURN, Registers, SkipReason, TaskStatus,
    Tracee, TraceeState, all_allow, maps, none_ever_kills, none_kills,
};

/// The code in a process where a thread must not be hijacked.
///
/// ```
/// use probe_inject::CriticalCode;
///
/// // A function of 64 bytes that holds a lock which the call takes, too.
/// let code = CriticalCode { lock_holders: vec![0x1000..0x1040], ..Default::default() };
/// assert!(code.libraries.is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CriticalCode {
    /// Functions that hold a lock which the call needs. No near return address may lead there.
    pub lock_holders: Vec<Range<u64>>,
    /// Code in which no running thread may be hijacked.
    pub libraries: Vec<Range<u64>>,
    /// Code with locks that wait for a futex. No thread that waits for one may be hijacked if a
    /// near return address leads there.
    pub futex_users: Vec<Range<u64>>,
    /// Functions in `libraries` that wait for their caller's lock, and hold none. A thread that
    /// waits there may be hijacked if other code has called them.
    pub lock_waiters: Vec<Range<u64>>,
}

/// The bytes of the stack in which a return address is near.
const NEAR_BYTES: u64 = 512;
/// The bytes of the stack in which the frame of a signal's handler is looked for.
const HANDLER_BYTES: u64 = 64 << 10;
/// The bytes that a stack must have left below a frame.
const MIN_ROOM_BYTES: u64 = 4 << 10;
/// The selector of 64-bit code (`__USER_CS`).
const USER_CS: u64 = 0x33;
/// The time for a thread to stop, and for one with filters of system calls.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);
const FILTERED_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A thread in a system call outside of the known list.
pub const IN_UNKNOWN_CALL: &str = "is in a system call in which it may hold a lock";
/// A thread whose system call has to end first.
pub const IN_TIMED_CALL: &str =
    "waits in a system call with a limit in time, whose rest only the kernel knows";
const IN_RESTARTED_CALL: &str = "waits in a system call that a stop has interrupted before, and only the kernel knows which one, and until when";
const RESTART_FILTERED: &str = "waits in a system call with which it could not go on, as its filter of system calls (seccomp) refuses that";
const CALL_ENDED: &str = "has just made a system call";
const SIGNAL_PENDING: &str = "is about to get a signal";
const FILTERS_UNREADABLE: &str =
    "has a filter of system calls (seccomp), which might end the program; only root can read it";
const FILTERS_REFUSE: &str =
    "has a filter of system calls (seccomp), which refuses the one by which it would get memory";
const FILTERS_KILL: &str = "has a filter of system calls (seccomp), which might end the program";

/// Returns whether a reason holds for as long as the thread lives: it never loses its filters.
pub fn is_permanent(why: &str) -> bool {
    [FILTERS_UNREADABLE, FILTERS_REFUSE, FILTERS_KILL].contains(&why)
}

/// Returns whether a reason holds for a moment only, so that another one tells more.
pub fn is_momentary(why: &str) -> bool {
    [IN_TIMED_CALL, CALL_ENDED, SIGNAL_PENDING, SkipReason::NO_PROCESSOR].contains(&why)
}

/// The state of a thread that is stopped at a safe point.
pub struct SafePoint {
    /// The registers to resume it with.
    pub registers: Registers,
    /// The mask of signals that it blocks.
    pub mask: u64,
    /// Its extended state.
    pub xstate: Vec<u8>,
}

/// Finds out whether a thread is at a safe point.
pub struct Inspector<'a> {
    pub pid: u32,
    pub id: u32,
    pub memory: &'a Memory,
    pub critical: &'a CriticalCode,
    /// The memory of calls from outside.
    pub scratch: &'a [Range<u64>],
    /// The system call that the thread is to make; `None` if it may make any.
    pub syscall: Option<u32>,
    /// Filters that are known to kill a thread for no call.
    pub harmless: &'a [Filters],
    /// The time for a timed system call to end.
    pub finish_timeout: Duration,
}

/// Why a thread is not at a safe point.
pub struct Unsuitable {
    pub why: &'static str,
    /// Whether the thread is stopped, so that it can be detached.
    pub is_stopped: bool,
}

impl Unsuitable {
    fn stopped(why: &'static str) -> Self {
        Self { why, is_stopped: true }
    }

    fn running(why: &'static str) -> Self {
        Self { why, is_stopped: false }
    }

    fn gone<E>(_: E) -> Self {
        Self::running("is gone")
    }
}

impl Inspector<'_> {
    /// Stops a thread, and returns its state if it is at a safe point.
    pub fn stop(&self, tracee: &Tracee) -> Result<SafePoint, Unsuitable> {
        let check_stopped = |state, still_running: &dyn Fn() -> &'static str| match state {
            Ok(TraceeState::Stopped) => Ok(()),
            Ok(TraceeState::Ended) => Err(Unsuitable::running("has ended")),
            Ok(TraceeState::StoppedByJobControl) => Err(Unsuitable::stopped("is stopped by a signal")),
            Ok(TraceeState::LeftCall) => Err(Unsuitable::stopped("runs the handler of a signal")),
            Ok(TraceeState::StillRunning) => Err(Unsuitable::running(still_running())),
            Err(error) => Err(Unsuitable::gone(error)),
        };
        let state = stop(self.pid, self.id, tracee);
        check_stopped(state, &|| SkipReason::still_running(self.pid, self.id).text())?;
        let registers = tracee.registers().map_err(|_| Unsuitable::stopped("has registers of 32 bits"))?;
        // It may have run since it was chosen.
        let activity = Activity::at_stop(&registers);
        if rank(activity).is_none() {
            return Err(Unsuitable::stopped(IN_UNKNOWN_CALL));
        }
        if activity == Activity::Runs && within(&self.critical.libraries, registers.rip) {
            return Err(Unsuitable::stopped("runs in the C library, or where memory is allocated"));
        }
        if has_just_ended(&registers) {
            return Err(Unsuitable::stopped(CALL_ENDED));
        }
        let timed = if is_restarted(activity) { IN_RESTARTED_CALL } else { IN_TIMED_CALL };
        match to_resume(registers) {
            Some(registers) => self.inspect(tracee, registers, activity),
            None if !may_restart(self.pid, self.id, tracee) => Err(Unsuitable::stopped(RESTART_FILTERED)),
            None if self.finish_timeout.is_zero() => Err(Unsuitable::stopped(timed)),
            None => {
                // Nobody waits for the end of a call if the filters forbid what follows.
                self.check_filters(tracee)?;
                check_stopped(tracee.finish_call(self.finish_timeout), &|| timed)?;
                let registers = tracee.registers().map_err(Unsuitable::gone)?;
                let registers = to_resume(registers).ok_or(Unsuitable::stopped(timed))?;
                self.inspect(tracee, registers, activity)
            }
        }
    }

    /// Checks that the thread's filters let it live with the system call that it is to make.
    fn check_filters(&self, tracee: &Tracee) -> Result<(), Unsuitable> {
        if !has_filters(self.pid, self.id) {
            return Ok(());
        }
        let filters = tracee.filters().map_err(|_| Unsuitable::stopped(FILTERS_UNREADABLE))?;
        let is_refused = match self.syscall {
            // A hijacked thread must be able to return.
            _ if !all_allow(&filters, RT_SIGRETURN) => false,
            Some(number) if all_allow(&filters, number) => return Ok(()),
            Some(number) => none_kills(&filters, number),
            None if self.harmless.contains(&filters) || none_ever_kills(&filters) => return Ok(()),
            None => false,
        };
        Err(Unsuitable::stopped(if is_refused { FILTERS_REFUSE } else { FILTERS_KILL }))
    }

    fn inspect(
        &self,
        tracee: &Tracee,
        registers: Registers,
        activity: Activity,
    ) -> Result<SafePoint, Unsuitable> {
        let unsuitable = |why| Err(Unsuitable::stopped(why));
        let status = TaskStatus::of_thread(self.pid, self.id).unwrap_or_default();
        if status.pending_signals != 0 {
            return unsuitable(SIGNAL_PENDING);
        }
        if registers.cs != USER_CS {
            return unsuitable("runs code of 32 bits");
        }
        self.check_filters(tracee)?;
        let stack = registers.rsp;
        if within(self.scratch, stack) || within(self.scratch, registers.rip) {
            return unsuitable("makes a call from outside already");
        }
        if self.is_in_rseq(tracee, registers.rip) {
            return unsuitable("is in a sequence that must not be interrupted");
        }
        let maps = maps(self.pid).unwrap_or_default();
        let Some(mapping) = maps.iter().find(|it| it.holds(stack) && it.is_writable) else {
            return unsuitable("has no stack that can be written");
        };
        // The end of another stack is unknown: of a coroutine's, or of a handler's own one. The C
        // library keeps a thread's descriptor above its stack.
        let is_own =
            mapping.name == "[stack]" || (mapping.holds(registers.fs_base) && stack < registers.fs_base);
        if !is_own {
            return unsuitable("runs on a stack that is not its thread's");
        }
        if stack - mapping.start < MAX_FRAME_BYTES + MIN_ROOM_BYTES {
            return unsuitable("has too little room on its stack");
        }
        let words = self.stack_words(mapping, stack);
        let backtrace = LazyCell::new(|| {
            let is_return = |address| follows_call(self.memory, address);
            Backtrace::of(self.memory, &maps, &registers, is_return, |address| self.is_restorer(address))
        });
        let may_be_live = |at: usize| backtrace.may_be_live((stack & !7) + 8 * at as u64);
        let is_handler = |at: usize| {
            is_handler_frame(&words[at..], stack) && self.is_restorer(words[at]) && may_be_live(at)
        };
        if (0..words.len()).any(is_handler) {
            return unsuitable("is in the handler of a signal");
        }
        let near = words.len().min(usize::try_from(NEAR_BYTES / 8).unwrap_or(usize::MAX));
        let returns_to = |ranges: &[Range<u64>]| {
            let leads = |at: usize| within(ranges, words[at]) && follows_call(self.memory, words[at]);
            (0..near).any(|at| leads(at) && may_be_live(at))
        };
        let holds_lock = match activity {
            Activity::InSyscall(_) if !waits_for_lock(activity) => {
                within(&self.critical.lock_holders, registers.rip)
            }
            _ => returns_to(&self.critical.lock_holders),
        };
        if holds_lock {
            return unsuitable("may hold a lock of the loader, or of malloc");
        }
        if waits_for_lock(activity) && !self.waits_for_callers_lock(registers.rip, &backtrace) {
            return unsuitable("waits for a lock that may be one of the C library");
        }
        if may_wait_for_futex(activity) && returns_to(&self.critical.futex_users) {
            return unsuitable("may wait for a lock of the runtime, or hold one");
        }
        let mask = tracee.mask().map_err(Unsuitable::gone)?;
        let xstate = tracee.xstate().map_err(Unsuitable::gone)?;
        Ok(SafePoint { registers, mask, xstate })
    }

    /// Returns whether a thread waits for a lock outside of the libraries, or in a function of
    /// theirs that waits for its caller's lock.
    fn waits_for_callers_lock(&self, instruction: u64, backtrace: &Backtrace) -> bool {
        let mut callee = instruction;
        let callers = backtrace.returns.iter().map(|it| it.address - 1);
        for caller in [instruction].into_iter().chain(callers) {
            if !within(&self.critical.libraries, caller) {
                return caller == instruction || within(&self.critical.lock_waiters, callee);
            }
            callee = caller;
        }
        false
    }

    fn stack_words(&self, mapping: &Mapping, stack: u64) -> Vec<u64> {
        let begin = stack & !7;
        let length = usize::try_from((mapping.end - begin).min(HANDLER_BYTES)).unwrap_or(0);
        let bytes = self.memory.bytes(begin, length).unwrap_or_default();
        bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default())).collect()
    }

    /// Returns whether code at an address returns from a signal's handler.
    fn is_restorer(&self, address: u64) -> bool {
        /// `mov rax, 15` or `mov eax, 15`, and `syscall`.
        const FORMS: [&[u8]; 2] = [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"];
        FORMS.iter().any(|form| self.memory.bytes(address, form.len()).is_ok_and(|it| it == *form))
    }

    /// Returns whether a thread is in a restartable sequence (rseq(2)). After a stop, the kernel
    /// aborts the sequence only if the thread resumes inside of it.
    fn is_in_rseq(&self, tracee: &Tracee, at: u64) -> bool {
        let Some(sequence) = tracee.rseq().and_then(|it| self.memory.word(it + 8).ok()) else {
            return false;
        };
        if sequence == 0 {
            return false;
        }
        let word = |offset: u64| self.memory.word(sequence + offset).ok();
        let (Some(start), Some(length)) = (word(8), word(16)) else { return true };
        at.wrapping_sub(start) < length
    }
}

fn within(ranges: &[Range<u64>], address: u64) -> bool {
    ranges.iter().any(|it| it.contains(&address))
}

/// Stops a thread. One with filters of system calls gets more time, unless it waits
/// uninterruptibly: it stops as soon as it has a processor. If it were left before, the kernel
/// would continue its call by another one, for which the filters may end the program.
pub fn stop(pid: u32, id: u32, tracee: &Tracee) -> io::Result<TraceeState> {
    let begun = Instant::now();
    loop {
        let state = tracee.stop(STOP_TIMEOUT)?;
        let has_more_time = || {
            begun.elapsed() < FILTERED_STOP_TIMEOUT
                && has_filters(pid, id)
                && SkipReason::still_running(pid, id) != SkipReason::Uninterruptible
        };
        if state != TraceeState::StillRunning || !has_more_time() {
            return Ok(state);
        }
    }
}

/// Sets the registers of a thread that was stopped for nothing, where the kernel alone would not
/// resume it well:
///
/// - `epoll_wait` without a limit is restarted, and so is each call that loses nothing by it. The
///   kernel would continue it by `restart_syscall`, which does not tell which call it was;
/// - a call with a limit is continued by `restart_syscall`. If the thread's filters may refuse
///   that, the call returns `EINTR`.
pub fn prepare_detach(pid: u32, id: u32, tracee: &Tracee) {
    let Ok(registers) = tracee.registers() else { return };
    let result = registers.rax.cast_signed();
    let may_get_signal = || TaskStatus::of_thread(pid, id).is_none_or(|it| it.pending_signals != 0);
    let changed = if result == -i64::from(libc::EINTR) && !may_get_signal() {
        to_resume(registers).filter(|it| it.rip != registers.rip)
    } else if result == ERESTART_RESTARTBLOCK {
        let restarted = to_resume(registers);
        if restarted.is_some() && !may_get_signal() {
            restarted
        } else {
            (!may_restart(pid, id, tracee)).then(|| restarted.unwrap_or_else(|| with_eintr(registers)))
        }
    } else {
        None
    };
    if let Some(changed) = changed {
        // If this fails, the kernel restarts the call as after any ptrace stop.
        let _ = tracee.set_registers(&changed);
    }
}

/// Returns whether a thread may have filters of system calls.
pub fn has_filters(pid: u32, id: u32) -> bool {
    TaskStatus::of_thread(pid, id).is_none_or(|it| it.is_filtered)
}

/// Returns whether the kernel may continue a thread's timed call: no filter refuses the system call
/// that it makes for that.
fn may_restart(pid: u32, id: u32, tracee: &Tracee) -> bool {
    !has_filters(pid, id) || tracee.filters().is_ok_and(|it| all_allow(&it, RESTART_SYSCALL))
}

/// Returns whether words that begin with a restorer's address are the frame of a handler. The C
/// library's `sigaction` leaves such an address behind, too.
fn is_handler_frame(words: &[u64], stack: u64) -> bool {
    const FLAGS: usize = 1;
    const SEGMENTS: usize = 24;
    const XSTATE: usize = 29;
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let is_near = (stack..stack + HANDLER_BYTES + MAX_FRAME_BYTES).contains(&word(XSTATE));
    word(FLAGS) <= 7 && word(SEGMENTS) & 0xffff == USER_CS && (is_near || word(XSTATE) == 0)
}

/// Returns whether a call instruction ends at an address.
fn follows_call(memory: &Memory, address: u64) -> bool {
    memory.bytes(address.wrapping_sub(7), 7).is_ok_and(|bytes| ends_with_call(&bytes))
}

/// Returns whether bytes end with a call of a relative address, or through a register or memory.
fn ends_with_call(bytes: &[u8]) -> bool {
    let from_end = |length: usize| &bytes[bytes.len() - length..];
    let is_indirect = |length: usize| matches!(from_end(length), [0xff, kind, ..] if kind >> 3 & 7 == 2);
    from_end(5)[0] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_more_than_an_address() {
        let mut words = [0; 40];
        words[0] = 0xabc;
        assert!(!is_handler_frame(&words, 0x7000), "as `sigaction` leaves it");
        (words[1], words[24], words[29]) = (7, 0x2b << 48 | 0x33, 0x7200);
        assert!(is_handler_frame(&words, 0x7000));
        assert!(!is_handler_frame(&words, 0x10_0000));
        assert!(!is_handler_frame(&words[..20], 0x7000));
    }

    #[test]
    fn calls_have_several_forms() {
        assert!(ends_with_call(b"\0\0\xe8\x01\x02\x03\x04"));
        assert!(ends_with_call(b"\0\0\0\0\0\xff\xd0"), "call rax");
        assert!(ends_with_call(b"\0\0\0\0\xff\x50\x30"), "call [rax + 48]");
        assert!(ends_with_call(b"\0\xff\x15\x01\x02\x03\x04"), "call [rip + …]");
        assert!(!ends_with_call(b"\0\xe8\x01\x02\x03\x04\x90"));
        assert!(!ends_with_call(b"\0\0\0\0\0\xff\xe0"), "jmp rax");
    }
}
