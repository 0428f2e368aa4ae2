//! A handler on top of a program's own, for a signal that the processor raises.
//!
//! A signal that is not for this crate goes to the previous handler, as if that one stood alone:
//! with its mask, its flags, or its default action.

// Safety: relies on sigaction(2) and the frames that the kernel hands to handlers.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::{io, ptr};

/// A handler that was installed with `SA_SIGINFO`.
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// All handlers of this kind that were installed; null in free places.
static HANDLERS: [AtomicPtr<ChainedHandler>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

/// A handler, and the action that it was installed over. No lock guards these: a fork would leave
/// it taken.
pub struct ChainedHandler {
    signal: libc::c_int,
    handler: Handler,
    /// The previous action; never freed.
    previous: AtomicPtr<libc::sigaction>,
    /// Whether `SA_RESETHAND` of the previous handler has had its effect.
    is_reset: AtomicBool,
}

impl ChainedHandler {
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
        self.set_previous(before);
        self.register();
        // SAFETY: zeroes are an action with an empty mask.
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = self.handler();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let mut replaced = MaybeUninit::uninit();
        // No signal interrupts the handler, but a patch's trap, which would kill the process.
        // SAFETY: `ours` is initialised, `replaced` is a valid out-pointer, and the handler is
        // async-signal-safe (see `new`).
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
            self.set_previous(replaced);
        }
        Ok(())
    }

    /// Returns whether signals get to the handler when this one has them first: it is this one, or
    /// one of this kind, which passes them on.
    pub fn is_reached_from(&self, first: libc::sighandler_t) -> bool {
        let listed = |handler| {
            // SAFETY: null, or a handler that stays.
            let all = HANDLERS.iter().filter_map(|it| unsafe { it.load(Ordering::Acquire).as_ref() });
            { all }.find(|it| it.signal == self.signal && it.handler() == handler)
        };
        let mut handler = first;
        for _ in &HANDLERS {
            if handler == self.handler() {
                return true;
            }
            let Some(outer) = listed(handler) else { return false };
            // SAFETY: null, or an action that stays.
            let Some(inner) = (unsafe { outer.previous.load(Ordering::Acquire).as_ref() }) else {
                return false;
            };
            handler = inner.sa_sigaction;
        }
        false
    }

    fn register(&'static self) {
        let own = ptr::from_ref(self).cast_mut();
        let is_listed = |place: &AtomicPtr<Self>| {
            let put = place.compare_exchange(ptr::null_mut(), own, Ordering::AcqRel, Ordering::Acquire);
            put.is_ok() || put == Err(own)
        };
        HANDLERS.iter().any(is_listed);
    }

    fn set_previous(&self, action: libc::sigaction) {
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
        let code = unsafe { (*info).si_code };
        let is_sent = code <= 0;
        // SAFETY: null, or an action that stays.
        let previous = unsafe { self.previous.load(Ordering::Acquire).as_ref() };
        let Some(previous) = previous.filter(|_| !self.is_reset.load(Ordering::Relaxed)) else {
            return self.default_action(code);
        };
        match previous.sa_sigaction {
            // A signal that the processor raises can't be ignored: the kernel then takes the
            // default action.
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => self.default_action(code),
            _ => self.call(previous, info, context),
        }
    }

    /// Returns the mask that the previous handler would have if it stood alone: that of the
    /// interrupted code, the handler's own one, and its signal.
    fn mask(&self, previous: &libc::sigaction, context: *const libc::ucontext_t) -> libc::sigset_t {
        let mut mask = previous.sa_mask;
        // SAFETY: `mask` is initialised, and its first word has the signals. The context is the
        // kernel's own, valid while the handler runs; it may have no more than that word.
        unsafe {
            if previous.sa_flags & libc::SA_NODEFER == 0 {
                libc::sigaddset(&raw mut mask, self.signal);
            }
            let interrupted = (&raw const (*context).uc_sigmask).cast::<u64>().read_unaligned();
            let word = (&raw mut mask).cast::<u64>();
            word.write_unaligned(word.read_unaligned() | interrupted);
        }
        mask
    }

    /// Calls the previous handler as the kernel would.
    fn call(&self, previous: &libc::sigaction, info: *mut libc::siginfo_t, context: *mut c_void) {
        if previous.sa_flags & libc::SA_RESETHAND != 0 {
            self.is_reset.store(true, Ordering::Relaxed);
        }
        let mask = self.mask(previous, context.cast());
        let mut before = MaybeUninit::uninit();
        // SAFETY: `mask` is initialised, `before` is a valid out-pointer; async-signal-safe.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, before.as_mut_ptr()) };
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

    /// Ends the process as the signal's default action does, when the handler returns: a fault is
    /// raised anew then, so that a core file has its address. All others are raised here, where
    /// they are blocked.
    fn default_action(&self, code: libc::c_int) {
        let comes_again = match self.signal {
            libc::SIGSEGV => code > 0,
            libc::SIGBUS => (libc::BUS_ADRALN..=libc::BUS_OBJERR).contains(&code),
            _ => false,
        };
        // SAFETY: zeroes are the default action; raising is async-signal-safe.
        unsafe {
            let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(self.signal, &raw const default, ptr::null_mut());
            if !comes_again {
                libc::raise(self.signal);
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    static SEEN: AtomicU64 = AtomicU64::new(0);
    static DEFERS: ChainedHandler = ChainedHandler::new(libc::SIGUSR1, first);
    static NODEFER: ChainedHandler = ChainedHandler::new(libc::SIGURG, second);

    extern "C" fn first(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the handler's arguments.
        unsafe { DEFERS.pass_on(info, context) };
    }

    extern "C" fn second(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the handler's arguments.
        unsafe { NODEFER.pass_on(info, context) };
    }

    extern "C" fn programs(_: libc::c_int) {
        SEEN.store(word(blocked()), Ordering::Relaxed);
    }

    /// Returns the mask of this thread.
    fn blocked() -> libc::sigset_t {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: a place for the mask, which the call fills.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
            mask.assume_init()
        }
    }

    /// Returns the signals of a mask, a bit each.
    fn word(mask: libc::sigset_t) -> u64 {
        // SAFETY: a whole mask.
        (1..=64)
            .filter(|it| unsafe { libc::sigismember(&raw const mask, *it) } == 1)
            .map(|it| 1 << (it - 1))
            .sum()
    }

    fn set(signals: &[libc::c_int]) -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: a place for the set, which the first call fills.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            signals.iter().for_each(|it| _ = libc::sigaddset(set.as_mut_ptr(), *it));
            set.assume_init()
        }
    }

    /// Returns the signals that the program's handler has blocked.
    fn seen(signal: libc::c_int) -> u64 {
        // SAFETY: the signal has a handler.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
        SEEN.swap(0, Ordering::Relaxed)
    }

    #[test]
    fn a_handler_is_reached_through_one_on_top() {
        static INNER: ChainedHandler = ChainedHandler::new(libc::SIGIO, first);
        static OUTER: ChainedHandler = ChainedHandler::new(libc::SIGIO, second);
        INNER.install().unwrap();
        assert!(INNER.is_reached_from(INNER.handler()));
        assert!(!INNER.is_reached_from(OUTER.handler()), "it is not installed");
        OUTER.install().unwrap();
        assert!(INNER.is_reached_from(OUTER.handler()) && OUTER.is_reached_from(OUTER.handler()));
        assert!(!OUTER.is_reached_from(INNER.handler()) && !INNER.is_reached_from(libc::SIG_DFL));
    }

    #[test]
    fn the_programs_handler_has_the_mask_that_it_would_have_alone() {
        let before = blocked();
        for (chained, flags) in [(&DEFERS, 0), (&NODEFER, libc::SA_NODEFER)] {
            // SAFETY: zeroes are an action with an empty mask; whole actions and masks.
            unsafe {
                let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                action.sa_sigaction = programs as *const () as libc::sighandler_t;
                action.sa_flags = flags;
                action.sa_mask = set(&[libc::SIGUSR2, libc::SIGRTMAX()]);
                assert_eq!(libc::sigaction(chained.signal, &raw const action, ptr::null_mut()), 0);
                let more = set(&[libc::SIGWINCH]);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const more, ptr::null_mut());
            }
            let alone = seen(chained.signal);
            assert_eq!(alone & 1 << (chained.signal - 1) == 0, flags == libc::SA_NODEFER);
            chained.install().unwrap();
            assert_eq!(seen(chained.signal), alone);
            assert_eq!(word(blocked()), word(before) | word(set(&[libc::SIGWINCH])));
        }
        // SAFETY: a whole mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    }
}
