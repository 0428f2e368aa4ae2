//! Memory in a process, by one system call of a thread there. It stays until it is taken back.

use super::safe_point::Places;
use super::scratch::Regions;
use super::target::Process;
use crate::error::InjectError;
use crate::process::Mapping;

pub const READ_WRITE: u64 = 3;
pub const READ_EXECUTE: u64 = 5;
/// Private, of no file, and at this address or not at all.
pub const FLAGS: u64 = 0x2 | 0x20 | 0x10_0000;

impl Process {
    /// Maps zeros at an address, where nothing is. The process can write to data, and not to code;
    /// [`Memory::write`](crate::Memory::write) can write to both.
    ///
    /// # Errors
    /// As those of [`call`](Self::call).
    pub fn map(&mut self, at: u64, length: u64, is_code: bool) -> Result<(), InjectError> {
        let rights = if is_code { READ_EXECUTE } else { READ_WRITE };
        let is_it = |it: &Mapping| {
            it.start <= at && at + length <= it.end && it.is_executable == is_code && it.is_anonymous()
        };
        self.ask(libc::SYS_mmap, [at, length, rights, FLAGS, u64::MAX, 0], |maps| maps.iter().any(is_it))
    }

    /// Takes memory back that [`map`](Self::map) has mapped. Nobody may use it any longer.
    ///
    /// # Errors
    /// As those of [`call`](Self::call).
    pub fn unmap(&mut self, at: u64, length: u64) -> Result<(), InjectError> {
        let is_gone = |maps: &[Mapping]| !maps.iter().any(|it| it.start < at + length && at < it.end);
        self.ask(libc::SYS_munmap, [at, length, 0, 0, 0, 0], is_gone)
    }

    fn ask(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        is_done: impl Fn(&[Mapping]) -> bool,
    ) -> Result<(), InjectError> {
        let maps = self.maps()?;
        let code = self.code(&maps)?;
        let regions = Regions::find(&self.memory, &maps);
        // The call itself takes no lock.
        self.system(number, arguments, code, &Places::default(), &regions.all, is_done)
    }
}
