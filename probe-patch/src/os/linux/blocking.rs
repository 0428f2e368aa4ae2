//! Finds the obstacles to a trap: the threads that block `SIGTRAP`, by `/proc`, the handlers that
//! block it while they run, and a debugger, which may keep it from this program's handlers.
//!
//! A thread that is being created blocks all signals for a moment, and so does the thread that
//! creates it. Repeated readings tell such a thread from one that blocks the signal for good:
//!
//! | in every reading, the thread blocks the signal and | conclusion |
//! |---|---|
//! | has had a tick of processor time more, three times | it blocks for good: no thread's creation or end takes that long |
//! | was asleep; its mask leaves out the C library's own signals | it blocks for good: the program set the mask, and the thread waits |
//! | was asleep; its mask has signals of the C library | it may be waiting for its creator, or ending |
//! | could have run, but did not get to | it waits for a processor, for as long as the machine is overloaded |
//!
//! Ticks that are new in one reading count once: while a virtual machine waits for a processor, its
//! kernel charges the time to the thread that happens to run. Threads of the third and the fourth
//! kind are waited for, up to `MAX_WAIT`. A thread that has ended
//! or is ending executes none of the program's code, nor does one of the kernel (of `io_uring`).
//! In emulators (gVisor, qemu-user), `stat` shows an empty mask for every thread. So this thread
//! first blocks a signal and reads its own; if that is not shown, the masks are unknown.
//!
//! Cost: 10 to 14 µs a thread (one small file), and 10 µs for all handlers.

// Safety: relies on sigprocmask(2), as the kernel has it.
#![expect(unsafe_code, reason = "see above")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use super::trap::{Action, action};
use crate::os::thread::id;

/// A thread that blocks the signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockingThread {
    pub thread: u32,
    pub name: String,
}

/// The longest wait for threads that may be about to unblock the signal.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Number of readings that tell blocking for good from blocking again and again for a moment.
const MIN_READINGS: u32 = 64;
/// The pause between later readings. The first ones follow each other at once.
const READING_INTERVAL: Duration = Duration::from_micros(500);
/// Number of readings with new ticks of processor time (10 ms each) that no thread's creation or
/// end has.
const MIN_BUSY_READINGS: u32 = 3;

const SIGTRAP_BIT: u64 = 1 << (libc::SIGTRAP - 1);
/// `SIGCANCEL` and `SIGSETXID`, 32 and 33. The C library keeps them out of a program's masks.
const LIBC_SIGNALS: u64 = 0b11 << 31;
/// `PF_EXITING`, see `linux/sched.h`: the thread never returns to the program.
const PF_EXITING: u64 = 0x4;
/// `PF_IO_WORKER`, see `linux/sched.h`.
const PF_IO_WORKER: u64 = 0x10;

/// Returns the threads of this process that block the signal for good, or, if the limit is reached,
/// all that still block it.
///
/// # Errors
/// The system's, if it does not tell which threads block the signal: `/proc` is not mounted, no
/// descriptor is free, or an emulator's `/proc` shows empty masks for all threads.
pub fn blocking_threads() -> io::Result<Vec<BlockingThread>> {
    let this = id();
    if own_mask() & SIGTRAP_BIT != 0 {
        return Ok(vec![BlockingThread { thread: this, name: name(this) }]);
    }
    let mut suspects = Vec::new();
    let mut is_alone = true;
    for task in fs::read_dir("/proc/self/task")? {
        let thread = task?.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(this);
        // This thread's mask was read above. An emulator may show another one.
        if thread != this {
            is_alone = false;
            suspects.extend(Suspect::new(thread)?);
        }
    }
    if !is_alone && suspects.is_empty() && !shows_masks(this)? {
        let problem = format!("/proc/self/task/{this}/stat does not say that a signal is blocked that is");
        return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
    }
    let since = Instant::now();
    for readings in 0_u32.. {
        for at in (0..suspects.len()).rev() {
            if !suspects[at].still_blocks()? {
                suspects.swap_remove(at);
            }
        }
        let is_over = since.elapsed() > MAX_WAIT;
        let is_sure = readings >= MIN_READINGS;
        let is_found = |suspect: &&Suspect| is_over || is_sure && suspect.blocks_for_good();
        let found: Vec<_> = suspects.iter().filter(is_found).map(Suspect::name).collect();
        if suspects.is_empty() || !found.is_empty() {
            return Ok(found);
        }
        if readings < 8 {
            thread::yield_now();
        } else {
            thread::sleep(READING_INTERVAL);
        }
    }
    Ok(Vec::new())
}

/// Returns whether `stat` files show blocked signals. It tries that on this thread, until it has
/// once seen it.
fn shows_masks(this: u32) -> io::Result<bool> {
    /// Set once a `stat` file has shown a blocked signal.
    static IS_SHOWN: AtomicBool = AtomicBool::new(false);
    // The signal of a stopped terminal's job. If it arrives meanwhile, it waits until it is
    // unblocked, which does no harm.
    const ANY: u64 = 1 << (libc::SIGTTOU - 1);
    if !IS_SHOWN.load(Ordering::Relaxed) {
        let before = change_mask(libc::SIG_BLOCK, Some(ANY));
        let mut text = [0; 1024];
        let file = File::open(format!("/proc/self/task/{this}/stat"));
        let read = file.and_then(|mut file| file.read(&mut text));
        change_mask(libc::SIG_SETMASK, Some(before));
        let is_shown = Fields::parse(&text[..read?]).is_some_and(|fields| fields.blocked & ANY != 0);
        IS_SHOWN.store(is_shown, Ordering::Relaxed);
    }
    Ok(IS_SHOWN.load(Ordering::Relaxed))
}

/// A thread that has blocked the signal in all readings so far.
struct Suspect {
    thread: u32,
    birth: u64,
    /// Processor time by the latest reading.
    ticks: u64,
    /// Number of readings with more ticks than the one before.
    busy_readings: u32,
    always_slept: bool,
}

impl Suspect {
    /// Reads the thread's state. Returns `None` if it does not block the signal, or is gone.
    fn new(thread: u32) -> io::Result<Option<Self>> {
        let seen =
            |Stat { birth, ticks, .. }| Self { thread, birth, ticks, busy_readings: 0, always_slept: true };
        read(thread, |stat| stat.map(seen))
    }

    /// Reads the state again. Returns whether the thread still blocks the signal.
    fn still_blocks(&mut self) -> io::Result<bool> {
        read(self.thread, |stat| {
            let Some(stat) = stat.filter(|stat| stat.birth == self.birth) else { return false };
            self.note(stat);
            true
        })
    }

    /// Notes a reading of a thread that still blocks the signal.
    fn note(&mut self, stat: Stat) {
        self.busy_readings += u32::from(stat.ticks > self.ticks);
        self.ticks = stat.ticks;
        self.always_slept &= stat.state != b'R';
    }

    fn blocks_for_good(&self) -> bool {
        self.busy_readings >= MIN_BUSY_READINGS || self.always_slept && self.has_own_mask()
    }

    /// Returns whether the thread blocks the signal by a mask of the program's own. That is no
    /// longer so if its creation has finished since the last reading, or if it has ended.
    fn has_own_mask(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/self/task/{}/status", self.thread));
        status.is_ok_and(|status| blocked_signals(&status).is_some_and(is_own_mask))
    }

    fn name(&self) -> BlockingThread {
        BlockingThread { thread: self.thread, name: name(self.thread) }
    }
}

/// A reading of a thread that blocks the signal, and may execute the program's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    state: u8,
    ticks: u64,
    birth: u64,
}

/// Calls `take` with the reading of a thread; with `None` if the thread is gone, or does not block
/// the signal.
fn read<T>(thread: u32, take: impl FnOnce(Option<Stat>) -> T) -> io::Result<T> {
    let mut text = [0; 1024];
    let file = File::open(format!("/proc/self/task/{thread}/stat"));
    match file.and_then(|mut file| file.read(&mut text)) {
        Ok(len) => blocking(&text[..len]).map(take).ok_or_else(|| {
            let problem = format!("/proc/self/task/{thread}/stat does not say which signals are blocked");
            io::Error::new(io::ErrorKind::InvalidData, problem)
        }),
        // The thread has ended since it was listed.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(take(None)),
        Err(error) => Err(error),
    }
}

/// Parses a `stat` file of a thread that blocks the signal. Returns `Some(None)` for any other
/// thread, and `None` if the file can't be understood. Pure.
#[expect(
    clippy::option_option,
    reason = "that it can't be read is another answer than that it does not block"
)]
fn blocking(stat: &[u8]) -> Option<Option<Stat>> {
    let Fields { stat, blocked, is_kernels, is_exiting } = Fields::parse(stat)?;
    let is_over = is_exiting || matches!(stat.state, b'Z' | b'X');
    Some((blocked & SIGTRAP_BIT != 0 && !is_kernels && !is_over).then_some(stat))
}

/// Fields of a `stat` file, see `proc_pid_stat(5)`.
struct Fields {
    stat: Stat,
    /// The first 31 signals of the thread's set of blocked signals.
    blocked: u64,
    /// Whether the thread is the kernel's own.
    is_kernels: bool,
    /// Whether the kernel is ending the thread. That may take long, since it waits for locks.
    is_exiting: bool,
}

impl Fields {
    /// Parses a `stat` file. Pure.
    fn parse(stat: &[u8]) -> Option<Self> {
        // Field 2 is a name in parentheses, which may hold anything.
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let name_start = stat.iter().position(|byte| *byte == b'(')?;
        let rest = str::from_utf8(&stat[name_end + 1..]).ok()?;
        let fields: Vec<_> = rest.split_ascii_whitespace().take(30).collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let state = *fields.first()?.as_bytes().first()?;
        let flags = number(9)?;
        let is_kernels = flags & PF_IO_WORKER != 0 && stat[name_start + 1..].starts_with(b"iou-");
        let is_exiting = flags & PF_EXITING != 0;
        let found = Stat { state, ticks: number(14)? + number(15)?, birth: number(22)? };
        Some(Self { stat: found, blocked: number(32)?, is_kernels, is_exiting })
    }
}

/// Returns whether a mask blocks `SIGTRAP`, and neither of the C library's own signals. Pure.
fn is_own_mask(mask: u64) -> bool {
    mask & SIGTRAP_BIT != 0 && mask & LIBC_SIGNALS == 0
}

fn name(thread: u32) -> String {
    comm(&format!("self/task/{thread}"))
}

fn own_mask() -> u64 {
    change_mask(libc::SIG_BLOCK, None)
}

/// Changes this thread's mask, or only reads it for `None`. Returns the previous mask.
fn change_mask(how: libc::c_int, change: Option<u64>) -> u64 {
    let mut before = 0_u64;
    let change = change.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: a mask or none, and a place for the previous one; the kernel is told their size.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, change, &raw mut before, size_of::<u64>());
    }
    before
}

/// Returns the signals whose handlers block `SIGTRAP` while they run, except `SIGTRAP` itself.
pub fn blocking_handlers() -> Vec<libc::c_int> {
    const LAST: libc::c_int = 64;
    let is_handled = |action: &Action| ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.handler);
    let blocks = |signal: &libc::c_int| {
        action(*signal).is_some_and(|action| is_handled(&action) && action.mask & SIGTRAP_BIT != 0)
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

/// The process that traces this thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracer {
    pub process: u32,
    /// The process's name; empty if the system does not tell.
    pub name: String,
}

/// Returns the process that traces this thread, as `/proc` tells. A tracer in another namespace of
/// processes is not found.
pub fn tracer() -> Option<Tracer> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let process = tracer_of(&status)?;
    Some(Tracer { process, name: comm(&process.to_string()) })
}

/// Returns the name of a process or a thread, by its folder in `/proc`.
pub(super) fn comm(folder: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{folder}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}

/// Returns the tracer in a `status` file, see `proc_pid_status(5)`. Pure.
fn tracer_of(status: &str) -> Option<u32> {
    status_field(status, "TracerPid:")?.parse().ok().filter(|process| *process != 0)
}

/// Returns a field of a `status` file. Pure.
pub(super) fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns the set of blocked signals in a `status` file. Pure.
pub(super) fn blocked_signals(status: &str) -> Option<u64> {
    u64::from_str_radix(status_field(status, "SigBlk:")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a thread's `stat` line with these fields.
    fn stat(name: &str, state: &str, flags: u64, blocked: u64) -> String {
        format!(
            "7 ({name}) {state} 1 7 7 0 -1 {flags} 5 0 0 0 30 12 0 0 20 0 3 0 777 1 2 3 4 5 6 7 8 0 {blocked} 0 0 1"
        )
    }

    #[test]
    fn a_line_says_whether_the_signal_is_blocked() {
        let found = Some(Some(Stat { state: b'S', ticks: 42, birth: 777 }));
        assert_eq!(blocking(stat("a", "S", 0, SIGTRAP_BIT).as_bytes()), found);
        assert_eq!(blocking(stat("a) R (b", "S", 0, 0x7fff_ffff).as_bytes()), found);
        assert_eq!(blocking(stat("a", "S", 0, !SIGTRAP_BIT & 0x7fff_ffff).as_bytes()), Some(None));
    }

    #[test]
    fn a_line_that_can_not_be_read_says_nothing() {
        assert_eq!(blocking(b""), None);
        assert_eq!(blocking(b"7 (a) S 1 7"), None);
        assert_eq!(blocking(stat("a", "S", 0, SIGTRAP_BIT).replace("12", "?").as_bytes()), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc by system call numbers")]
    fn what_is_blocked_is_shown_here() {
        let before = own_mask();
        assert!(shows_masks(id()).unwrap());
        assert_eq!(own_mask(), before);
        let fields = |blocked| Fields::parse(stat("a", "S", 0, blocked).as_bytes()).unwrap().blocked;
        assert_eq!((fields(0), fields(SIGTRAP_BIT)), (0, SIGTRAP_BIT), "an emulator's is always 0");
    }

    #[test]
    fn who_executes_nothing_of_the_programs_does_not_count() {
        let is_found = |name, state, flags| {
            blocking(stat(name, state, flags, SIGTRAP_BIT).as_bytes()).unwrap().is_some()
        };
        assert!(!is_found("a", "Z", 0));
        assert!(!is_found("a", "D", PF_EXITING), "it waits for a lock of the kernel's");
        assert!(!is_found("iou-wrk-7", "S", PF_IO_WORKER));
        assert!(is_found("iou-wrk-7", "S", 0), "a program's own name");
        assert!(is_found("vcpu", "S", PF_IO_WORKER));
    }

    #[test]
    fn a_mask_is_read_from_a_status() {
        let status = |mask: &str| format!("Name:\tx\nSigPnd:\tffffffffffffffff\nSigBlk:\t{mask}\n");
        assert_eq!(blocked_signals(&status("0000000000000010")), Some(SIGTRAP_BIT));
        assert_eq!(blocked_signals(&status("fffffffe7ffbfeff")).unwrap() & LIBC_SIGNALS, 0);
        assert_eq!(blocked_signals(&status("fffffffffffbfeff")).unwrap() & LIBC_SIGNALS, LIBC_SIGNALS);
        assert_eq!((blocked_signals(&status("?")), blocked_signals("")), (None, None));
    }

    #[test]
    fn a_mask_is_a_programs_own_or_the_librarys() {
        assert!(is_own_mask(SIGTRAP_BIT) && is_own_mask(!LIBC_SIGNALS));
        assert!(!is_own_mask(u64::MAX), "of a thread that is being created");
        assert!(!is_own_mask(!(1 << 32)), "of a thread that ends: it leaves out SIGSETXID only");
        assert!(!is_own_mask(0) && !is_own_mask(!SIGTRAP_BIT), "it was, and unblocks the signal by now");
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc")]
    fn who_has_ended_since_the_last_reading_is_not_guilty() {
        let suspect = |thread| Suspect { thread, birth: 0, ticks: 0, busy_readings: 0, always_slept: true };
        assert!(!suspect(u32::MAX).blocks_for_good());
        let before = change_mask(libc::SIG_BLOCK, Some(SIGTRAP_BIT));
        assert!(suspect(id()).blocks_for_good());
        change_mask(libc::SIG_SETMASK, Some(before));
        assert!(!suspect(id()).blocks_for_good(), "it has unblocked the signal");
    }

    #[test]
    fn ticks_that_come_at_once_are_one_run() {
        let mut suspect =
            Suspect { thread: u32::MAX, birth: 0, ticks: 7, busy_readings: 0, always_slept: true };
        let mut is_for_good_at = |ticks| {
            suspect.note(Stat { state: b'R', ticks, birth: 0 });
            suspect.blocks_for_good()
        };
        assert!(!is_for_good_at(100), "the machine was away");
        assert!(!is_for_good_at(100) && !is_for_good_at(101) && !is_for_good_at(101));
        assert!(is_for_good_at(102));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(libc::SIGPROF), "SIGPROF");
        assert_eq!(signal_name(libc::SIGSYS), "SIGSYS");
        assert_eq!((signal_name(34), signal_name(0)), ("signal 34".to_owned(), "signal 0".to_owned()));
    }

    proptest! {
        #[test]
        fn never_panics(text: Vec<u8>) {
            let _ = blocking(&text);
            let _ = blocked_signals(&String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn a_status_says_who_traces() {
        assert_eq!(tracer_of("Name:\tx\nTracerPid:\t42\n"), Some(42));
        assert_eq!(tracer_of("Name:\tx\nTracerPid:\t0\n"), None);
        assert_eq!((tracer_of("TracerPid:\t?\n"), tracer_of("")), (None, None));
    }
}
