//! A file as memory, beside private memory that a forked child finds empty.
//!
//! Life: [`MappedFile::new`] reserves addresses for both ▸ a [`NewFile`] is made, its room on the
//! disk is reserved, and [`MappedFile::put`] maps it ▸ a drop unmaps all. A forked child, however
//! it was forked, has its parent's file in the second part, and zeros in the first one. So it knows
//! that it is a child before it writes, and puts another file there.
//!
//! Another program may cut the file off. The kernel then raises `SIGBUS` where a thread touches
//! memory behind the file's end. A handler puts zeroed private memory there, and the program
//! continues. The handler is installed once, on top of the program's own, which gets all other
//! signals. It does not help a thread that blocks `SIGBUS`, nor if the program later installs a
//! handler that does not pass signals on.
//!
//! Nothing here uses the heap but [`MappedFile::new`], and nothing takes a lock, so hits may call
//! it.

// Safety: relies on mmap(2), madvise(2) and calls on descriptors of its own, on guards that live
// for ever, and on replacing own mappings alone.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::{io, ptr};

use probe_patch::__runtime::os::chained_handler::ChainedHandler;

use super::guarded_file::Identity;
pub(crate) use super::process::page_size;
use super::signal_mask::{SignalsBlocked, without_write_signals};

/// Addresses for private memory and, directly behind it, a file's.
#[derive(Debug)]
pub(crate) struct MappedFile {
    start: usize,
    private: usize,
    shared: usize,
    guard: &'static SigbusGuard,
}

/// The parts of a file that are replaced as a whole where the file is cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartSizes {
    /// Bytes of the first one.
    pub(crate) first: usize,
    /// Bytes of each other one.
    pub(crate) other: usize,
    /// Bytes of all.
    pub(crate) all: usize,
}

impl MappedFile {
    /// Reserves addresses. All sizes are multiples of [`page_size`].
    ///
    /// # Errors
    /// The system's; [`Unsupported`](io::ErrorKind::Unsupported) if the kernel does not empty
    /// memory in children (before Linux 4.14).
    pub(crate) fn new(private: usize, shared: PartSizes) -> io::Result<Self> {
        let len = private.checked_add(shared.all).ok_or(io::ErrorKind::OutOfMemory)?;
        let guard = reserve()?;
        let start = map(0, len, libc::MAP_NORESERVE, None).inspect_err(|_| guard.release());
        let start = start.map_err(io::Error::from_raw_os_error)?;
        let mapped = Self { start, private, shared: shared.all, guard };
        // A huge page for a few words would be a waste. The kernel may refuse this advice.
        advise(start, len, libc::MADV_NOHUGEPAGE);
        if !advise(start, private, libc::MADV_WIPEONFORK) {
            let problem = "the kernel can't keep a child's memory apart; this needs Linux 4.14";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        guard.begin(start + private, shared);
        Ok(mapped)
    }

    /// Returns the address of the private memory.
    pub(crate) fn private_start(&self) -> usize {
        self.start
    }

    /// Returns the address of the file's memory.
    pub(crate) fn shared_start(&self) -> usize {
        self.start + self.private
    }

    /// Maps the file, in place of the previous one.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn put(&self, file: &NewFile) -> Result<(), i32> {
        self.guard.reset();
        map(self.shared_start(), self.shared, libc::MAP_FIXED, Some(file)).map(drop)
    }

    /// Puts private memory in place of the file.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn put_private(&self) -> Result<(), i32> {
        map(self.shared_start(), self.shared, libc::MAP_FIXED | libc::MAP_NORESERVE, None).map(drop)
    }

    /// Returns whether another program has cut the file off, as far as a thread has noticed.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.guard.is_cut_off()
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        self.guard.release();
        // SAFETY: mapped by `new`; no code uses it any more.
        unsafe { libc::syscall(libc::SYS_munmap, self.start, self.private + self.shared) };
    }
}

/// Maps private memory, or the file; with `MAP_FIXED`, at this place.
fn map(place: usize, len: usize, flags: libc::c_int, file: Option<&NewFile>) -> Result<usize, i32> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (kind, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.checked()?),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let place = ptr::with_exposed_provenance_mut(place);
    // SAFETY: a new mapping, or one in place of an own one.
    let start = unsafe { libc::mmap(place, len, rights, kind | flags, descriptor, 0) };
    if start == libc::MAP_FAILED { Err(errno()) } else { Ok(start.expose_provenance()) }
}

fn advise(start: usize, len: usize, advice: libc::c_int) -> bool {
    // SAFETY: an own mapping, of which nothing is in use yet.
    unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), len, advice) == 0 }
}

fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// A file that was just made. It is closed when this is dropped, unless the program has done so; a
/// mapping of it stays.
#[derive(Debug)]
pub(crate) struct NewFile {
    descriptor: libc::c_int,
    own: Option<Identity>,
}

impl NewFile {
    /// Creates a file that nobody has.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn create(path: &CStr) -> Result<Self, i32> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: a path, and the rights that other new files have.
        let file = unsafe { libc::open64(path.as_ptr(), flags, 0o666 as libc::mode_t) };
        if file < 0 { Err(errno()) } else { Ok(Self { descriptor: file, own: Identity::of(file) }) }
    }

    /// Returns the descriptor, if it is still this file's.
    ///
    /// # Errors
    /// `EBADF`: the program has closed it, and may have another file by its number.
    fn checked(&self) -> Result<libc::c_int, i32> {
        let is_own = self.own.is_some() && Identity::of(self.descriptor) == self.own;
        if is_own { Ok(self.descriptor) } else { Err(libc::EBADF) }
    }

    /// Returns the file's number.
    pub(crate) fn id(&self) -> FileId {
        let mut told = MaybeUninit::uninit();
        // SAFETY: an own file, and a place for the answer; see `id`.
        let told =
            unsafe { (libc::fstat64(self.descriptor, told.as_mut_ptr()) == 0).then(|| told.assume_init()) };
        told.map(|told| id_of(&told)).unwrap_or_default()
    }

    /// Reserves room on the disk for this number of bytes, so that no store meets a full disk.
    ///
    /// # Errors
    /// The system's error number; `ENOSPC` if the disk has no such room.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), i32> {
        // Some systems fill the disk before they notice, which other programs would feel.
        if self.free().is_some_and(|free| free < bytes as u128) {
            return Err(libc::ENOSPC);
        }
        let length = libc::off64_t::try_from(bytes).map_err(|_| libc::EFBIG)?;
        // A signal ends the call, and some systems of files (tmpfs) then begin anew: with a signal
        // every few milliseconds it would never end.
        let _masked = SignalsBlocked::new();
        loop {
            let file = self.checked()?;
            let reserve = || {
                // SAFETY: an own file.
                if unsafe { libc::fallocate64(file, 0, 0, length) } == 0 { Ok(()) } else { Err(errno()) }
            };
            match without_write_signals(reserve) {
                Err(libc::EINTR) => (),
                Err(libc::EOPNOTSUPP) => return self.fill(bytes),
                reserved => return reserved,
            }
        }
    }

    /// Writes zeros, for systems of files that reserve nothing.
    fn fill(&self, bytes: usize) -> Result<(), i32> {
        const ZEROS: [u8; 4096] = [0; 4096];
        (0..bytes)
            .step_by(ZEROS.len())
            .try_for_each(|at| self.write(&ZEROS[..(bytes - at).min(ZEROS.len())], at))
    }

    /// Returns the free bytes of the disk, if the system tells. It tells nothing of a disk that has
    /// no size.
    fn free(&self) -> Option<u128> {
        let mut told = MaybeUninit::<libc::statvfs64>::uninit();
        // SAFETY: a place for the answer, which is initialised if the call succeeds.
        let told = unsafe {
            (libc::fstatvfs64(self.checked().ok()?, told.as_mut_ptr()) == 0).then(|| told.assume_init())
        }?;
        if told.f_blocks == 0 {
            return None;
        }
        u128::from(told.f_bavail).checked_mul(told.f_frsize.into())
    }

    /// Writes the bytes at a place of the file.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn write(&self, bytes: &[u8], at: usize) -> Result<(), i32> {
        self.write_from(bytes.as_ptr(), bytes.len(), at)
    }

    /// Writes words, into which other threads may store meanwhile, at a place of the file.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn write_words(&self, words: &[AtomicU64], at: usize) -> Result<(), i32> {
        self.write_from(words.as_ptr().cast(), size_of_val(words), at)
    }

    fn write_from(&self, start: *const u8, length: usize, at: usize) -> Result<(), i32> {
        let mut done = 0;
        while done < length {
            let place = libc::off64_t::try_from(at + done).map_err(|_| libc::EFBIG)?;
            let file = self.checked()?;
            let write = || {
                // SAFETY: an own file. The kernel alone reads the memory, which the callers have.
                let written =
                    unsafe { libc::pwrite64(file, start.wrapping_add(done).cast(), length - done, place) };
                usize::try_from(written).map_err(|_| errno())
            };
            match without_write_signals(write) {
                Ok(0) => return Err(libc::ENOSPC),
                Ok(written) => done += written,
                Err(libc::EINTR) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Ok(file) = self.checked() {
            // SAFETY: an own descriptor, which nobody uses any more.
            unsafe { libc::close(file) };
        }
    }
}

/// The number by which the system tells a file from all others.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct FileId(pub(crate) [u64; 2]);

/// The error number of a path that is too long.
pub(crate) const TOO_LONG: i32 = libc::ENAMETOOLONG;

/// Returns the number of the file at this path, if there is one.
pub(crate) fn id(path: &CStr) -> Option<FileId> {
    let mut told = MaybeUninit::uninit();
    // SAFETY: a path, and a place for the answer, which is initialised if the call succeeds.
    unsafe { (libc::stat64(path.as_ptr(), told.as_mut_ptr()) == 0).then(|| id_of(&told.assume_init())) }
}

fn id_of(told: &libc::stat64) -> FileId {
    FileId([told.st_dev, told.st_ino])
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &CStr) {
    // SAFETY: a path.
    unsafe { libc::unlink(path.as_ptr()) };
}

/// A thread's error number, which a hit must not change; restored when this is dropped.
#[derive(Debug)]
pub(crate) struct KeptErrno(i32);

impl KeptErrno {
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

static CHAINED: ChainedHandler = ChainedHandler::new(libc::SIGBUS, handle);

/// A range of memory that is a file's. Entries live for ever, and are used again.
#[derive(Debug, Default)]
struct SigbusGuard {
    is_taken: AtomicBool,
    start: AtomicUsize,
    first: AtomicUsize,
    other: AtomicUsize,
    /// Bytes of all; 0 if there is no range.
    all: AtomicUsize,
    is_cut_off: AtomicBool,
    next: AtomicPtr<SigbusGuard>,
}

/// All entries, newest first.
static ALL: AtomicPtr<SigbusGuard> = AtomicPtr::new(ptr::null_mut());

fn all() -> impl Iterator<Item = &'static SigbusGuard> {
    // SAFETY: null, or an entry, which lives for ever.
    let at = |entry: &AtomicPtr<SigbusGuard>| unsafe { entry.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&ALL), move |entry| at(&entry.next))
}

/// Returns an entry without a range, and installs the handler.
///
/// # Errors
/// The system's.
fn reserve() -> io::Result<&'static SigbusGuard> {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Once: a handler on top of this one may pass signals on to it, and would get them back.
    if !IS_INSTALLED.load(Ordering::Acquire) {
        CHAINED.install()?;
        IS_INSTALLED.store(true, Ordering::Release);
    }
    if let Some(free) = all().find(|entry| !entry.is_taken.swap(true, Ordering::AcqRel)) {
        return Ok(free);
    }
    let new: &'static SigbusGuard =
        Box::leak(Box::new(SigbusGuard { is_taken: true.into(), ..SigbusGuard::default() }));
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

impl SigbusGuard {
    /// Guards this memory from now on.
    fn begin(&self, start: usize, parts: PartSizes) {
        self.reset();
        self.start.store(start, Ordering::Relaxed);
        self.first.store(parts.first, Ordering::Relaxed);
        self.other.store(parts.other, Ordering::Relaxed);
        self.all.store(parts.all, Ordering::Release);
    }

    /// Gives the entry back. The memory is still mapped, and no thread uses it.
    fn release(&self) {
        self.all.store(0, Ordering::Release);
        self.is_taken.store(false, Ordering::Release);
    }

    /// Forgets that a file was cut off, where another one takes its place.
    fn reset(&self) {
        self.is_cut_off.store(false, Ordering::Relaxed);
    }

    fn is_cut_off(&self) -> bool {
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
        map(start, len, libc::MAP_FIXED | libc::MAP_NORESERVE, None).is_ok()
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
        let entry = SigbusGuard::default();
        assert_eq!(entry.part(0), None);
        entry.begin(100, PartSizes { first: 10, other: 20, all: 50 });
        let parts = [99, 100, 109, 110, 129, 130, 149, 150].map(|address| entry.part(address));
        let (front, one, two) = (Some((100, 10)), Some((110, 20)), Some((130, 20)));
        assert_eq!(parts, [None, front, front, one, one, two, two, None]);
        entry.release();
        assert_eq!(entry.part(100), None);
    }
}
