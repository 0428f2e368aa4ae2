//! A call, its file and its result, and the wait for its end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use super::scratch::{DONE, FILE, FILLED, NAME_BYTES, PATH, PATH_BYTES, RESULT, Regions, TEXT, TEXT_BYTES};
use super::target::{POLL_INTERVAL, Process};
use crate::error::InjectError;

/// A call of a function in another process.
///
/// ```
/// use probe_inject::RemoteCall;
///
/// let call = RemoteCall { function: 0x1000, arguments: [1, 2, 0], ..Default::default() };
/// assert_eq!(call.explains, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RemoteCall<'a> {
    /// The address of a function of the C calling convention.
    pub function: u64,
    /// Its arguments. With a file, the address of the file's path replaces the first one.
    pub arguments: [u64; 3],
    /// A function without arguments that explains a result of 0 by a text of C, such as `dlerror`;
    /// 0 for none.
    pub explains: u64,
    /// A file in memory that exists during the call. Its path is the first argument.
    pub file: Option<MemoryFile<'a>>,
    /// Whether the address and the bytes of a buffer replace the first two arguments. The function
    /// may write a text of C there.
    pub takes_text: bool,
}

/// A file in memory.
///
/// ```
/// let file = probe_inject::MemoryFile { name: "libnothing.so", bytes: b"\x7fELF" };
/// assert!(file.name.len() < 128);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryFile<'a> {
    /// Its name, which tools show as `/memfd:NAME`. It has at most 127 bytes.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// The result of a call.
///
/// ```
/// assert_eq!(probe_inject::CallResult::default().value, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CallResult {
    /// The value that the function has returned.
    pub value: u64,
    /// The text that the function has written, or that explains the value 0.
    pub text: String,
}

/// The time for a hijacked thread to begin its call.
const BEGIN_TIMEOUT: Duration = Duration::from_millis(100);

impl Process {
    /// Returns a file's name with a terminator.
    pub(super) fn file_name(&self, file: Option<MemoryFile<'_>>) -> Result<Vec<u8>, InjectError> {
        let name = file.map_or("", |it| it.name);
        if name.len() >= NAME_BYTES || name.contains('\0') {
            let (step, error) = ("its file can't have that name", io::ErrorKind::InvalidInput.into());
            return Err(InjectError::System { pid: self.pid, step, error });
        }
        Ok([name.as_bytes(), &[0]].concat())
    }

    /// Waits for the end of a call whose caller has died.
    pub(super) fn wait_for_orphan(&self) -> Result<(), InjectError> {
        let begun = Instant::now();
        while let Some(pending) = Regions::find(&self.memory, &self.maps()?).pending
            && (pending.has_begun || begun.elapsed() < BEGIN_TIMEOUT)
        {
            if begun.elapsed() > self.timeout {
                let (pid, thread, within) = (self.pid, pending.thread, self.timeout);
                return Err(InjectError::TimedOut { pid, thread, within });
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits for the end of a call, and fills its file.
    pub(super) fn wait(
        &self,
        base: u64,
        thread: u32,
        mut file: Option<MemoryFile<'_>>,
    ) -> Result<CallResult, InjectError> {
        let begun = Instant::now();
        while self.word(base + DONE)? == 0 {
            let descriptor = self.word(base + FILE)?.cast_signed();
            if descriptor > 0
                && let Some(file) = file.take()
            {
                self.fill_file(base, descriptor - 1, file)?;
            }
            if begun.elapsed() > self.timeout {
                return Err(InjectError::TimedOut { pid: self.pid, thread, within: self.timeout });
            }
            thread::sleep(POLL_INTERVAL);
        }
        let descriptor = self.word(base + FILE)?.cast_signed();
        if descriptor < 0 {
            let number = i32::try_from(-descriptor).unwrap_or(0);
            let step = match number {
                libc::ETIMEDOUT => "its file in memory was not filled in time, so nothing was called",
                libc::EPERM | libc::EACCES | libc::ENOSYS => {
                    "a file in memory can't be made there (memfd_create), which its filter of system calls (seccomp) \
                     or a security module may refuse"
                }
                _ => "a file in memory can't be made there",
            };
            let error = io::Error::from_raw_os_error(number);
            return Err(InjectError::System { pid: self.pid, step, error });
        }
        let value = self.word(base + RESULT)?;
        let text = self.memory.bytes(base + TEXT, TEXT_BYTES).map_err(|error| self.memory_error(error))?;
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        Ok(CallResult { value, text: String::from_utf8_lossy(&text[..length]).into_owned() })
    }

    /// Fills the file in memory, and writes its path. The path has an unusual form: the loader
    /// knows objects by their paths, and the program may load other files by that descriptor's
    /// number. The program may have closed the descriptor, and given its number to a file of its
    /// own.
    fn fill_file(&self, base: u64, descriptor: i64, file: MemoryFile<'_>) -> Result<(), InjectError> {
        let open = || {
            let path = format!("/proc/{}/fd/{descriptor}", self.pid);
            let mut there = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            let opened = fs::read_link(format!("/proc/self/fd/{}", there.as_raw_fd()))?;
            if opened.to_str() != Some(&format!("/memfd:{} (deleted)", file.name)) {
                return Err(io::Error::other("the program has closed it"));
            }
            there.write_all(file.bytes)
        };
        let step = "the file in memory can't be filled";
        open().map_err(|error| InjectError::System { pid: self.pid, step, error })?;
        let mut path = format!("/proc/self/./fd/{descriptor}").into_bytes();
        path.resize(PATH_BYTES, 0);
        self.write(base + PATH, &path)?;
        self.write(base + FILLED, &1_u64.to_le_bytes())
    }
}
