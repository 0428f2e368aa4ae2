//! The moment at which a thread may be led to other code.
//!
//! The code that is called may take the locks of the loader and of `malloc`. So the thread must
//! hold none of them. Two kinds of threads don't:
//!
//! - one that waits in a system call of a known list, which neither the loader nor `malloc` makes,
//!   or makes from its own code. It waits indeed: the stop has interrupted the call;
//! - one that runs outside of the libraries that have these locks, and that they have not called a
//!   moment ago: no return address that is [`NEAR`] on its stack leads there. Farther out, the
//!   loader may run initialisers. It is consistent then, and its thread may take the lock again.
//!
//! A thread that waits for a lock is of the first kind only if the program's own code has called
//! the function of the C library that waits.
//!
//! Neither may be in the handler of a signal, which may have interrupted `malloc`.
//!
//! A number on the stack that only looks like a return address counts as one as far as the objects'
//! tables don't tell where the return addresses are ([`Walk`]).

use std::cell::LazyCell;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::restart::{
    RESTARTS_WITH_BLOCK, has_ended, interrupted, is_futex, is_lock, is_restarted, rank, resumed,
};
use super::signal_frame::MOST;
use super::unwind::Walk;
use crate::memory::Memory;
use crate::process::{
    Activity, Filters, Mapping, RESTART, RETURN, Reason, Registers, Status, Stopped, Thread, all_survive,
    maps, passes, survives,
};

/// The places in a process where a thread must not be interrupted.
///
/// ```
/// // A function of 64 bytes that holds a lock which the call takes, too.
/// let places = probe_inject::Places { locked: vec![0x1000..0x1040], ..Default::default() };
/// assert!(places.code.is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Places {
    /// Functions with a lock that the call needs: no near return address may lead there.
    pub locked: Vec<Range<u64>>,
    /// Code whose threads must not be taken while they run.
    pub code: Vec<Range<u64>>,
    /// Code with locks that wait by a futex: no thread may be taken that waits so, with a near
    /// return address there.
    pub waits: Vec<Range<u64>>,
    /// Functions in `code` that wait for a lock of their caller's, and hold none: a thread may be
    /// taken that waits so, if other code has called them.
    pub rests: Vec<Range<u64>>,
}

/// Bytes of the stack that are looked at.
const NEAR: u64 = 512;
/// The same, for the frame of a signal's handler.
const NEAR_HANDLER: u64 = 64 << 10;
/// Bytes that a stack must have left, below a frame.
const ROOM: u64 = 4 << 10;
/// Selector of 64-bit code.
const CODE_64: u64 = 0x33;
/// Time for a thread to stop.
const STOP: Duration = Duration::from_millis(100);
/// Time for one with filters of system calls.
const STOP_OF_FILTERED: Duration = Duration::from_secs(10);

/// Said of a thread in a system call that is not of the known list.
pub const BUSY: &str = "is in a system call in which it may hold a lock";
/// Said of one whose system call has to end first.
pub const LIMITED: &str = "waits in a system call with a limit in time, whose rest only the kernel knows";
/// The same, of a call that is not known.
const RESTARTED: &str = "waits in a system call that a stop has interrupted before, and only the kernel knows which one, and until when";
const NO_RESTART: &str = "waits in a system call with which it could not go on, as its filter of system calls (seccomp) refuses that";
const ENDED: &str = "has just made a system call";
const TOLD: &str = "is about to get a signal";

/// Said of threads with filters. A thread never gets rid of one.
const UNREAD: &str =
    "has a filter of system calls (seccomp), which might end the program; only root can read it";
const REFUSED: &str =
    "has a filter of system calls (seccomp), which refuses the one by which it would get memory";
const DEADLY: &str = "has a filter of system calls (seccomp), which might end the program";

/// Returns whether a reason holds for as long as the thread lives.
pub fn is_lasting(why: &str) -> bool {
    [UNREAD, REFUSED, DEADLY].contains(&why)
}

/// Returns whether a reason holds for a moment only, so that another one tells more.
pub fn is_passing(why: &str) -> bool {
    [LIMITED, ENDED, TOLD, Reason::NO_PROCESSOR].contains(&why)
}

/// A stopped thread in a suitable place.
pub struct Moment {
    /// The registers with which it is to go on.
    pub registers: Registers,
    /// The signals that it blocks.
    pub mask: u64,
    /// Its extended state.
    pub extended: Vec<u8>,
}

/// A thread that is looked at.
pub struct Look<'a> {
    pub pid: u32,
    pub id: u32,
    pub memory: &'a Memory,
    pub places: &'a Places,
    /// Memory of calls from outside.
    pub scratch: &'a [Range<u64>],
    /// The system call that the thread is to make; `None` if it may make any.
    pub makes: Option<u32>,
    /// Filters that let a thread live whatever call it makes.
    pub judged: &'a [Filters],
    /// Time for a call with a limit to end.
    pub later: Duration,
}

/// The reason why a thread is not suitable at this moment. `false` with it: it can't be let go.
pub struct NotNow(pub &'static str, pub bool);

impl Look<'_> {
    /// Stops a thread, and returns it if it is in a suitable place. If not, it is to be let go.
    pub fn stop(&self, thread: &Thread) -> Result<Moment, NotNow> {
        let here = |stopped, not_yet: &dyn Fn() -> &'static str| match stopped {
            Ok(Stopped::Here) => Ok(()),
            Ok(Stopped::Ended) => Err(NotNow("has ended", false)),
            Ok(Stopped::ByJobControl) => Err(NotNow("is stopped by a signal", true)),
            Ok(Stopped::Elsewhere) => Err(NotNow("runs the handler of a signal", true)),
            Ok(Stopped::NotYet) => Err(NotNow(not_yet(), false)),
            Err(_) => Err(NotNow("is gone", false)),
        };
        here(stop(self.pid, self.id, thread), &|| Reason::not_stopped(self.pid, self.id).text())?;
        let registers = thread.registers().map_err(|_| NotNow("has registers of 32 bits", true))?;
        // It may have gone on since it was chosen.
        let activity = Activity::of(&registers);
        if rank(activity).is_none() {
            return Err(NotNow(BUSY, true));
        }
        if activity == Activity::Runs && self.places.code.iter().any(|it| it.contains(&registers.rip)) {
            return Err(NotNow("runs in the C library, or where memory is allocated", true));
        }
        if has_ended(&registers) {
            return Err(NotNow(ENDED, true));
        }
        let limited = if is_restarted(activity) { RESTARTED } else { LIMITED };
        match resumed(registers) {
            Some(registers) => self.judge(thread, registers, activity),
            None if !goes_on(self.pid, self.id, thread) => Err(NotNow(NO_RESTART, true)),
            None if self.later.is_zero() => Err(NotNow(limited, true)),
            None => {
                // Before its end is waited for.
                self.check_filters(thread)?;
                here(thread.finish_call(self.later), &|| limited)?;
                let registers = thread.registers().map_err(|_| NotNow("is gone", false))?;
                match resumed(registers) {
                    Some(registers) => self.judge(thread, registers, activity),
                    None => Err(NotNow(limited, true)),
                }
            }
        }
    }

    /// Checks that the thread's filters, if it has some, let it live with the call that it is to
    /// make.
    fn check_filters(&self, thread: &Thread) -> Result<(), NotNow> {
        if !is_filtered(self.pid, self.id) {
            return Ok(());
        }
        let filters = thread.filters().map_err(|_| NotNow(UNREAD, true))?;
        let is_refused = match self.makes {
            // Nobody goes on from a handler that can't return.
            _ if !passes(&filters, RETURN) => false,
            Some(number) if passes(&filters, number) => return Ok(()),
            Some(number) => survives(&filters, number),
            None if self.judged.contains(&filters) || all_survive(&filters) => return Ok(()),
            None => false,
        };
        Err(NotNow(if is_refused { REFUSED } else { DEADLY }, true))
    }

    fn judge(&self, thread: &Thread, registers: Registers, activity: Activity) -> Result<Moment, NotNow> {
        let not = |why| Err(NotNow(why, true));
        let status = Status::of_thread(self.pid, self.id).unwrap_or_default();
        if status.signals != 0 {
            return not(TOLD);
        }
        if registers.cs != CODE_64 {
            return not("runs code of 32 bits");
        }
        self.check_filters(thread)?;
        let stack = registers.rsp;
        let within = |ranges: &[Range<u64>], address: u64| ranges.iter().any(|it| it.contains(&address));
        if within(self.scratch, stack) || within(self.scratch, registers.rip) {
            return not("makes a call from outside already");
        }
        if self.is_restartable(thread, registers.rip) {
            return not("is in a sequence that must not be interrupted");
        }
        let maps = maps(self.pid).unwrap_or_default();
        let Some(mapping) = maps.iter().find(|it| it.holds(stack) && it.is_writable) else {
            return not("has no stack that can be written");
        };
        // The end of another stack is not known: of a coroutine's, or of a handler's own one. The C
        // library keeps a thread's descriptor above its stack.
        let is_own =
            mapping.name == "[stack]" || (mapping.holds(registers.fs_base) && stack < registers.fs_base);
        if !is_own {
            return not("runs on a stack that is not its thread's");
        }
        if stack - mapping.start < MOST + ROOM {
            return not("has too little room on its stack");
        }
        let words = self.words(mapping, stack, NEAR_HANDLER);
        let walk = LazyCell::new(|| {
            let is_return = |address| follows_call(self.memory, address);
            Walk::of(self.memory, &maps, &registers, is_return, |address| self.is_restorer(address))
        });
        let is_live = |at: usize| walk.is_live((stack & !7) + 8 * at as u64);
        let is_handler =
            |at: usize| is_frame(&words[at..], stack) && self.is_restorer(words[at]) && is_live(at);
        if (0..words.len()).any(is_handler) {
            return not("is in the handler of a signal");
        }
        let near = words.len().min(usize::try_from(NEAR / 8).unwrap_or(usize::MAX));
        let returns_to = |ranges: &[Range<u64>]| {
            let leads = |at: usize| within(ranges, words[at]) && follows_call(self.memory, words[at]);
            (0..near).any(|at| leads(at) && is_live(at))
        };
        let is_locked = match activity {
            Activity::In(_) if !is_lock(activity) => within(&self.places.locked, registers.rip),
            _ => returns_to(&self.places.locked),
        };
        if is_locked {
            return not("may hold a lock of the loader, or of malloc");
        }
        if is_lock(activity) && !self.rests(registers.rip, &walk) {
            return not("waits for a lock that may be one of the C library");
        }
        if is_futex(activity) && returns_to(&self.places.waits) {
            return not("may wait for a lock of the runtime, or hold one");
        }
        let gone = |_| NotNow("is gone", false);
        let (mask, extended) = (thread.mask().map_err(gone)?, thread.extended().map_err(gone)?);
        Ok(Moment { registers, mask, extended })
    }

    /// Returns whether a thread that waits for a lock does so outside of code with locks, or in a
    /// function of those that wait for their callers.
    fn rests(&self, at: u64, walk: &Walk) -> bool {
        let within = |ranges: &[Range<u64>], address: u64| ranges.iter().any(|it| it.contains(&address));
        let mut inner = at;
        for outer in [at].into_iter().chain(walk.returns.iter().map(|it| it.to - 1)) {
            if !within(&self.places.code, outer) {
                return outer == at || within(&self.places.rests, inner);
            }
            inner = outer;
        }
        false
    }

    fn words(&self, mapping: &Mapping, stack: u64, most: u64) -> Vec<u64> {
        let begin = stack & !7;
        let length = usize::try_from((mapping.end - begin).min(most)).unwrap_or(0);
        let bytes = self.memory.bytes(begin, length).unwrap_or_default();
        bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default())).collect()
    }

    /// Returns whether code at an address returns from a signal's handler.
    fn is_restorer(&self, address: u64) -> bool {
        /// `mov rax, 15` or `mov eax, 15`, and `syscall`.
        const FORMS: [&[u8]; 2] = [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"];
        FORMS.iter().any(|form| self.memory.bytes(address, form.len()).is_ok_and(|it| it == *form))
    }

    /// Returns whether a thread is in a restartable sequence (rseq(2)). A stop has told the kernel
    /// to leave the sequence only if the thread goes on there.
    fn is_restartable(&self, thread: &Thread, at: u64) -> bool {
        let Some(sequence) = thread.restartable().and_then(|it| self.memory.word(it + 8).ok()) else {
            return false;
        };
        if sequence == 0 {
            return false;
        }
        let word = |place: u64| self.memory.word(sequence + place).ok();
        let (Some(start), Some(length)) = (word(8), word(16)) else { return true };
        at.wrapping_sub(start) < length
    }
}

/// Stops a thread. One with filters of system calls is given more time, unless it waits
/// uninterruptibly: it stops as soon as it has a processor. If it is left before, the kernel goes
/// on with its call in a way that the filters may end the program for.
pub fn stop(pid: u32, id: u32, thread: &Thread) -> io::Result<Stopped> {
    let begun = Instant::now();
    loop {
        let stopped = thread.stop(STOP)?;
        let waits_on = || {
            begun.elapsed() < STOP_OF_FILTERED
                && is_filtered(pid, id)
                && Reason::not_stopped(pid, id) != Reason::Sleeps
        };
        if stopped != Stopped::NotYet || !waits_on() {
            return Ok(stopped);
        }
    }
}

/// Prepares a thread to go on that was stopped for nothing, where the kernel alone would not do:
///
/// - `epoll_wait` without a limit makes its call again, and so does each thread that loses nothing
///   by it: for the kernel alone, it would be in another system call, which does not tell which one
///   it was;
/// - a call with a limit goes on by another system call. If the thread's filters may refuse that,
///   it returns `EINTR`.
pub fn repeat(pid: u32, id: u32, thread: &Thread) {
    let Ok(registers) = thread.registers() else { return };
    let result = registers.rax.cast_signed();
    let is_told = || Status::of_thread(pid, id).is_none_or(|it| it.signals != 0);
    let again = if result == -i64::from(libc::EINTR) && !is_told() {
        resumed(registers).filter(|it| it.rip != registers.rip)
    } else if result == RESTARTS_WITH_BLOCK {
        let resumed = resumed(registers);
        if resumed.is_some() && !is_told() {
            resumed
        } else {
            (!goes_on(pid, id, thread)).then(|| resumed.unwrap_or_else(|| interrupted(registers)))
        }
    } else {
        None
    };
    if let Some(again) = again {
        // It goes on as under any tracer otherwise.
        let _ = thread.set_registers(&again);
    }
}

/// Returns whether a thread may have filters of system calls.
pub fn is_filtered(pid: u32, id: u32) -> bool {
    Status::of_thread(pid, id).is_none_or(|it| it.is_filtered)
}

/// Returns whether the kernel may go on with a thread's call that has a limit: no filter refuses
/// the system call that it makes for that.
fn goes_on(pid: u32, id: u32, thread: &Thread) -> bool {
    !is_filtered(pid, id) || thread.filters().is_ok_and(|it| passes(&it, RESTART))
}

/// Returns whether words that begin with a restorer's address are the frame of a handler.
/// `sigaction` of the C library leaves such an address behind, too.
fn is_frame(words: &[u64], stack: u64) -> bool {
    const FLAGS: usize = 1;
    const SEGMENTS: usize = 24;
    const EXTENDED: usize = 29;
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let is_near = (stack..stack + NEAR_HANDLER + MOST).contains(&word(EXTENDED));
    word(FLAGS) <= 7 && word(SEGMENTS) & 0xffff == CODE_64 && (is_near || word(EXTENDED) == 0)
}

/// Returns whether a call's instruction ends at an address.
fn follows_call(memory: &Memory, address: u64) -> bool {
    let Ok(bytes) = memory.bytes(address.wrapping_sub(7), 7) else { return false };
    ends_with_call(&bytes)
}

/// A call of a relative address, or through a register or memory.
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
        assert!(!is_frame(&words, 0x7000), "as `sigaction` leaves it");
        (words[1], words[24], words[29]) = (7, 0x2b << 48 | 0x33, 0x7200);
        assert!(is_frame(&words, 0x7000));
        assert!(!is_frame(&words, 0x10_0000));
        assert!(!is_frame(&words[..20], 0x7000));
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
