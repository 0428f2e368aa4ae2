//! Services that concern the whole process: a call at its end, whether it has raised rights,
//! numbers that it shares with its children, and a right that one of its threads has at a time.

// Safety: relies on atexit(3), getauxval(3) and sysconf(3), and on mmap(2) and munmap(2) of a page
// of its own.
#![cfg_attr(all(any(unix, windows), not(miri)), expect(unsafe_code, reason = "see above"))]

#[cfg(all(unix, not(miri)))]
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::fork::process;

/// Makes `call` run once, when a thread calls `exit` or `main` returns. It does not run if the
/// process is killed, aborts, leaves by `_exit` or becomes another program. A forked child calls it
/// too, at its own end. Returns whether the system has accepted the call; it may lack memory. On a
/// system without such calls, this succeeds and does nothing.
pub(crate) fn at_exit(call: extern "C" fn()) -> bool {
    #[cfg(all(any(unix, windows), not(miri)))]
    // SAFETY: a function that stays: this code is kept loaded.
    return unsafe { libc::atexit(call) == 0 };
    #[cfg(not(all(any(unix, windows), not(miri))))]
    {
        let _ = call;
        true
    }
}

/// Returns whether the program's file gives it rights (setuid, setgid, capabilities) that its user
/// lacks, as far as the system tells. That user has chosen the program's environment.
pub(crate) fn has_raised_rights() -> bool {
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
    // SAFETY: no pointers.
    return unsafe { libc::getauxval(libc::AT_SECURE) != 0 };
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
    false
}

/// Returns whether the processor checks return addresses of this thread (user shadow stacks of
/// Linux, `arch/x86/shstk.rst`).
#[cfg(probe_values)]
pub(crate) fn has_shadow_stack() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"));
    features.is_some_and(|features| features.split_whitespace().any(|it| it == "shstk"))
}

/// Returns the length of a page, in bytes.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn page_size() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(all(unix, not(miri)))]
/// Numbers that the process shares with the children that it forks from then on. Zeros at first.
/// Each process that drops it unmaps its own view.
#[derive(Debug)]
pub(crate) struct SharedWords<const N: usize>(NonNull<[AtomicU32; N]>);

#[cfg(all(unix, not(miri)))]
// SAFETY: atomics, at an address that any thread may use.
unsafe impl<const N: usize> Send for SharedWords<N> {}

#[cfg(all(unix, not(miri)))]
impl<const N: usize> SharedWords<N> {
    /// Returns `None` if the system has no memory for that. Uses no heap.
    pub(crate) fn new() -> Option<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: maps memory at a free place.
        let start = unsafe { libc::mmap(ptr::null_mut(), size_of::<[AtomicU32; N]>(), rights, flags, -1, 0) };
        let is_mapped = start != libc::MAP_FAILED;
        NonNull::new(start.cast()).filter(|_| is_mapped).map(Self)
    }
}

#[cfg(all(unix, not(miri)))]
impl<const N: usize> std::ops::Deref for SharedWords<N> {
    type Target = [AtomicU32; N];

    fn deref(&self) -> &Self::Target {
        // SAFETY: mapped by `new` with zeros, which are atomics, and unmapped by the drop alone.
        unsafe { self.0.as_ref() }
    }
}

#[cfg(all(unix, not(miri)))]
impl<const N: usize> Drop for SharedWords<N> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no reference is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<[AtomicU32; N]>()) };
    }
}

/// A system without forks.
#[cfg(not(all(unix, not(miri))))]
#[derive(Debug)]
pub(crate) struct SharedWords<const N: usize>([AtomicU32; N]);

#[cfg(not(all(unix, not(miri))))]
impl<const N: usize> SharedWords<N> {
    pub(crate) fn new() -> Option<Self> {
        None
    }
}

#[cfg(not(all(unix, not(miri))))]
impl<const N: usize> std::ops::Deref for SharedWords<N> {
    type Target = [AtomicU32; N];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A lock that no thread waits for: the process whose thread has it, or 0. A forked child ignores a
/// lock that was taken in its parent.
pub(crate) struct TryLock(AtomicU64);

/// Releases the lock when it drops.
pub(crate) struct TryLockGuard<'a>(&'a AtomicU64);

impl TryLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes the lock, unless a thread of this process has it.
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_>> {
        let (holder, own) = (self.0.load(Ordering::Relaxed), process());
        let taken = || self.0.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Only where it was taken: one that is made and dropped releases the lock of another.
        if holder != own && taken() { Some(TryLockGuard(&self.0)) } else { None }
    }
}

impl Drop for TryLockGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let lock = TryLock::new();
        let guard = lock.try_lock();
        assert!(guard.is_some() && lock.try_lock().is_none());
        assert!(lock.try_lock().is_none(), "a refused attempt releases nothing");
        drop(guard);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_forked_child_ignores_its_parents_lock() {
        let lock = TryLock(AtomicU64::new(process() ^ 1));
        assert!(lock.try_lock().is_some());
    }
}
