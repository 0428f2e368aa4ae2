//! Code in memory of its own, for tests that patch it.

// Safety: a private mapping, whose places are handed out once.
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

/// A mapping that can be read and executed, and that tests write code into.
#[derive(Debug)]
pub struct Code {
    start: usize,
    next: usize,
}

const LEN: usize = 1 << 22;

impl Code {
    /// An empty one.
    ///
    /// # Panics
    /// If there is no memory.
    #[expect(clippy::new_without_default, reason = "it maps memory")]
    pub fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), LEN, libc::PROT_READ | libc::PROT_EXEC, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start as usize, next: start as usize }
    }

    /// All of it.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + LEN
    }

    fn protect(&self, rights: libc::c_int) {
        // SAFETY: its own mapping.
        assert_eq!(unsafe { libc::mprotect(self.start as *mut _, LEN, rights) }, 0);
    }

    /// Appends code, at an address that is `offset` more than a multiple of 64, or of 4096 if
    /// `offset` is 64 or more. Returns the address.
    ///
    /// # Panics
    /// When it is full.
    pub fn place(&mut self, offset: usize, code: &[u8]) -> usize {
        let addr = self.next.next_multiple_of(if offset < 64 { 64 } else { 4_096 }) + offset;
        self.next = addr + code.len();
        assert!(self.next <= self.range().end);
        self.protect(libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: inside the mapping, at a place that nobody else was given.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), addr as *mut u8, code.len()) };
        self.protect(libc::PROT_READ | libc::PROT_EXEC);
        addr
    }

    /// Writes one byte, as a debugger does.
    pub fn write(&self, addr: usize, byte: u8) {
        self.protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
        self.write_open(addr, byte);
        self.protect(libc::PROT_READ | libc::PROT_EXEC);
    }

    /// Writes one byte where somebody holds the text open.
    pub fn write_open(&self, addr: usize, byte: u8) {
        // SAFETY: inside the mapping; one byte is written whole.
        unsafe { AtomicU8::from_ptr(addr as *mut u8) }.store(byte, Ordering::SeqCst);
    }

    /// Returns the current bytes.
    pub fn bytes(&self, addr: usize, len: usize) -> Vec<u8> {
        // SAFETY: inside the mapping.
        (addr..addr + len)
            .map(|at| unsafe { AtomicU8::from_ptr(at as *mut u8) }.load(Ordering::SeqCst))
            .collect()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: its own mapping, which nobody executes any more.
        unsafe { libc::munmap(self.start as *mut _, LEN) };
    }
}
