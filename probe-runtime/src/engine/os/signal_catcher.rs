//! Catches signals for a thread, by a handler for those that the program leaves to their default
//! action.
//!
//! Life: [`SignalCatcher::new`] makes a [`Wakeup`], once a process ▸ [`SignalCatcher::install`]
//! installs the handler for signals with their default action only ▸ the handler notes the signal
//! and wakes the thread ▸ [`SignalCatcher::wait`] takes the noted signals, on a thread of its own ▸
//! [`SignalCatcher::end`] performs the signal's default action ▸ a drop restores the default action
//! of each signal that still has this handler.
//!
//! The handler does not disturb the program:
//! - A handler that the program installs later replaces this one. If that handler calls this one as
//!   its predecessor, this one does nothing: it checks whether the kernel would call it.
//! - In a forked child, which has the handler but not the thread, it takes the default action.
//! - A signal that ends the process takes its default action at once if another such signal has
//!   come before.
//!
//! The handler makes only calls that POSIX allows in handlers (sigaction, getpid, fstat, write,
//! raise), and keeps `errno`. A thread that blocks a signal, for `sigwait` or a `signalfd`, is not
//! affected.

// Safety: relies on signal-safety(7), and on wakeups, which are never freed.
#![expect(unsafe_code, reason = "see above")]

use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Instant;
use std::{io, ptr};

use super::cancel::Uncancellable;
use super::wakeup::Wakeup;

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
    /// The signals by which people, terminals and supervisors end programs.
    pub(crate) const ENDS: &[Self] = &[Self(libc::SIGHUP), Self(libc::SIGINT), Self(libc::SIGTERM)];

    /// Returns the names of all known signals.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns the signal of this name, with or without `SIG`, in either case.
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

/// The wakeup that the handler uses; null if no thread listens.
static WAKEUP: AtomicPtr<Wakeup> = AtomicPtr::new(ptr::null_mut());
/// The signals noted since the last wait, by their numbers, and [`STOP`].
static PENDING: AtomicU64 = AtomicU64::new(0);
/// The process of the listening thread.
static OWNER: AtomicU64 = AtomicU64::new(0);
/// The signals that end the process, by their numbers.
static ENDS: AtomicU64 = AtomicU64::new(0);
/// Whether one of these has come.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The reason why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WakeReason {
    Stopped,
    TimedOut,
    /// By [`request_look`].
    LookRequested,
    Signal(Signal),
}

/// The bit for the end of waiting. No signal has the number 0.
const STOP: u64 = 1;
/// The bit for a request to look for probes. No signal that has a name here has the number 63.
const LOOK: u64 = 1 << 63;

/// Wakes the listening thread, if there is one, to look for probes. Waits for nothing, takes no
/// heap, and may be called in handlers.
pub(crate) fn request_look() {
    // SAFETY: null, or a wakeup, which is never freed.
    let wakeup = unsafe { WAKEUP.load(Ordering::SeqCst).as_ref() };
    let is_owner = OWNER.load(Ordering::Relaxed) == super::fork::process();
    if let Some(wakeup) = wakeup.filter(|_| is_owner) {
        // Writing is a cancellation point.
        let _whole = Uncancellable::new();
        if PENDING.fetch_or(LOOK, Ordering::SeqCst) & LOOK == 0 {
            wakeup.wake();
        }
    }
}

/// The thread that takes signals waits by this. A process has at most one.
#[derive(Debug)]
pub(crate) struct SignalCatcher {
    wakeup: &'static Wakeup,
}

impl SignalCatcher {
    /// Catches no signals yet.
    pub(crate) fn new() -> io::Result<Self> {
        /// The last wakeup that was made, with the process that made it.
        static LAST: AtomicPtr<(u64, Wakeup)> = AtomicPtr::new(ptr::null_mut());
        static AT_FORK: Once = Once::new();
        AT_FORK.call_once(|| super::fork::install(nothing, nothing, forget));
        let process = super::fork::process();
        // SAFETY: wakeups are never freed.
        let made = unsafe { LAST.load(Ordering::Acquire).as_ref() };
        let wakeup = match made {
            Some((owner, wakeup)) if *owner == process && wakeup.is_whole() => wakeup,
            _ => {
                let made = Box::leak(Box::new((process, Wakeup::new()?)));
                LAST.store(made, Ordering::Release);
                &made.1
            }
        };
        Ok(Self { wakeup })
    }

    /// Catches these signals if they have their default action; returns those that don't. The
    /// signals in `ends` end the process.
    pub(crate) fn install(&self, ends: &[Signal], others: &[Signal]) -> Vec<Signal> {
        ENDS.store(ends.iter().fold(0, |all, signal| all | signal.bit()), Ordering::Relaxed);
        IS_ENDING.store(false, Ordering::Relaxed);
        OWNER.store(super::fork::process(), Ordering::Relaxed);
        WAKEUP.store(ptr::from_ref(self.wakeup).cast_mut(), Ordering::SeqCst);
        ends.iter().chain(others).copied().filter(|signal| !catch(*signal)).collect()
    }

    pub(crate) fn ends(signal: Signal) -> bool {
        ENDS.load(Ordering::Relaxed) & signal.bit() != 0
    }

    /// Waits for the next signal, until `until` if that is given.
    pub(crate) fn wait(&self, until: Option<Instant>) -> WakeReason {
        loop {
            if let Some(woken) = take_pending() {
                return woken;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return WakeReason::TimedOut;
            }
            self.wakeup.sleep(left);
        }
    }

    /// Ends the wait, after all signals that have come.
    pub(crate) fn stop(&self) {
        PENDING.fetch_or(STOP, Ordering::SeqCst);
        self.wakeup.wake();
    }

    /// Performs the signal's default action on this thread: the process ends. If the process is the
    /// first of its namespace, such signals don't end it; the signal is caught again then.
    pub(crate) fn end(signal: Signal) {
        // A second signal may have restored the default action. A handler that the program has
        // installed has received the signal, and takes precedence.
        if action(signal.0).is_none_or(|it| it != handler() && it != libc::SIG_DFL) {
            IS_ENDING.store(false, Ordering::Relaxed);
            return;
        }
        set(signal.0, libc::SIG_DFL);
        let mut only = MaybeUninit::uninit();
        // SAFETY: a set of one signal; this thread belongs to this module's user, and blocks
        // signals.
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

impl Drop for SignalCatcher {
    fn drop(&mut self) {
        let own = ptr::from_ref(self.wakeup);
        // A forked child must not drop its parent's handlers.
        if OWNER.load(Ordering::Relaxed) != super::fork::process()
            || !ptr::eq(WAKEUP.load(Ordering::Relaxed), own)
        {
            return;
        }
        NAMES
            .iter()
            .filter(|(_, number)| is_ours(*number))
            .for_each(|(_, number)| set(*number, libc::SIG_DFL));
        WAKEUP.store(ptr::null_mut(), Ordering::SeqCst);
        // Signals since the last wait are not lost. They go to the process, since this thread may
        // block them.
        while let Some(woken) = take_pending() {
            if let WakeReason::Signal(signal) = woken
                && Self::ends(signal)
            {
                // SAFETY: no pointers.
                unsafe { libc::kill(libc::getpid(), signal.0) };
            }
        }
    }
}

/// Takes one noted signal. A signal that does not end the process goes before one that does, and
/// either goes before [`STOP`].
fn take_pending() -> Option<WakeReason> {
    let noted = PENDING.load(Ordering::SeqCst);
    let ends = ENDS.load(Ordering::Relaxed);
    let next = [noted & !ends & !STOP, noted & ends, noted].into_iter().find(|some| *some != 0)?;
    let bit = next & next.wrapping_neg();
    // No other thread takes signals, except in a handler that no longer finds a listener.
    let is_taken = PENDING.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
    let number = || libc::c_int::try_from(bit.trailing_zeros()).unwrap_or_default();
    is_taken.then(|| match bit {
        STOP => WakeReason::Stopped,
        LOOK => WakeReason::LookRequested,
        _ => WakeReason::Signal(Signal(number())),
    })
}

extern "C" fn nothing() {}

/// Forgets the listener, in a forked child.
extern "C" fn forget() {
    WAKEUP.store(ptr::null_mut(), Ordering::SeqCst);
    PENDING.store(0, Ordering::SeqCst);
}

fn handler() -> libc::sighandler_t {
    handle as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// Returns the handler that the kernel would call.
fn action(signal: libc::c_int) -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a place for the action, which is initialised if the call succeeds.
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
        // A thread that waits in a system call keeps waiting. The handler runs on the thread's
        // own stack: the standard library unmaps the main thread's other one when any thread exits.
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Installs the handler if the signal has its default action; returns whether the signal has the
/// handler now. A forked child may have its parent's.
fn catch(signal: Signal) -> bool {
    match action(signal.0) {
        Some(libc::SIG_DFL) => set(signal.0, handler()),
        before => return before == Some(handler()),
    }
    true
}

extern "C" fn handle(signal: libc::c_int) {
    // SAFETY: the thread's own errno.
    let errno = unsafe { *errno_place() };
    match action(signal) {
        Some(current) if current == handler() => handle_ours(signal),
        // The default action was restored after the kernel had called this handler.
        // SAFETY: no pointers; it takes effect when the handler returns, since the signal is
        // blocked in it.
        Some(libc::SIG_DFL) => drop(unsafe { libc::raise(signal) }),
        // A handler that was installed later has called this one.
        _ => (),
    }
    // SAFETY: as above.
    unsafe { *errno_place() = errno };
}

fn handle_ours(signal: libc::c_int) {
    let signal = Signal(signal);
    let is_end = SignalCatcher::ends(signal);
    let is_owner = OWNER.load(Ordering::Relaxed) == super::fork::process();
    // Writing is a cancellation point, and a handler must not unwind.
    let _whole = Uncancellable::new();
    // The listening thread handles the first signal that ends the process, and no later one.
    let is_told = is_owner && !(is_end && IS_ENDING.swap(true, Ordering::Relaxed)) && note(signal);
    if !is_told {
        set(signal.0, libc::SIG_DFL);
        // SAFETY: no pointers; it takes effect when the handler returns, since the signal is
        // blocked in it.
        unsafe { libc::raise(signal.0) };
    }
}

/// Notes a signal and wakes the listener; returns whether the listener takes the signal. If the
/// listener stops meanwhile, either it takes the noted signal or this function takes it back.
fn note(signal: Signal) -> bool {
    if WAKEUP.load(Ordering::SeqCst).is_null() {
        return false;
    }
    PENDING.fetch_or(signal.bit(), Ordering::SeqCst);
    // SAFETY: wakeups are never freed.
    match unsafe { WAKEUP.load(Ordering::SeqCst).as_ref() } {
        Some(wakeup) => {
            wakeup.wake();
            true
        }
        None => PENDING.fetch_and(!signal.bit(), Ordering::SeqCst) & signal.bit() == 0,
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
    // SAFETY: a place of this thread's, which lives as long as the thread.
    unsafe { place() }
}

/// Tests that concern the whole process run it in a child.
#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const INT: Signal = Signal(libc::SIGINT);
    const USR1: Signal = Signal(libc::SIGUSR1);
    const SCENARIO: &str = "PROBE_UNIT_SCENARIO";

    /// Returns the signal that ends a child that plays this scenario.
    fn end_of(scenario: &str) -> Option<libc::c_int> {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "engine::os::signal_catcher::tests::scenario", "--ignored", "--nocapture"])
            .env(SCENARIO, scenario);
        let output = command.output().unwrap();
        output.status.signal().or_else(|| panic!("{output:?}"))
    }

    #[test]
    #[ignore = "other tests play it, in children"]
    fn scenario() {
        let asked = env::var(SCENARIO).expect("other tests play it, and say what");
        // SAFETY: no pointers.
        unsafe { libc::alarm(60) };
        // A shell's background job ignores the signal, and so do its children.
        set(INT.0, libc::SIG_DFL);
        let caught = SignalCatcher::new().unwrap();
        assert_eq!(caught.install(&[INT], &[USR1]), []);
        match asked.as_str() {
            "in turn" => {
                [INT, USR1, USR1].into_iter().for_each(raise);
                caught.stop();
                let woken = [(); 4].map(|()| caught.wait(Some(Instant::now())));
                assert_eq!(
                    woken,
                    [
                        WakeReason::Signal(USR1),
                        WakeReason::Signal(INT),
                        WakeReason::Stopped,
                        WakeReason::TimedOut
                    ]
                );
                SignalCatcher::end(INT);
            }
            "left" => {
                raise(INT);
                block(INT);
                // If the drop sent the signal to this thread, it would stay blocked for ever.
                drop(caught);
            }
            "nobody listens" => {
                drop(caught);
                set(INT.0, handler());
                assert!(!note(INT) && take_pending().is_none());
                raise(INT);
            }
            other => panic!("{other}"),
        }
        loop {
            std::thread::park();
        }
    }

    fn raise(signal: Signal) {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::raise(signal.0) }, 0);
    }

    fn block(signal: Signal) {
        // SAFETY: a set of one signal.
        unsafe {
            let mut only = MaybeUninit::uninit();
            libc::sigemptyset(only.as_mut_ptr());
            libc::sigaddset(only.as_mut_ptr(), signal.0);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), ptr::null_mut()), 0);
        }
    }

    #[test]
    fn what_has_come_is_told_before_the_end() {
        assert_eq!(end_of("in turn"), Some(libc::SIGINT));
    }

    #[test]
    fn what_nobody_has_waited_for_takes_effect_whatever_the_last_thread_blocks() {
        assert_eq!(end_of("left"), Some(libc::SIGINT));
    }

    #[test]
    fn who_listens_no_more_is_not_told() {
        assert_eq!(end_of("nobody listens"), Some(libc::SIGINT));
    }
}
