//! Threads that run no signal handlers of the program, and that wake on time.

// Safety: relies on calls that read and write signal sets of this thread, and one that takes
// numbers.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that the kernel raises for the thread's own faults. If they were blocked, they would end
/// the process.
const OWN: [libc::c_int; 6] =
    [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// A guard. While it lives, this thread takes only signals for its own faults, and so do threads
/// that it starts, for their whole lives. The C library's internal signals, by which it reaches all
/// threads, stay unblocked.
pub(crate) struct Masked {
    before: Option<libc::sigset_t>,
    // The signal mask belongs to one thread.
    not_send: PhantomData<*mut ()>,
}

impl Masked {
    pub(crate) fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` makes a set, from which signals are removed; if the last call
        // succeeds, it has written `before`.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in OWN {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            let is_set = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) == 0;
            is_set.then(|| before.assume_init())
        };
        Self { before, not_send: PhantomData }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: a set that the C library made.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
        }
    }
}

/// Makes this thread's sleeps end on time. By default the kernel may make them 50 µs longer, to
/// wake several threads at once (prctl(2), `PR_SET_TIMERSLACK`).
#[cfg(any(feature = "profiler", feature = "trace"))]
pub(crate) fn wake_in_time() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: no pointers. If it fails, sleeps last longer.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}
