//! Threads: who is running, who has ended.

// Safety: relies on calls whose pointers are a function of ours and the thread's own errno.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};

/// The kernel's id of this thread.
pub(crate) fn id() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { libc::syscall(libc::SYS_gettid) }.try_into().unwrap_or(u32::MAX)
}

/// Whether the thread with this id still exists in this process.
pub(crate) fn is_alive(id: u32) -> bool {
    // SAFETY: signal 0 is not delivered, only checked.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) };
    // Any other error says nothing of the thread.
    answer == 0 || errno() != libc::ESRCH
}

/// How many keys' values glibc keeps in the thread itself, so that setting one does not allocate.
const INLINE_KEYS: i64 = 32;
const NO_KEY: i64 = -1;

static KEY: AtomicI64 = AtomicI64::new(NO_KEY);

/// Prepares [`on_exit`]: `call` gets the value when a thread that set one ends.
pub(crate) fn install(call: unsafe extern "C" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: `key` is a place for the result; `call` is a function.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(call)) } == 0 {
        let previous = KEY.compare_exchange(NO_KEY, key.into(), Ordering::AcqRel, Ordering::Acquire);
        if previous.is_err() {
            // SAFETY: another thread was faster; nobody has used this key.
            unsafe { libc::pthread_key_delete(key) };
        }
    }
}

/// Whether [`on_exit`] works: there is a key, and one that does not allocate. Where not, [`is_alive`] tells.
pub(crate) fn tells_exit() -> bool {
    (0..INLINE_KEYS).contains(&KEY.load(Ordering::Acquire))
}

/// Hands `value` to the installed call when this thread ends.
pub(crate) fn on_exit(value: *mut c_void) {
    if let (true, Ok(key)) = (tells_exit(), KEY.load(Ordering::Acquire).try_into()) {
        // SAFETY: the key was created by `install` and is never deleted.
        unsafe { libc::pthread_setspecific(key, value) };
    }
}

/// The thread's error number, which a hit must not change.
pub(crate) fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Puts the error number back.
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}
