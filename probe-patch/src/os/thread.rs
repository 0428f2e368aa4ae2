//! Threads: their ids, names, error numbers and ends.

// Safety: relies on calls whose pointers are this module's functions and buffers, and the thread's
// own errno.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};

/// Returns the kernel's id of this thread.
pub fn id() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { libc::syscall(libc::SYS_gettid) }.try_into().unwrap_or(u32::MAX)
}

/// Returns the kernel's id of this process. It does not call the C library's function, which a
/// program may replace by one with probes in it.
pub fn process() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { libc::syscall(libc::SYS_getpid) }.try_into().unwrap_or(u32::MAX)
}

/// Returns when the thread with this id began, in clock ticks since the system started, or 0 if the
/// system does not tell. With the id, this identifies a thread: the kernel reuses ids, but not
/// within one tick. It takes no heap, since an allocator may call it. Cost: three system calls.
pub fn birth(id: u32) -> u64 {
    let mut path = *b"/proc/self/task/0000000000/stat\0";
    let digits = &mut path[16..26];
    let mut rest = id;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    // The kernel wants no leading zeros.
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    path.copy_within(16 + zeros.., 16);
    let mut text = [0; 512];
    // SAFETY: the path ends with a zero; the kernel writes at most `text.len()` bytes; the file is
    // closed.
    let read = unsafe {
        let flags = i64::from(libc::O_RDONLY | libc::O_CLOEXEC);
        // Not through the C library's functions, which a program may replace by ones with probes in
        // them.
        let file = libc::syscall(libc::SYS_openat, i64::from(libc::AT_FDCWD), path.as_ptr(), flags, 0_i64);
        if file < 0 {
            return 0;
        }
        let read = libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_close, file);
        read
    };
    start_time(&text[..usize::try_from(read).unwrap_or_default()]).unwrap_or_default()
}

/// Returns field 22 of a `stat` file, see `proc_pid_stat(5)`. Field 2 is a name in parentheses, and
/// may hold any bytes. Pure.
fn start_time(stat: &[u8]) -> Option<u64> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let field = stat[name_end + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(19)?;
    str::from_utf8(field).ok()?.parse().ok()
}

/// Returns whether the thread that had this id, and began then (0: unknown), still exists in this
/// process.
pub fn is_alive(id: u32, began: u64) -> bool {
    // SAFETY: signal 0 is not delivered, only checked.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process(), id, 0) };
    // Other errors do not tell whether the thread exists.
    let exists = answer == 0 || errno() != libc::ESRCH;
    exists && (began == 0 || [0, began].contains(&birth(id)))
}

/// Returns the name of this thread, ended by zeros.
pub fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::syscall(libc::SYS_prctl, i64::from(libc::PR_GET_NAME), name.as_mut_ptr(), 0, 0, 0) };
    name
}

/// Number of keys whose values glibc keeps in the thread itself, so that setting one does not
/// allocate.
const INLINE_KEYS: i64 = 32;
const NO_KEY: i64 = -1;

static KEY: AtomicI64 = AtomicI64::new(NO_KEY);

/// Prepares [`on_exit`]: `call` gets the value when a thread that has set one ends.
pub fn install(call: unsafe extern "C" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: `key` is a place for the result; `call` is a function.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(call)) } == 0 {
        let previous = KEY.compare_exchange(NO_KEY, key.into(), Ordering::AcqRel, Ordering::Acquire);
        if previous.is_err() {
            // SAFETY: another thread was faster; no code has used this key.
            unsafe { libc::pthread_key_delete(key) };
        }
    }
}

/// Returns whether [`on_exit`] works: there is a key, and setting its value does not allocate.
/// Otherwise, use [`is_alive`].
pub fn tells_exit() -> bool {
    (0..INLINE_KEYS).contains(&KEY.load(Ordering::Acquire))
}

/// Makes the installed call get `value` when this thread ends.
///
/// # Safety
/// The installed call accepts `value`.
pub unsafe fn on_exit(value: *mut c_void) {
    if let (true, Ok(key)) = (tells_exit(), KEY.load(Ordering::Acquire).try_into()) {
        // SAFETY: the key was created by `install` and is never deleted.
        unsafe { libc::pthread_setspecific(key, value) };
    }
}

/// Returns the thread's error number, which a hit must not change.
#[inline]
pub fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's error number.
#[inline]
pub fn set_errno(errno: i32) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns the address of this thread's error number, valid for as long as the thread lives.
#[inline]
pub fn errno_place() -> *mut i32 {
    // SAFETY: no arguments, no effect.
    unsafe { libc::__errno_location() }
}

/// A saved error number of this thread, and its address.
pub struct Errno {
    at: *mut i32,
    value: i32,
}

impl Errno {
    /// Saves the present error number.
    ///
    /// # Safety
    /// `at` is this thread's [`errno_place`].
    #[inline(always)]
    pub unsafe fn keep(at: *mut i32) -> Self {
        // SAFETY: the thread's own errno, whose address stays the same until the thread ends.
        Self { at, value: unsafe { *at } }
    }

    /// Restores the error number.
    #[inline(always)]
    pub fn restore(self) {
        // SAFETY: this thread's errno, at the address that `keep` got. The pointer makes this type
        // neither `Send` nor `Sync`, so the thread is the same.
        unsafe { *self.at = self.value };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_start_is_field_22() {
        let stat = b"7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12345 20 21";
        assert_eq!(start_time(stat), Some(12345));
        assert_eq!(start_time(b"7 (a"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc by system call numbers")]
    fn who_has_an_id_again_is_another() {
        let own = birth(id());
        assert_ne!(own, 0, "/proc is mounted");
        assert!(is_alive(id(), own));
        assert!(is_alive(id(), 0), "unknown");
        assert!(!is_alive(id(), own + 1), "the thread that began then is gone");
        assert_eq!(birth(u32::MAX), 0);
        let ended = std::thread::spawn(id).join().unwrap();
        let is_gone = (0..60_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !is_alive(ended, 0)
        });
        assert!(is_gone);
    }

    proptest! {
        #[test]
        fn never_panics(stat: Vec<u8>) {
            let _ = start_time(&stat);
        }
    }
}
