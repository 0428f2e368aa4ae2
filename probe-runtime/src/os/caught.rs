//! Signals that a thread is told of: a handler for those that the program leaves to their default action.
//!
//! Life: [`Caught::new`] makes a pipe, once a process ▸ [`Caught::install`] puts the handler where a signal has its default action, and
//! nowhere else ▸ the handler writes the signal's number to the pipe ▸ [`Caught::wait`] reads it, on a thread of its own ▸
//! [`Caught::end`] has the signal do what it does by default ▸ a drop gives back the default action, where the handler is still this
//! one.
//!
//! The handler stays out of everybody's way:
//! - A handler that the program installs later replaces this one. If it calls this one, as the one before it, this one does nothing: it
//!   looks whether the kernel would call it.
//! - In a forked child, which has the handler but not the thread, it takes the default action.
//! - A signal that ends the process takes its default action at once if another one has come before.
//!
//! It calls what POSIX allows in handlers (sigaction, getpid, write, raise), and keeps `errno`. Threads that block a signal, for
//! `sigwait` or a `signalfd`, have it as they would.

// Safety: relies on signal-safety(7), and on descriptors of a pipe that is never closed.
#![expect(unsafe_code, reason = "see above")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::cancel::Uncancellable;

/// One signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signal(libc::c_int);

const NAMES: [(&str, libc::c_int); 8] = [
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGALRM", libc::SIGALRM),
    ("SIGTERM", libc::SIGTERM),
    ("SIGWINCH", libc::SIGWINCH),
];

impl Signal {
    /// Those by which people, terminals and supervisors end programs.
    pub(crate) const ENDS: &[Self] = &[Self(libc::SIGHUP), Self(libc::SIGINT), Self(libc::SIGTERM)];

    /// All that have a name here.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// The one of this name, with or without `SIG`, in either case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let is_named = |known: &str| {
            let short = known.strip_prefix("SIG").unwrap_or(known);
            known.eq_ignore_ascii_case(name) || short.eq_ignore_ascii_case(name)
        };
        NAMES.iter().find(|(known, _)| is_named(known)).map(|(_, number)| Self(*number))
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, number)| *number == self.0).map_or("", |(name, _)| name)
    }

    fn bit(self) -> u64 {
        1 << self.0
    }
}

/// Where the handler writes; negative where nobody reads.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The process whose thread reads.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The signals, by their numbers, that end the process.
static ENDS: AtomicU64 = AtomicU64::new(0);
/// One of them has come.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    Stopped,
    TimedOut,
    Signal(Signal),
}

/// What the handler never writes.
const STOP: u8 = 0;
/// How often the pipe is read where poll(2) does not wait for it.
const BETWEEN_READS: Duration = Duration::from_millis(20);

/// Signals, caught: one at a time in a process.
#[derive(Debug)]
pub(crate) struct Caught {
    /// Read by one thread.
    from: ManuallyDrop<File>,
    /// Never closed, since the handler may be about to write to it; a forked child that makes its own has a pipe of its own.
    to: libc::c_int,
}

impl Caught {
    /// None so far.
    pub(crate) fn new() -> io::Result<Self> {
        static PIPES: std::sync::Mutex<Option<(u32, libc::c_int, libc::c_int)>> = std::sync::Mutex::new(None);
        static AT_FORK: Once = Once::new();
        AT_FORK.call_once(|| super::fork::install(nothing, nothing, forget));
        let process = std::process::id();
        let mut pipes = PIPES.try_lock().map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        let (from, to) = match *pipes {
            Some((owner, from, to)) if owner == process => (from, to),
            _ => {
                let (from, to) = io::pipe()?;
                let (from, to) = (from.into_raw_fd(), to.into_raw_fd());
                // The handler must not wait for room, nor who reads for what poll(2) has not told of.
                for end in [from, to] {
                    // SAFETY: a descriptor that is open, and nobody else's.
                    unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) };
                }
                *pipes = Some((process, from, to));
                (from, to)
            }
        };
        // SAFETY: the pipe's end, which is never closed.
        let from = ManuallyDrop::new(unsafe { File::from_raw_fd(from) });
        Ok(Self { from, to })
    }

    /// Catches these where they have their default action; returns those that don't. Those of `ends` end the process.
    pub(crate) fn install(&self, ends: &[Signal], others: &[Signal]) -> Vec<Signal> {
        ENDS.store(ends.iter().fold(0, |all, signal| all | signal.bit()), Ordering::Relaxed);
        IS_ENDING.store(false, Ordering::Relaxed);
        OWNER.store(std::process::id(), Ordering::Relaxed);
        PIPE.store(self.to, Ordering::Release);
        ends.iter().chain(others).copied().filter(|signal| !catch(*signal)).collect()
    }

    /// Whether this one ends the process.
    pub(crate) fn ends(signal: Signal) -> bool {
        ENDS.load(Ordering::Relaxed) & signal.bit() != 0
    }

    /// Waits for the next signal, until this moment if there is one.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Woken {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mut poll = libc::pollfd { fd: self.from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor, which is open.
            let ready = unsafe { libc::poll(&raw mut poll, 1, left.map_or(-1, milliseconds)) };
            if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                // The kernel refuses to wait for any descriptor where a process may have none (RLIMIT_NOFILE).
                std::thread::sleep(left.unwrap_or(BETWEEN_READS).min(BETWEEN_READS));
            }
            let mut byte = [STOP];
            return match (&*self.from).read(&mut byte) {
                Ok(1) if byte[0] != STOP => Woken::Signal(Signal(byte[0].into())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Nothing has come; or poll(2) can't wait for as long.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match until {
                    Some(until) if Instant::now() >= until => Woken::TimedOut,
                    _ => continue,
                },
                _ => Woken::Stopped,
            };
        }
    }

    /// Ends the wait.
    pub(crate) fn stop(&self) {
        // SAFETY: the pipe's end, which is never closed.
        let mut to = ManuallyDrop::new(unsafe { File::from_raw_fd(self.to) });
        // A pipe without room holds signals, which end the wait too.
        while to.write_all(&[STOP]).is_err() {
            std::thread::yield_now();
        }
    }

    /// Has the signal do what it does by default, on this thread: the process ends, unless it is the first of its namespace, which such
    /// signals don't end; then it is caught again.
    pub(crate) fn end(signal: Signal) {
        // A second one may have given it back; a handler of the program's own, which was told, goes before.
        if action(signal.0).is_none_or(|it| it != handler() && it != libc::SIG_DFL) {
            IS_ENDING.store(false, Ordering::Relaxed);
            return;
        }
        set(signal.0, libc::SIG_DFL);
        let mut only = MaybeUninit::uninit();
        // SAFETY: a set, of one signal; the thread is this module's user's, and blocks signals.
        unsafe {
            libc::sigemptyset(only.as_mut_ptr());
            libc::sigaddset(only.as_mut_ptr(), signal.0);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut());
            libc::raise(signal.0);
            libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), ptr::null_mut());
        }
        IS_ENDING.store(false, Ordering::Relaxed);
        catch(signal);
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        // That of a forked child's parent is not its own.
        if OWNER.load(Ordering::Relaxed) != std::process::id() || PIPE.load(Ordering::Relaxed) != self.to {
            return;
        }
        NAMES
            .iter()
            .filter(|(_, number)| is_ours(*number))
            .for_each(|(_, number)| set(*number, libc::SIG_DFL));
        PIPE.store(-1, Ordering::Relaxed);
        // What has come since the last wait is not lost.
        while let Woken::Signal(signal) = self.wait(Some(Instant::now())) {
            if Self::ends(signal) {
                // SAFETY: no pointers.
                unsafe { libc::raise(signal.0) };
            }
        }
    }
}

fn milliseconds(duration: Duration) -> libc::c_int {
    // Rounded up: never early.
    duration.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(libc::c_int::MAX)
}

extern "C" fn nothing() {}

/// In a forked child.
extern "C" fn forget() {
    PIPE.store(-1, Ordering::Relaxed);
}

fn handler() -> libc::sighandler_t {
    handle as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// What the kernel would call.
fn action(signal: libc::c_int) -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a place for the action, which is there where the call succeeds.
    unsafe {
        let is_told = libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0;
        is_told.then(|| action.assume_init().sa_sigaction)
    }
}

fn is_ours(signal: libc::c_int) -> bool {
    action(signal) == Some(handler())
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) {
    // SAFETY: zeroes are an action with an empty mask; `handle` does only what a handler may.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        // Who waits in a system call goes on to wait. It runs on the thread's own stack: the standard library unmaps the other one of
        // the main thread when any thread exits.
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Installs the handler, where there is none. A forked child may have its parent's.
fn catch(signal: Signal) -> bool {
    match action(signal.0) {
        Some(libc::SIG_DFL) => set(signal.0, handler()),
        before => return before == Some(handler()),
    }
    true
}

extern "C" fn handle(signal: libc::c_int) {
    // SAFETY: this thread's own.
    let errno = unsafe { *errno_place() };
    match action(signal) {
        Some(current) if current == handler() => tell(signal),
        // Given back since the kernel has called this one.
        // SAFETY: no pointers; it takes effect when the handler returns, since the signal is blocked in it.
        Some(libc::SIG_DFL) => drop(unsafe { libc::raise(signal) }),
        // A later handler has called this one.
        _ => (),
    }
    // SAFETY: as above.
    unsafe { *errno_place() = errno };
}

fn tell(signal: libc::c_int) {
    let pipe = PIPE.load(Ordering::Acquire);
    let is_heard = pipe >= 0 && OWNER.load(Ordering::Relaxed) == std::process::id();
    let is_end = Caught::ends(Signal(signal));
    let byte = u8::try_from(signal).unwrap_or(STOP);
    // Writing is a cancellation point, and a handler must not unwind.
    let _whole = Uncancellable::new();
    // SAFETY: one byte, to a pipe that is never closed. An end that is told for the first time is awaited by whoever reads; all
    // others take effect when the handler returns, since the signal is blocked in it.
    unsafe {
        let tell = || libc::write(pipe, (&raw const byte).cast(), 1) == 1;
        let is_told = is_heard && !(is_end && IS_ENDING.swap(true, Ordering::Relaxed)) && tell();
        // Of one that does not end the process here, as many are waiting as the pipe holds.
        if !is_told && (is_end || !is_heard) {
            set(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

fn errno_place() -> *mut libc::c_int {
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    use libc::___errno as place;
    #[cfg(any(target_os = "android", target_os = "openbsd", target_os = "netbsd"))]
    use libc::__errno as place;
    #[cfg(not(any(
        target_os = "macos",
        target_os = "ios",
        target_os = "freebsd",
        target_os = "android",
        target_os = "openbsd",
        target_os = "netbsd",
        target_os = "illumos",
        target_os = "solaris"
    )))]
    use libc::__errno_location as place;
    #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
    use libc::__error as place;
    // SAFETY: a place of this thread's, which lives as long as it.
    unsafe { place() }
}
