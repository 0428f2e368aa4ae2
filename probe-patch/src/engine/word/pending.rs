//! A patch that is under way, and how its text is kept writable.

// Safety: relies on the caller that started it to keep the text mapped until it is over.
#![expect(unsafe_code, reason = "see above")]

use std::sync::Arc;
use std::{fmt, hint};

use super::options::read_instruction;
use crate::engine::bytes::Bytes;
use crate::engine::error::{PatchError, TextError};
use crate::engine::pages::{OpenText, check_readable};
use crate::engine::protocol::{Method, Progress, Text, Ticket, Wait, WordEntry};
use crate::os::mem::Alias;
use crate::text::TextPolicy;

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

/// The way in which an instruction's text is kept writable while it is patched.
#[derive(Clone)]
pub enum Writable {
    /// The caller keeps the text writable.
    ByCaller,
    /// A guard keeps the text writable.
    Open {
        /// Only ever dropped.
        _text: Arc<OpenText>,
    },
    /// The text stays read-only: the kernel writes.
    Alias(Arc<Alias>),
}

impl Writable {
    pub(crate) fn new(policy: TextPolicy, addr: usize, len: usize) -> Result<Self, PatchError> {
        let refused = |error| PatchError::Text { addr, error };
        let bytes = || Ok(addr..addr.checked_add(len).ok_or(refused(TextError::Unmapped { addr }))?);
        match policy {
            TextPolicy::Open => Ok(Self::ByCaller),
            TextPolicy::Sealed => {
                let open = |text| Self::Open { _text: Arc::new(text) };
                OpenText::new(bytes()?).map(open).map_err(refused)
            }
            TextPolicy::Alias => {
                check_readable(bytes()?).map_err(refused)?;
                let alias = Alias::open().map_err(|error| PatchError::Alias { addr, error })?;
                Ok(Self::Alias(Arc::new(alias)))
            }
        }
    }

    /// Returns how a patch is carried out. `self` must outlive the result, which may name its
    /// alias.
    pub(crate) fn method(&self, wait: Wait) -> Method {
        match self {
            Self::ByCaller | Self::Open { .. } => Method::new(wait),
            Self::Alias(alias) => Method::Alias(Arc::as_ptr(alias).addr()),
        }
    }

    /// Returns whether one write can replace a word.
    pub(crate) fn has_whole_words(&self) -> bool {
        !matches!(self, Self::Alias(_))
    }
}
