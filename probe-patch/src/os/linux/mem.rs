//! Writing to this process's memory through the kernel: `/proc/self/mem`, see `proc_pid_mem(5)`.
//!
//! The kernel writes to the pages through its own mapping of them. As for any private mapping, it
//! first makes a private copy of a file's page. So no page of the process is ever writable and
//! executable, and its mappings keep their rights. The text can be written even where `mprotect` is
//! denied by a seal (mseal(2)) or a policy.
//!
//! A write of one byte is atomic for every reader, also for instruction fetch. A write of several
//! bytes is *not*: the kernel copies them in an order and in steps of its own (`rep movsb` on most
//! processors). Text that threads may be executing is therefore only written byte by byte here,
//! under the protocol that begins with a breakpoint.
//!
//! The descriptor belongs to the memory of the process that opened it. A forked child inherits it,
//! and may even have the same process id, in its own namespace. A program may also close
//! descriptors that it does not know, and get the number again for another file. So each call makes
//! sure that the process is the same, without a fork since, and that the file is the same. If not,
//! the call is refused (`ESRCH`, `EBADF`), and the caller opens a descriptor of its own.
//!
//! Cost, measured: 1.2 µs a write, 2 µs for two `mprotect` and a store.

// Safety: relies on pread(2) and pwrite(2) on this module's own descriptor. Relies on callers to
// name memory that they may change.
#![expect(unsafe_code, reason = "see above")]

use std::fs::OpenOptions;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::{io, ptr};

use super::super::fork::process;
use super::text::page_size;
use crate::os::thread::{errno, set_errno};

/// A way to this process's memory. Its calls are async-signal-safe and keep `errno`.
#[derive(Debug)]
pub struct Alias {
    /// Not an `OwnedFd`: other code may have closed the descriptor without knowing it.
    fd: RawFd,
    /// The process whose memory it is.
    process: u64,
    /// Identifies the file behind the descriptor.
    identity: (u64, u64),
}

impl Alias {
    /// Opens the file, and makes sure that it can write to read-only pages.
    ///
    /// # Errors
    /// The system's. `EIO`: the kernel does not override protection here
    /// (`proc_mem.force_override=never` or `=ptrace` on its command line). `EACCES`: the process is
    /// not dumpable. `ENOENT`: `/proc` is not mounted.
    pub fn open() -> io::Result<Self> {
        // `/proc/self` is empty once a process's first thread has ended. Opened with `O_CLOEXEC`.
        let file = OpenOptions::new().read(true).write(true).open("/proc/thread-self/mem")?;
        let identity = identity(file.as_raw_fd())?;
        let alias = Self { fd: file.into_raw_fd(), process: process(), identity };
        alias.check()?;
        Ok(alias)
    }

    /// Writes to a read-only page of its own, and makes sure that the write has arrived.
    fn check(&self) -> io::Result<()> {
        const CODE: [u8; 4] = *b"code";
        let len = page_size();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping overlaps nothing.
        let page = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut found = [0; CODE.len()];
        let result = self
            .write_byte(page.addr(), CODE[0])
            .and_then(|()| self.write(page.addr() + 1, &CODE[1..]))
            .and_then(|()| self.read(page.addr(), &mut found));
        // SAFETY: the page that was mapped above.
        unsafe { libc::munmap(page, len) };
        result?;
        if found == CODE { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
    }

    /// Writes one byte. Every thread sees the old or the new byte.
    ///
    /// # Errors
    /// The system's; `EIO` where nothing is mapped, or the mapping is a shared one.
    pub fn write_byte(&self, addr: usize, byte: u8) -> io::Result<()> {
        self.write(addr, &[byte])
    }

    /// Writes bytes, in any order and any steps. Not for code that threads may execute meanwhile.
    ///
    /// # Errors
    /// The same as for [`write_byte`](Self::write_byte). Some of the bytes may have been written
    /// then.
    pub fn write(&self, addr: usize, bytes: &[u8]) -> io::Result<()> {
        self.transfer(addr, bytes.len(), |done, offset| {
            let rest = &bytes[done..];
            let (fd, start) = (self.fd, rest.as_ptr());
            // SAFETY: reads the rest of the bytes; the caller may change the memory at the address.
            // Not through the C library's function, which is a cancellation point.
            unsafe { libc::syscall(libc::SYS_pwrite64, fd, start, rest.len(), offset) }
        })
    }

    /// Reads bytes, even from pages that the process itself may not read.
    ///
    /// # Errors
    /// The system's; `EIO` where nothing is mapped.
    pub fn read(&self, addr: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.transfer(addr, bytes.len(), |done, offset| {
            let rest = &mut bytes[done..];
            let (fd, start) = (self.fd, rest.as_mut_ptr());
            // SAFETY: fills in the rest of the bytes.
            unsafe { libc::syscall(libc::SYS_pread64, fd, start, rest.len(), offset) }
        })
    }

    /// Calls `step` with the number of bytes done and the address of the next one, until all are
    /// done. `step` returns the number of bytes that it transferred.
    fn transfer(&self, addr: usize, len: usize, mut step: impl FnMut(usize, i64) -> i64) -> io::Result<()> {
        let saved = errno();
        let result = (|| {
            if process() != self.process {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            if identity(self.fd)? != self.identity {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            let mut done = 0;
            while done < len {
                let at = addr.checked_add(done).and_then(|at| i64::try_from(at).ok());
                // The address is not in the program's half of the addresses.
                let Some(offset) = at else { return Err(io::Error::from_raw_os_error(libc::EIO)) };
                match usize::try_from(step(done, offset)) {
                    Ok(0) => return Err(io::Error::from_raw_os_error(libc::EIO)),
                    Ok(more) => done += more,
                    Err(_) if errno() == libc::EINTR => {}
                    Err(_) => return Err(io::Error::last_os_error()),
                }
            }
            Ok(())
        })();
        set_errno(saved);
        result
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        if identity(self.fd).is_ok_and(|identity| identity == self.identity) {
            // SAFETY: closes its own descriptor, and does not use it again. Unlike `libc::close`,
            // this is no cancellation point.
            unsafe { libc::syscall(libc::SYS_close, self.fd) };
        }
    }
}

/// Returns the device and number of the file behind a descriptor.
fn identity(fd: RawFd) -> io::Result<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a place for the answer; async-signal-safe.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let stat = unsafe { stat.assume_init() };
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps two read-only, executable pages.
    fn code() -> usize {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping overlaps nothing; it stays.
        let page = unsafe { libc::mmap(ptr::null_mut(), 2 * page_size(), rights, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        page.addr()
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps code")]
    fn writes_what_is_read_only_and_keeps_errno() {
        let (alias, code) = (Alias::open().unwrap(), code());
        set_errno(77);
        alias.write_byte(code, 0xcc).unwrap();
        let across = code + page_size() - 2;
        alias.write(across, &[1, 2, 3, 4]).unwrap();
        assert_eq!(errno(), 77);
        // SAFETY: mapped and readable.
        let (byte, bytes) = unsafe { (*(code as *const u8), *(across as *const [u8; 4])) };
        assert_eq!((byte, bytes), (0xcc, [1, 2, 3, 4]));
        let mut found = [0; 4];
        alias.read(across, &mut found).unwrap();
        assert_eq!(found, [1, 2, 3, 4]);
        let mapping = super::super::maps::Maps::open().unwrap().holding(code).unwrap().unwrap();
        assert_eq!(mapping.rights, super::super::maps::Rights::TEXT);
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps code")]
    fn what_is_not_mapped_is_an_error() {
        let alias = Alias::open().unwrap();
        set_errno(77);
        for addr in [0, usize::MAX - 1, 1 << 47] {
            assert_eq!(alias.write(addr, &[1, 2]).unwrap_err().raw_os_error(), Some(libc::EIO), "{addr:#x}");
        }
        assert_eq!(errno(), 77);
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps code")]
    fn a_child_does_not_write_to_its_parent() {
        let (alias, code) = (Alias::open().unwrap(), code());
        // SAFETY: the child makes system calls alone.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = alias.write_byte(code, 0xcc).err().and_then(|error| error.raw_os_error());
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(refused.unwrap_or(0)) };
        }
        let mut status = 0;
        // SAFETY: `status` is a place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, libc::ESRCH));
        // SAFETY: mapped and readable.
        assert_eq!(unsafe { *(code as *const u8) }, 0);
    }
}
