//! A patch that is under way.

// Safety: relies on the caller that started it to keep the text mapped until it is over.
#![expect(unsafe_code, reason = "see above")]

use std::fmt;
use std::hint;

use super::backend::{Text, Writable};
use super::options::read_instruction;
use super::state_machine::{Progress, Ticket, WordEntry};
use crate::bytes::Bytes;
use crate::error::PatchError;

/// A patch that [`start_patch`](super::start_patch) has begun. Any thread may finish it.
///
/// Dropping a patch finishes it, and waits as long as that takes. If it is forgotten instead, the
/// first thread that arrives at the instruction finishes it, and the text stays open.
///
/// ```
/// use probe_patch::PatchError;
/// use probe_patch::word::start_patch;
///
/// #[unsafe(naked)]
/// extern "C" fn retries() -> u32 {
///     std::arch::naked_asm!("mov eax, 3", "ret")
/// }
///
/// let at = retries as *const () as usize;
/// // SAFETY: `mov eax, imm32` becomes another one.
/// let mut patch = unsafe { start_patch(at, [0xb8, 5, 0, 0, 0].into()) }?;
/// assert_eq!(patch.addr(), at);
/// if !patch.finish() {
///     // Other work could be done here.
///     patch.wait()?;
/// }
/// assert_eq!(retries(), 5);
/// # Ok::<(), PatchError>(())
/// ```
#[must_use = "dropping it waits until the patch is over"]
pub struct Pending {
    addr: usize,
    expected: Bytes,
    remaining: Remaining,
}

/// The steps that remain.
enum Remaining {
    Nothing { is_whole: bool },
    // The text is sealed when every thread that has joined has left.
    Steps { entry: &'static WordEntry, ticket: Ticket, _writable: Writable },
}

impl Pending {
    /// Returns a patch that is over: it took one write.
    pub(super) fn over(addr: usize, expected: Bytes) -> Self {
        Self { addr, expected, remaining: Remaining::Nothing { is_whole: true } }
    }

    pub(super) fn new(
        addr: usize,
        expected: Bytes,
        entry: &'static WordEntry,
        ticket: Ticket,
        writable: Writable,
    ) -> Self {
        Self { addr, expected, remaining: Remaining::Steps { entry, ticket, _writable: writable } }
    }

    /// Returns the instruction's address.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Takes at most one step, and returns whether the patch is over. It never waits for another
    /// thread.
    ///
    /// If a barrier is due, it runs one (a system call of 1 to 8 µs), which serves all patches that
    /// have come as far. With a thousand patches under way, call it on each in turn, and again: two
    /// barriers serve them all.
    pub fn finish(&mut self) -> bool {
        let Remaining::Steps { entry, ticket, .. } = &self.remaining else { return true };
        match entry.step(*ticket, &Text) {
            Progress::Waiting | Progress::Stepped => false,
            Progress::Over { is_whole } => {
                self.remaining = Remaining::Nothing { is_whole };
                true
            }
        }
    }

    /// Finishes the patch, however long that takes.
    ///
    /// # Errors
    /// [`PatchError::Foreign`] if foreign code has written over the breakpoint of the patch
    /// meanwhile (unless another patch of the instruction has begun since).
    pub fn wait(mut self) -> Result<(), PatchError> {
        self.complete();
        match self.remaining {
            Remaining::Nothing { is_whole: false } => {
                let (addr, expected) = (self.addr, self.expected);
                // SAFETY: the caller of `start` keeps the text mapped.
                let found = unsafe { read_instruction(addr, expected.len()) };
                Err(PatchError::Foreign { addr, expected, found })
            }
            _ => Ok(()),
        }
    }

    fn complete(&mut self) {
        let mut tries = 0_u32;
        while !self.finish() {
            tries += 1;
            if tries.is_multiple_of(128) {
                // Another thread that has joined was preempted.
                std::thread::yield_now();
            } else {
                hint::spin_loop();
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.complete();
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = matches!(self.remaining, Remaining::Nothing { .. });
        f.debug_struct("Pending").field("addr", &self.addr).field("is_over", &is_over).finish_non_exhaustive()
    }
}
