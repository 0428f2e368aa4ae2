//! A handler on top of a program's own, for a signal that the processor raises.
//!
//! A signal that is not for this crate goes to the previous handler, as if that one stood alone:
//! with its mask, its flags, or its default action.

// Safety: relies on sigaction(2) and the frames that the kernel hands to handlers.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A handler that was installed with `SA_SIGINFO`.
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// A handler, and the action that it was installed over. No lock guards these: a fork would leave
/// it taken.
pub struct Chained {
    signal: libc::c_int,
    handler: Handler,
    /// The previous action; never freed.
    previous: AtomicPtr<libc::sigaction>,
    /// Whether `SA_RESETHAND` of the previous handler has had its effect.
    is_reset: AtomicBool,
}

impl Chained {
    /// Returns a handler that is not installed yet. It does only what a signal handler may.
    pub const fn new(signal: libc::c_int, handler: Handler) -> Self {
        let previous = AtomicPtr::new(ptr::null_mut());
        Self { signal, handler, previous, is_reset: AtomicBool::new(false) }
    }

    /// Returns the handler as sigaction(2) has it.
    pub fn handler(&self) -> libc::sighandler_t {
        self.handler as libc::sighandler_t
    }

    /// Installs the handler, unless it is installed already. It stays installed.
    ///
    /// # Errors
    /// The system's.
    pub fn install(&'static self) -> io::Result<()> {
        let before = self.action()?;
        if before.sa_sigaction == self.handler() {
            return Ok(());
        }
        // Stored before the handler can run.
        self.remember(before);
        // SAFETY: zeroes are an action with an empty mask.
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = self.handler();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let mut replaced = MaybeUninit::uninit();
        // No signal interrupts the handler, but a patch's trap, which would kill the process.
        // SAFETY: whole actions, a mask, and a place; see `new`.
        let result = unsafe {
            libc::sigfillset(&raw mut ours.sa_mask);
            if self.signal != libc::SIGTRAP {
                libc::sigdelset(&raw mut ours.sa_mask, libc::SIGTRAP);
            }
            libc::sigaction(self.signal, &raw const ours, replaced.as_mut_ptr())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has filled it.
        let replaced = unsafe { replaced.assume_init() };
        if replaced.sa_sigaction != before.sa_sigaction && replaced.sa_sigaction != self.handler() {
            // Another thread was faster.
            self.remember(replaced);
        }
        Ok(())
    }

    fn remember(&self, action: libc::sigaction) {
        self.previous.store(Box::into_raw(Box::new(action)), Ordering::Release);
    }

    fn action(&self) -> io::Result<libc::sigaction> {
        let mut action = MaybeUninit::uninit();
        // SAFETY: a place for the action.
        match unsafe { libc::sigaction(self.signal, ptr::null(), action.as_mut_ptr()) } {
            // SAFETY: the call has filled it.
            0 => Ok(unsafe { action.assume_init() }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Passes a signal on to the previous handler. Async-signal-safe.
    ///
    /// # Safety
    /// The arguments are those of the handler, which runs.
    pub unsafe fn pass_on(&self, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's own structure, valid while the handler runs.
        let is_sent = unsafe { (*info).si_code } <= 0;
        // SAFETY: null, or an action that stays.
        let previous = unsafe { self.previous.load(Ordering::Acquire).as_ref() };
        let Some(previous) = previous.filter(|_| !self.is_reset.load(Ordering::Relaxed)) else {
            return self.default_action();
        };
        match previous.sa_sigaction {
            // A signal that the processor raises can't be ignored: the kernel then takes the
            // default action.
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => self.default_action(),
            _ => self.call(previous, info, context),
        }
    }

    /// Calls the previous handler as the kernel would.
    fn call(&self, previous: &libc::sigaction, info: *mut libc::siginfo_t, context: *mut c_void) {
        if previous.sa_flags & libc::SA_RESETHAND != 0 {
            self.is_reset.store(true, Ordering::Relaxed);
        }
        let mut mask = previous.sa_mask;
        let mut before = MaybeUninit::uninit();
        // SAFETY: whole masks; these calls are async-signal-safe.
        unsafe {
            if previous.sa_flags & libc::SA_NODEFER == 0 {
                libc::sigaddset(&raw mut mask, self.signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, before.as_mut_ptr());
            if previous.sa_flags & libc::SA_NODEFER != 0 {
                let mut own = mask;
                libc::sigemptyset(&raw mut own);
                libc::sigaddset(&raw mut own, self.signal);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const own, ptr::null_mut());
            }
        }
        if previous.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the code that installed it with SA_SIGINFO gave such a function.
            let handler: Handler = unsafe { std::mem::transmute(previous.sa_sigaction) };
            handler(self.signal, info, context);
        } else {
            // SAFETY: the code that installed it without SA_SIGINFO gave such a function.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(previous.sa_sigaction) };
            handler(self.signal);
        }
        // SAFETY: `before` was filled above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }

    /// Ends the process as the signal's default action does. The signal is blocked here, so it
    /// takes effect when the handler returns.
    fn default_action(&self) {
        // SAFETY: zeroes are the default action; raising is async-signal-safe.
        unsafe {
            let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(self.signal, &raw const default, ptr::null_mut());
            libc::raise(self.signal);
        }
    }
}
