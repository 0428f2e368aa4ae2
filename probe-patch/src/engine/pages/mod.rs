//! Makes pages writable, and gives them exactly their former rights back. One copy of this crate
//! counts all of its writers in the process.
//!
//! Life of a guard:
//! 1. [`OpenText::new`] asks the kernel for the rights of the pages that no guard holds open yet,
//!    adds the right to write to each, and counts the guard in.
//! 2. While the guard lives, the pages are writable.
//! 3. The guard's end counts it out. Pages that no other guard holds get their former rights back,
//!    each page its own.
//!
//! # One map, one mutex
//! Batches of the control and guards of others share one map ([`runs`]) behind one mutex. So no
//! thread seals pages that another is writing.
//! - A guard holds the mutex for the map and the system calls, not while it lives.
//! - A [`WritableRuns`] holds the mutex while it writes (microseconds; some milliseconds for a
//!   million sites), and so needs no entry in the map.
//! - A fork takes the mutex, after the control lock.
//! - Hits that a holder of the mutex causes on its own thread (a probe in the allocator) count, but
//!   call no consumer.
//!
//! # Asking the kernel
//! A guard asks for rights each time (4 µs). A batch, whose sites lie in the text of loaded
//! objects, asks once for each mapping, and remembers the answer until objects come or go
//! ([`rights`]). If the kernel's table can't be read, each page is asked whether it is writable,
//! and its text is otherwise taken to be readable and executable, as linkers make it.
//! So if other code changes the rights of text after a batch has asked, later batches restore the
//! earlier rights. A guard on the pages makes the next batch ask again.
//!
//! # Two copies of this crate
//! Two copies in one process have two maps. A copy leaves pages writable that it finds writable,
//! since it can't tell another copy's guard from rights that were always there. (The segment's
//! flags tell the rights that text was linked with. But restoring these would seal pages that the
//! other copy still writes.) While a copy holds such pages open itself, it asks again before each
//! write: the other copy may have sealed them, and then they get these rights back.
//!
//! Two cases remain. Code that writes through its own guard, or with `Access::Held`, does not ask
//! again. And a batch seals pages that it knows as sealed, even if the other copy has opened them
//! since.
//!
//! # Cost
//! A guard takes some 7 µs with its end: 4 µs for the question, and 2 µs for the two `mprotect`. On
//! pages that are open already it makes neither system call. A batch adds some tens of nanoseconds
//! to its system calls.

#[cfg(all(test, loom))]
mod interleavings;
mod nonblocking;
mod rights;
mod runs;
mod shared;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;

use crate::engine::error::TextError;
use crate::os::text::pages;
use runs::Epoch;
use shared::{Locked, lock};

pub(crate) use nonblocking::write_now;
pub use nonblocking::{NotNow, close_held, make_room};
pub use rights::check_readable;
pub use shared::{READY, ReentrancyHooks, set_reentrancy_hooks};

/// A guard that keeps text writable while it lives.
///
/// Guards may overlap and nest, on any threads, and end in any order. The last one gives each page
/// its former rights back. Pages outside of the range are never touched.
///
/// Pages that are writable already stay writable at the end. The guard does not keep them so: the
/// code that made them writable may seal them while the guard lives. Another copy of this crate in
/// the process, such as a plugin's, may do so. Neither copy knows of the other's guards and
/// attachments. Don't hold text open that the other copy patches.
///
/// A guard asks the kernel for the rights of its pages, which batches remember (see
/// [`TextPolicy::Sealed`](crate::TextPolicy::Sealed)). After a guard was made or refused there,
/// batches ask again.
///
/// Pages of a shared mapping can be opened, too, if the system allows it. Every process that has
/// mapped them sees the writes.
///
/// Don't unmap pages that a guard holds open: its end would change the rights of whatever is mapped
/// there by then. `probe-runtime` lets shared objects with probes be unloaded. Its next operation
/// that looks at the objects, such as `probes()`, forgets their pages. Opening another guard does
/// not.
/// A forked child inherits the guards of the forking thread. Pages that other threads held open at
/// that moment stay open in the child.
///
/// ```
/// use probe_patch::{OpenText, TextError};
///
/// #[inline(never)]
/// fn patched() {}
///
/// let at = patched as fn() as usize;
/// let text = OpenText::new(at..at + 5)?;
/// assert!(text.pages().contains(&at));
/// // Here the five bytes can be written, under a protocol that suits the threads that execute them.
/// text.close()?;
///
/// assert_eq!(OpenText::new(8..9).unwrap_err(), TextError::Unmapped { addr: 8 });
/// # Ok::<(), TextError>(())
/// ```
#[must_use = "dropping the guard takes the right to write back"]
pub struct OpenText {
    pages: Range<usize>,
    epoch: Epoch,
}

impl OpenText {
    /// Makes all pages that hold these bytes writable. Pages that were not executable do not become
    /// executable. An empty range opens no pages.
    ///
    /// # Errors
    /// [`TextError::Unmapped`] and [`TextError::NotReadable`] name the first address of the range
    /// that holds no text. [`TextError::Protected`] if the system refuses. No page is opened then.
    pub fn new(bytes: Range<usize>) -> Result<Self, TextError> {
        if bytes.is_empty() {
            return Ok(Self { pages: bytes.start..bytes.start, epoch: Epoch::default() });
        }
        let last = isize::MAX.cast_unsigned() - 0xffff;
        if bytes.end > last {
            // Not a program's half of the addresses.
            return Err(TextError::Unmapped { addr: bytes.start.max(last) });
        }
        let whole = pages(bytes.clone());
        let epoch = lock().open(&whole).map_err(|error| within(error, &bytes))?;
        Ok(Self { pages: whole, epoch })
    }

    /// Returns the pages that the guard keeps writable.
    pub fn pages(&self) -> Range<usize> {
        self.pages.clone()
    }

    /// Ends the guard, as dropping it does, and returns whether the pages have their former rights.
    ///
    /// # Errors
    /// [`TextError::Unrestored`] if the system refuses to restore the former rights of some pages.
    pub fn close(self) -> Result<(), TextError> {
        ManuallyDrop::new(self).end()
    }

    fn end(&self) -> Result<(), TextError> {
        if self.pages.is_empty() { Ok(()) } else { lock().close(&self.pages, self.epoch) }
    }
}

impl Drop for OpenText {
    fn drop(&mut self) {
        // `unrestored_bytes` counts pages that could not be restored.
        let _ = self.end();
    }
}

impl fmt::Debug for OpenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenText({:#x}..{:#x})", self.pages.start, self.pages.end)
    }
}

/// Reopens pages of a guard that were writable when it was made: the code that made them writable
/// may have sealed them since.
///
/// # Errors
/// The same as those of [`OpenText::new`].
pub fn renew(text: &OpenText) -> Result<(), TextError> {
    if text.pages.is_empty() { Ok(()) } else { lock().renew(&text.pages) }
}

/// A batch of writes to loaded objects' text. While it lives, no other thread opens or seals text.
pub struct WritableRuns(Locked);

#[expect(clippy::new_without_default, reason = "it takes a lock")]
impl WritableRuns {
    /// Waits for others that open text.
    pub fn new() -> Self {
        Self(lock())
    }

    /// Calls `write` while whole pages are writable. The inner result is that of restoring the
    /// pages that no guard holds open.
    ///
    /// # Errors
    /// The page that can't be opened, and the reason. `write` was not called.
    pub fn with_open(
        &mut self,
        whole: &Range<usize>,
        write: impl FnOnce(),
    ) -> Result<Result<(), TextError>, TextError> {
        self.0.write(whole, write)
    }
}

/// Returns an error with the first failing address of the requested range, rather than of its page.
fn within(error: TextError, bytes: &Range<usize>) -> TextError {
    match error {
        TextError::Unmapped { addr } => TextError::Unmapped { addr: addr.max(bytes.start) },
        TextError::NotReadable { addr } => TextError::NotReadable { addr: addr.max(bytes.start) },
        other => other,
    }
}

/// Returns the number of bytes that are still writable without a guard, since the system refused to
/// restore their pages' former rights.
///
/// The bytes make whole pages; the number is 0 in a process where no restoring has failed. A later
/// guard or batch on such pages tries again. Pages count if they may be writable and the system
/// does not tell.
///
/// The first call also installs this crate's hooks around `fork`, unless a patch has installed
/// them. It touches no text.
///
/// ```
/// assert_eq!(probe_patch::unrestored_bytes(), 0);
/// ```
pub fn unrestored_bytes() -> usize {
    lock().unrestored()
}

/// Forgets pages that are gone, without touching them: those of `unloaded`, pages that are no
/// longer mapped, and pages that were mapped anew and so are not writable. Guards on them may still
/// live; their ends do nothing there. Called when objects came or went, before their text is opened
/// again.
pub fn forget_gone(unloaded: &[Range<usize>]) {
    lock().forget_gone(unloaded);
}
