//! Waiting for the end of a call.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use super::remote_call::{CallResult, MemoryFile};
use super::scratch::Regions;
use super::stub::{DONE, FILE, FILLED, NAME_BYTES, PATH, PATH_BYTES, RESULT, TEXT, TEXT_BYTES};
use super::target::{POLL_INTERVAL, Process};
use crate::error::InjectError;

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
