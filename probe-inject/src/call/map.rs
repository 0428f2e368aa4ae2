//! Mapping memory in a process, by one system call of a thread there.

use super::safe_point::CriticalCode;
use super::scratch::Regions;
use super::target::Process;
use crate::error::InjectError;
use crate::process::Mapping;

pub const READ_WRITE: u64 = 3;
pub const READ_EXECUTE: u64 = 5;
/// `MAP_PRIVATE`, `MAP_ANONYMOUS` and `MAP_FIXED_NOREPLACE`.
pub const MAP_FLAGS: u64 = 0x2 | 0x20 | 0x10_0000;

impl Process {
    /// Maps zeroed memory at a free address, until [`unmap`](Self::unmap). The process can write to
    /// data, but not to code. [`Memory::write`](crate::Memory::write) can write to both.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn map(&mut self, at: u64, length: u64, is_code: bool) -> Result<(), InjectError> {
        let protection = if is_code { READ_EXECUTE } else { READ_WRITE };
        let is_new = |it: &Mapping| {
            it.start <= at && at + length <= it.end && it.is_executable == is_code && it.is_anonymous()
        };
        self.map_call(libc::SYS_mmap, [at, length, protection, MAP_FLAGS, u64::MAX, 0], |maps| {
            maps.iter().any(is_new)
        })
    }

    /// Unmaps memory that [`map`](Self::map) has mapped, and that nothing uses any more.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn unmap(&mut self, at: u64, length: u64) -> Result<(), InjectError> {
        let is_gone = |maps: &[Mapping]| !maps.iter().any(|it| it.start < at + length && at < it.end);
        self.map_call(libc::SYS_munmap, [at, length, 0, 0, 0, 0], is_gone)
    }

    fn map_call(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        is_done: impl Fn(&[Mapping]) -> bool,
    ) -> Result<(), InjectError> {
        let maps = self.maps()?;
        let gadgets = self.gadgets(&maps)?;
        let regions = Regions::find(&self.memory, &maps);
        // The call itself takes no lock.
        self.syscall(number, arguments, gadgets, &CriticalCode::default(), &regions.all, is_done)
    }
}
