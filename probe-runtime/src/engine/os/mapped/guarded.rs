//! Mapped files that another program may cut off. The kernel raises `SIGBUS` where a thread touches
//! memory behind the file's end. A handler then puts zeroed private memory there, so that the
//! program goes on.
//!
//! The handler is installed once, on top of the program's own, which gets all other signals. It
//! does not help a thread that blocks `SIGBUS`, nor if the program later installs a handler that
//! does not pass signals on.

// Safety: relies on entries that live for ever, and on replacing own mappings alone.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use probe_patch::__runtime::os::chained_handler::ChainedHandler;

use super::{KeptErrno, Parts};

static CHAINED: ChainedHandler = ChainedHandler::new(libc::SIGBUS, handle);

/// A range of memory that is a file's. Entries live for ever, and are used again.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    is_taken: AtomicBool,
    start: AtomicUsize,
    first: AtomicUsize,
    other: AtomicUsize,
    /// Bytes of all; 0 if there is no range.
    all: AtomicUsize,
    is_cut_off: AtomicBool,
    next: AtomicPtr<Guarded>,
}

/// All entries, newest first.
static ALL: AtomicPtr<Guarded> = AtomicPtr::new(ptr::null_mut());

fn all() -> impl Iterator<Item = &'static Guarded> {
    // SAFETY: null, or an entry, which lives for ever.
    let at = |entry: &AtomicPtr<Guarded>| unsafe { entry.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&ALL), move |entry| at(&entry.next))
}

/// Returns an entry without a range, and installs the handler.
///
/// # Errors
/// The system's.
pub(super) fn reserve() -> io::Result<&'static Guarded> {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Once: a handler on top of this one may pass signals on to it, and would get them back.
    if !IS_INSTALLED.load(Ordering::Acquire) {
        CHAINED.install()?;
        IS_INSTALLED.store(true, Ordering::Release);
    }
    if let Some(free) = all().find(|entry| !entry.is_taken.swap(true, Ordering::AcqRel)) {
        return Ok(free);
    }
    let new: &'static Guarded = Box::leak(Box::new(Guarded { is_taken: true.into(), ..Guarded::default() }));
    let mut first = ALL.load(Ordering::Acquire);
    loop {
        new.next.store(first, Ordering::Relaxed);
        let own = ptr::from_ref(new).cast_mut();
        match ALL.compare_exchange(first, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(new),
            Err(newer) => first = newer,
        }
    }
}

impl Guarded {
    /// Guards this memory from now on.
    pub(super) fn guard(&self, start: usize, parts: Parts) {
        self.forget();
        self.start.store(start, Ordering::Relaxed);
        self.first.store(parts.first, Ordering::Relaxed);
        self.other.store(parts.other, Ordering::Relaxed);
        self.all.store(parts.all, Ordering::Release);
    }

    /// Gives the entry back. The memory is still mapped, and no thread uses it.
    pub(super) fn give_back(&self) {
        self.all.store(0, Ordering::Release);
        self.is_taken.store(false, Ordering::Release);
    }

    /// Forgets that a file was cut off, where another one takes its place.
    pub(super) fn forget(&self) {
        self.is_cut_off.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    /// Returns the part that has this address, as its place and its length.
    fn part(&self, address: usize) -> Option<(usize, usize)> {
        let all = self.all.load(Ordering::Acquire);
        let at = address.checked_sub(self.start.load(Ordering::Relaxed)).filter(|at| *at < all)?;
        let (first, other) = (self.first.load(Ordering::Relaxed), self.other.load(Ordering::Relaxed));
        let (from, len) = match at.checked_sub(first) {
            Some(behind) => (first + behind / other * other, other),
            None => (0, first),
        };
        Some((self.start.load(Ordering::Relaxed) + from, len))
    }

    /// Puts private memory in place of the part that has this address. Returns whether there is
    /// one.
    fn replace(&self, address: usize) -> bool {
        let Some((start, len)) = self.part(address) else { return false };
        self.is_cut_off.store(true, Ordering::Relaxed);
        super::map(start, len, libc::MAP_FIXED | libc::MAP_NORESERVE, None).is_ok()
    }
}

extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel's own structure, valid while the handler runs.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // The kernel raised it, for an address behind a file's end.
    let is_replaced = code == libc::BUS_ADRERR && all().any(|entry| entry.replace(address));
    if !is_replaced {
        // SAFETY: the kernel's own structures, which this handler was given.
        unsafe { CHAINED.pass_on(info, context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_a_part() {
        let entry = Guarded::default();
        assert_eq!(entry.part(0), None);
        entry.guard(100, Parts { first: 10, other: 20, all: 50 });
        let parts = [99, 100, 109, 110, 129, 130, 149, 150].map(|address| entry.part(address));
        let (front, one, two) = (Some((100, 10)), Some((110, 20)), Some((130, 20)));
        assert_eq!(parts, [None, front, front, one, one, two, two, None]);
        entry.give_back();
        assert_eq!(entry.part(100), None);
    }
}
