//! A file that this crate writes while the program runs and may close any descriptor.
//!
//! A program that becomes a daemon closes all numbers, and the kernel gives the same ones to the
//! files that it opens next. So each use compares the [identity](Identity) of the file behind the
//! number. A number that is another file's by now is neither written nor closed. A file that has a
//! path is opened again, if the path still leads to it: a trace continues in a daemon.
//!
//! Limit: the comparison is one system call ahead of the use. The kernel hands out the lowest free
//! number, so a file that stays open for long has a high one ([`move_to_high_number`]). To be hurt,
//! a program would have to close that number and open hundreds of files between the two calls, or
//! choose the number itself (`dup2`). A file that was deleted, and closed by the program, may give
//! its number on the device to a new file, which then passes for it.
//!
//! Two other ways have no such limit, and were left:
//! - **A thread with a table of descriptors of its own** (`unshare(CLONE_FILES)`). The filters of
//!   containers refuse the call, and others kill for it. The table begins as a copy, so the thread
//!   holds the program's pipes, sockets and stderr open, or closes them once more, which flushes
//!   files on some systems. The thread could say nothing on the stderr that the program has later.
//! - **A mapping in place of a descriptor.** It can't make the file longer, and a full disk is a
//!   SIGBUS. The rings of [`mapped_file`](super::mapped_file) are of one size, reserve it, and keep
//!   no descriptor.
//!
//! A write raises no signal: see [`without_write_signals`].
//!
//! [`move_to_high_number`]: GuardedFile::move_to_high_number

// Safety: relies on fcntl(2), fstat(2) and getrlimit(2), which make a descriptor of this module's
// own, change the flags of an open one, or write to one place.
#![cfg_attr(all(unix, not(miri)), expect(unsafe_code, reason = "see above"))]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem;
#[cfg(all(unix, not(miri)))]
use std::mem::MaybeUninit;
#[cfg(all(unix, not(miri)))]
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use super::signal_mask::without_write_signals;

/// A file, written from its beginning, or a stream.
#[derive(Debug)]
pub(crate) struct GuardedFile {
    /// `None` while it is dropped.
    file: Option<File>,
    #[cfg(all(unix, not(miri)))]
    own: Option<Identity>,
    /// The place of the next byte; `None` for a stream.
    next: Option<u64>,
    /// Whether it gets no longer.
    is_cut: bool,
    /// The path by which it may be opened again.
    path: Option<PathBuf>,
}

impl GuardedFile {
    /// Takes a file that was just opened.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let is_file = file.metadata()?.is_file();
        let mut file = Self::stream(file);
        file.next = is_file.then_some(0);
        Ok(file)
    }

    /// Takes a stream that was just opened, or a file that is open for appending.
    pub(crate) fn stream(file: File) -> Self {
        Self {
            #[cfg(all(unix, not(miri)))]
            own: Identity::of(file.as_raw_fd()),
            file: Some(file),
            next: None,
            is_cut: false,
            path: None,
        }
    }

    /// Opens a stream for appending. Writes to it wait for room, as usual.
    ///
    /// # Errors
    /// If no process reads from a named pipe; and all errors of open(2).
    pub(crate) fn open_stream(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true);
        #[cfg(all(unix, not(miri)))]
        return open_stream(options, path);
        #[cfg(not(all(unix, not(miri))))]
        options.open(path).map(Self::stream)
    }

    /// Moves it to a high number, if one is free, to be kept for long. A program that closes all
    /// descriptors and opens others gets the lowest free numbers, so it gets this one only after
    /// hundreds of others.
    pub(crate) fn move_to_high_number(mut self) -> Self {
        if let Some(moved) = self.file.as_ref().and_then(moved_up) {
            self.file = Some(moved);
        }
        self
    }

    /// Waits until the disk has it.
    ///
    /// # Errors
    /// The system's, or that the program has closed it.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match self.checked()?.sync_data() {
            // A pipe, which has nothing to wait for.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    /// Returns the file, if the number is still its own, or once it is opened again.
    fn checked(&mut self) -> io::Result<&File> {
        if !self.is_own() {
            self.open_again()?;
        }
        self.file.as_ref().ok_or_else(closed)
    }

    fn open_again(&mut self) -> io::Result<()> {
        // Closing the number would close another file of the program.
        mem::forget(self.file.take());
        let path = self.path.as_ref().ok_or_else(closed)?;
        let mut options = OpenOptions::new();
        // A pipe in its place is not waited for.
        #[cfg(all(unix, not(miri)))]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
        let again = options.write(true).open(path).map_err(|_| closed())?;
        let mut again = Self::stream(again).move_to_high_number();
        if !self.is_same(&again) {
            return Err(closed());
        }
        self.file = again.file.take();
        Ok(())
    }

    #[cfg(all(unix, not(miri)))]
    fn is_own(&self) -> bool {
        let number = self.file.as_ref().map(AsRawFd::as_raw_fd);
        self.own.is_some() && number.and_then(Identity::of) == self.own
    }

    #[cfg(all(unix, not(miri)))]
    fn is_same(&self, other: &Self) -> bool {
        self.own.is_some() && self.own == other.own
    }

    #[cfg(not(all(unix, not(miri))))]
    fn is_own(&self) -> bool {
        self.file.is_some()
    }

    #[cfg(not(all(unix, not(miri))))]
    fn is_same(&self, _other: &Self) -> bool {
        false
    }
}

impl GuardedFile {
    /// Says where the file is, whatever working directory the program chooses later.
    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.path = self.next.and_then(|_| std::path::absolute(path).ok());
        self
    }

    /// Returns the number of bytes so far, without those of other writers; 0 for a stream.
    pub(crate) fn length(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// Returns whether it has places: it is no stream.
    pub(crate) fn has_places(&self) -> bool {
        self.next.is_some()
    }

    /// Writes at a place before the end of a file.
    ///
    /// # Errors
    /// The system's, or that the program has closed it.
    pub(crate) fn overwrite(&mut self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let file = self.checked()?;
            match without_write_signals(|| write_at(file, bytes, at)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, at) = (&bytes[written..], at + written as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends a file at this length. It gets no longer after that: later parts are errors.
    ///
    /// # Errors
    /// The system's, or that the program has closed it.
    pub(crate) fn cut(&mut self, length: u64) -> io::Result<()> {
        self.is_cut = true;
        if !self.has_places() {
            return Ok(());
        }
        self.next = Some(length);
        let file = self.checked()?;
        without_write_signals(|| file.set_len(length))
    }

    /// Returns the bytes that it takes on the disk: holes take none. `None` if it can't be told.
    pub(crate) fn disk_usage(&mut self) -> Option<u64> {
        let metadata = self.checked().ok()?.metadata().ok()?;
        #[cfg(unix)]
        return Some(std::os::unix::fs::MetadataExt::blocks(&metadata) * 512);
        #[cfg(not(unix))]
        Some(metadata.len())
    }
}

impl Write for GuardedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_cut {
            return Err(io::Error::other("the file was cut off"));
        }
        let next = self.next;
        let file = self.checked()?;
        let written = without_write_signals(|| match next {
            Some(at) => write_at(file, bytes, at),
            None => (&mut &*file).write(bytes),
        })?;
        self.next = next.map(|at| at + written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for GuardedFile {
    fn drop(&mut self) {
        if !self.is_own() {
            mem::forget(self.file.take());
        }
    }
}

fn closed() -> io::Error {
    io::Error::other("the program has closed its descriptor")
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(at))?;
    file.write(bytes)
}

/// Opens a stream without waiting for a reader; writes to it wait again.
#[cfg(all(unix, not(miri)))]
fn open_stream(mut options: OpenOptions, path: &Path) -> io::Result<GuardedFile> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.custom_flags(flags).open(path).map_err(|error| {
        let is_unread = error.raw_os_error() == Some(libc::ENXIO)
            && path.metadata().is_ok_and(|it| it.file_type().is_fifo());
        if is_unread {
            io::Error::new(error.kind(), "no process has this pipe open to read it")
        } else {
            error
        }
    })?;
    // SAFETY: the descriptor is the file's, and was opened here, so no other code uses its flags.
    let is_blocking = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags != -1 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) != -1
    };
    if is_blocking { Ok(GuardedFile::stream(file)) } else { Err(io::Error::last_os_error()) }
}

/// Returns the same file by a high number, if one is free.
#[cfg(all(unix, not(miri)))]
fn moved_up(file: &File) -> Option<File> {
    use std::os::fd::FromRawFd;

    let from = high();
    if file.as_raw_fd() >= from {
        return None;
    }
    // SAFETY: no pointers. A descriptor that it returns is new, and nobody else's.
    unsafe {
        let moved = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, from);
        (moved >= 0).then(|| File::from_raw_fd(moved))
    }
}

#[cfg(not(all(unix, not(miri))))]
fn moved_up(_: &File) -> Option<File> {
    None
}

#[cfg(all(unix, not(miri)))]
/// The device and the number there of a file, which no other file has while this one is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(libc::dev_t, libc::ino_t);

#[cfg(all(unix, not(miri)))]
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
#[cfg(all(unix, not(miri)))]
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

#[cfg(all(test, feature = "trace", unix, not(miri)))]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("probes-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Puts another file behind the number, as a program does that has closed all.
    fn take_over(file: &GuardedFile, theirs: &File) -> RawFd {
        let number = file.file.as_ref().unwrap().as_raw_fd();
        // SAFETY: two descriptors of this test.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        number
    }

    #[test]
    fn another_files_number_is_neither_written_nor_closed() {
        let folder = folder("guarded");
        let path = |name: &str| folder.join(name);
        fs::write(path("theirs"), "theirs").unwrap();
        let theirs = OpenOptions::new().write(true).open(path("theirs")).unwrap();
        let mut own = GuardedFile::new(File::create(path("own")).unwrap()).unwrap();
        own.write_all(b"before").unwrap();
        let number = take_over(&own, &theirs);
        for problem in [
            own.write(b"after").unwrap_err(),
            own.overwrite(b"B", 0).unwrap_err(),
            own.cut(1).unwrap_err(),
            own.sync().unwrap_err(),
        ] {
            let text = problem.to_string();
            assert!(text == "the program has closed its descriptor" || text == "the file was cut off");
        }
        drop(own);
        assert_eq!(Identity::of(number), Identity::of(theirs.as_raw_fd()), "it is open");
        assert_eq!(["own", "theirs"].map(|it| fs::read_to_string(path(it)).unwrap()), ["before", "theirs"]);
        // SAFETY: the number is of this test.
        assert_eq!(unsafe { libc::close(number) }, 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn it_is_opened_again_where_its_path_leads_to_it() {
        let folder = folder("again");
        let path = |name: &str| folder.join(name);
        let theirs = File::create(path("theirs")).unwrap();
        let own = GuardedFile::new(File::create(path("own")).unwrap()).unwrap();
        let mut own = own.with_path(&path("own")).move_to_high_number();
        own.write_all(b"before").unwrap();
        let number = take_over(&own, &theirs);
        own.write_all(b", after").unwrap();
        own.overwrite(b"B", 0).unwrap();
        // In its place is another file.
        fs::rename(path("own"), path("moved")).unwrap();
        fs::write(path("own"), "new").unwrap();
        let second = take_over(&own, &theirs);
        own.write_all(b", last").unwrap_err();
        drop(own);
        assert_eq!(
            ["own", "moved", "theirs"].map(|it| fs::read_to_string(path(it)).unwrap()),
            ["new", "Before, after", ""]
        );
        // SAFETY: the numbers are of this test.
        unsafe { assert_eq!([libc::close(number), libc::close(second)], [0, 0]) };
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_cut_file_gets_no_longer() {
        let folder = folder("cut");
        let mut own = GuardedFile::new(File::create(folder.join("own")).unwrap()).unwrap();
        own.write_all(b"whole, half").unwrap();
        own.cut(5).unwrap();
        own.write_all(b"rest").unwrap_err();
        own.overwrite(b"W", 0).unwrap();
        assert_eq!(own.length(), 5);
        assert_eq!(fs::read_to_string(folder.join("own")).unwrap(), "Whole");
        fs::remove_dir_all(folder).unwrap();
    }
}
