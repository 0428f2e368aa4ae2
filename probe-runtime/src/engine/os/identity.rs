//! Tells whose file a descriptor is.
//!
//! A program may close descriptors that it does not know, all of them to become a daemon, and get
//! the same numbers for its own files. So code whose descriptors stay open for long compares the
//! file behind the number before it uses or closes it.

// Safety: relies on fstat(2) and getrlimit(2), which write to one place.
#![expect(unsafe_code, reason = "see above")]

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// The device and the number there of a file, which no other file has while this one is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(libc::dev_t, libc::ino_t);

impl Identity {
    /// Returns that of the file behind a number, if there is one. Async-signal-safe; changes errno.
    pub(crate) fn of(descriptor: RawFd) -> Option<Self> {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a place for the answer, which is initialised if the call succeeds.
        unsafe {
            let is_told = libc::fstat(descriptor, stat.as_mut_ptr()) == 0;
            is_told.then(|| {
                let stat = stat.assume_init();
                Self(stat.st_dev, stat.st_ino)
            })
        }
    }
}

/// Returns the number from which descriptors that stay open for long are chosen.
pub(crate) fn high() -> RawFd {
    /// The kernel's table of a process's files ends with the highest number, and each fork copies
    /// the table.
    const HIGH: libc::rlim_t = 1024;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the result.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let from = if is_known { (limit.rlim_cur / 2).min(HIGH) } else { 0 };
    RawFd::try_from(from).unwrap_or_default()
}
