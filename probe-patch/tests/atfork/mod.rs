//! Counts the fork hooks of this process, by a `pthread_atfork` of its own.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

type Hook = Option<extern "C" fn()>;

static INSTALLED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn __register_atfork(before: Hook, parent: Hook, child: Hook, object: *mut c_void) -> c_int;
}

/// Takes the place of the C library's function, and has its effect.
#[unsafe(no_mangle)]
extern "C" fn pthread_atfork(before: Hook, parent: Hook, child: Hook) -> c_int {
    INSTALLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: functions of an object that stays.
    unsafe { __register_atfork(before, parent, child, ptr::null_mut()) }
}

/// Returns the number of hooks that were installed so far.
pub fn installed() -> u32 {
    INSTALLED.load(Ordering::Relaxed)
}
