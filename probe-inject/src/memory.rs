//! A process's memory, through `/proc/PID/mem`. Nothing stops for it.
//!
//! Cost: one system call for each access. The file belongs to the program that runs when it is
//! opened: once the process becomes another program, each access fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of a process.
///
/// ```
/// let answer = 42_u64;
/// let memory = probe_inject::Memory::open(std::process::id())?;
/// assert_eq!(memory.word(&raw const answer as u64)?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Opens the memory of a process.
    ///
    /// # Errors
    /// The system's: without the right to trace the process, there is no right to its memory.
    pub fn open(pid: u32) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills the slice with the bytes from an address on.
    ///
    /// # Errors
    /// The system's: an address that is not mapped, a process that is gone.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, address)
    }

    /// Reads one word.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a number of bytes.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn bytes(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes bytes. The kernel makes a private copy of a page of code for that. Most kernels let a
    /// tracer write memory that the process itself may not write (`proc_mem.force_override`).
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}
