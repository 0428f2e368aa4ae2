//! Threads that run no signal handlers of the program, writes that raise no signal, and threads
//! that wake on time.

// Safety: relies on calls that read and write signal sets of this thread, one that takes a signal
// that is pending, and one that takes numbers; and on the kernel's signal set being 8 bytes.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::{io, ptr};

/// Signals that the kernel raises for the thread's own faults. If they were blocked, they would end
/// the process.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// A guard. While it lives, this thread takes only signals for its own faults, and so do threads
/// that it starts, for their whole lives. The C library's internal signals, by which it reaches all
/// threads, stay unblocked.
pub(crate) struct SignalsBlocked {
    before: Option<libc::sigset_t>,
    // The signal mask belongs to one thread.
    not_send: PhantomData<*mut ()>,
}

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` makes a set, from which signals are removed; if the last call
        // succeeds, it has written `before`.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            let is_set = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) == 0;
            is_set.then(|| before.assume_init())
        };
        Self { before, not_send: PhantomData }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: a set that the C library made.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
        }
    }
}

/// Signals that the kernel raises for a thread that writes, and the errors that come with them:
/// beyond the limit on the length of files, and to a pipe that nobody reads. By default both end
/// the process.
const WRITE_SIGNALS: [(libc::c_int, i32); 2] = [(libc::SIGXFSZ, libc::EFBIG), (libc::SIGPIPE, libc::EPIPE)];

/// The error of a call that writes.
pub(crate) trait Errno {
    /// Returns the system's number of it, if it has one.
    fn errno(&self) -> Option<i32>;
}

impl Errno for i32 {
    fn errno(&self) -> Option<i32> {
        Some(*self)
    }
}

impl Errno for io::Error {
    fn errno(&self) -> Option<i32> {
        self.raw_os_error()
    }
}

/// Calls `write`, whose errors raise no signal: they are its result alone.
///
/// The kernel raises these signals for the writing thread itself, before the call returns. So the
/// thread blocks them meanwhile, and takes the one that its error comes with. The program's
/// disposition of them is neither read nor changed, and no other thread notices. One that was
/// pending before stays, and so does one that anybody else sends meanwhile: a thread takes its own
/// signals before those of the process. (Looking at `RLIMIT_FSIZE` first would not do: another
/// process may change it in between, and each kind of file has limits of its own.)
pub(crate) fn without_write_signals<T, E: Errno>(write: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let pending = || {
        let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: a place for the answer, which is initialised if the call succeeds.
        unsafe { (libc::sigpending(pending.as_mut_ptr()) == 0).then(|| pending.assume_init()) }
    };
    // SAFETY: a set that the C library made, and a signal's number.
    let has = |set: &libc::sigset_t, signal| unsafe { libc::sigismember(set, signal) == 1 };
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` makes a set, to which signals are added; if the last call succeeds, it
    // has written `before`.
    let before = unsafe {
        libc::sigemptyset(blocked.as_mut_ptr());
        for (signal, _) in WRITE_SIGNALS {
            libc::sigaddset(blocked.as_mut_ptr(), signal);
        }
        let is_set = libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr()) == 0;
        is_set.then(|| before.assume_init())
    };
    let Some(before) = before else { return write() };
    // Only a signal that was blocked can be pending.
    let was_blocked = WRITE_SIGNALS.iter().any(|(signal, _)| has(&before, *signal));
    let earlier = if was_blocked { pending() } else { None };
    let result = write();
    let error = result.as_ref().err().and_then(Errno::errno);
    let raised = WRITE_SIGNALS.into_iter().find(|(_, errno)| error == Some(*errno));
    if let Some((signal, _)) = raised
        && pending().is_some_and(|now| has(&now, signal))
        && !earlier.is_some_and(|earlier| has(&earlier, signal))
    {
        // SAFETY: a set of one signal, which is blocked and was pending.
        unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::sigaddset(blocked.as_mut_ptr(), signal);
            take(blocked.as_ptr());
        }
    }
    // SAFETY: a set that the C library made.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    result
}

/// Takes a pending signal. Waits for none: another thread may have taken one that was sent to the
/// process.
///
/// # Safety
/// A set that the C library made, of signals that this thread blocks.
unsafe fn take(set: *const libc::sigset_t) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the caller's promise; no place for what the signal tells.
        unsafe { libc::sigtimedwait(set, ptr::null_mut(), &raw const at_once) };
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let mut taken = 0;
        // SAFETY: the caller's promise, and a place for the signal's number.
        unsafe { libc::sigwait(set, &raw mut taken) };
    }
}

/// Makes this thread's sleeps end on time. By default the kernel may make them 50 µs longer, to
/// wake several threads at once (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn minimise_timer_slack() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: no pointers. If it fails, sleeps last longer.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}

/// Bytes of the kernel's signal set.
const SET: usize = 8;

/// A guard. While it lives, no signal handler runs on this thread, so none forks there or leaves by
/// `siglongjmp`. Costs two system calls, 0.2 µs, which no environment denies.
pub(crate) struct AllSignalsBlocked {
    before: u64,
    // The signal mask belongs to one thread.
    not_send: PhantomData<*mut ()>,
}

impl AllSignalsBlocked {
    pub(crate) fn new() -> Self {
        let (all, mut before) = (u64::MAX, 0);
        // Calls the kernel directly: the C library leaves out the signals that it uses itself, and
        // their handlers may end the thread.
        // SAFETY: two signal sets.
        unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, SET);
        }
        Self { before, not_send: PhantomData }
    }
}

impl Drop for AllSignalsBlocked {
    fn drop(&mut self) {
        let none = ptr::null_mut::<u64>();
        // SAFETY: as above.
        unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const self.before, none, SET)
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::mem;

    use super::*;

    fn is_pending(signal: libc::c_int) -> bool {
        // SAFETY: a place for the answer, and a signal's number.
        unsafe {
            let mut pending = mem::zeroed();
            assert_eq!(libc::sigpending(&raw mut pending), 0);
            libc::sigismember(&raw const pending, signal) == 1
        }
    }

    /// In a thread of its own, whose mask it changes. The default action would end the process.
    #[test]
    fn a_write_leaves_no_signal_and_takes_none_of_the_programs() {
        let played = std::thread::spawn(|| {
            let (from, mut to) = io::pipe().unwrap();
            drop(from);
            let mut writes = || without_write_signals(|| to.write(b"x")).unwrap_err().kind();
            // SAFETY: a set, this thread's mask, and a signal for this thread.
            unsafe {
                let mut set = mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGPIPE);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
                assert_eq!((writes(), is_pending(libc::SIGPIPE)), (io::ErrorKind::BrokenPipe, false));
                libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE);
            }
            assert_eq!((writes(), is_pending(libc::SIGPIPE)), (io::ErrorKind::BrokenPipe, true));
        });
        played.join().unwrap();
    }

    /// A signal of the program comes while a thread writes, and the write succeeds.
    #[test]
    fn a_signal_that_comes_meanwhile_stays() {
        let played = std::thread::spawn(|| {
            // SAFETY: a set, this thread's mask, and a signal for this thread.
            unsafe {
                let mut set = mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGPIPE);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
                for error in [Ok(1), Err(libc::EAGAIN), Err(libc::EFBIG)] {
                    let result = without_write_signals(|| {
                        libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE);
                        error
                    });
                    assert_eq!((result, is_pending(libc::SIGPIPE)), (error, true));
                    take(&raw const set);
                }
            }
        });
        played.join().unwrap();
    }
}
