//! Who may write which pages: counted for all that one copy of this crate does in the process, with the rights of before
//! given back exactly.
//!
//! Life of a guard: [`OpenText::new`] asks the kernel for the rights of the pages that nobody holds open yet, adds the
//! right to write to each, and counts itself in ▸ while it lives, the pages are writable ▸ its end counts it out, and
//! pages that nobody else holds get back the rights that they had, each its own.
//!
//! Batches of the control and guards of others meet in one map ([`runs`]) behind one mutex, so that none seals what
//! another is writing. A guard holds the mutex for the map and the system calls, not while it lives; a [`WritableRuns`] holds it
//! while it writes (microseconds; some milliseconds for a million sites), and so needs no entry in the map. It is taken
//! across a fork, after the control lock. Hits that it causes on its own thread (a probe in the allocator) count, but call
//! no consumer.
//!
//! What is asked of the kernel, and when: a guard asks each time (4 µs). A batch, whose sites lie in the text of loaded
//! objects, asks once for each mapping, and remembers the answer until objects come or go ([`known`]). Where the kernel's table
//! can't be read, each page is asked whether it is writable; but for that, text is taken for what linkers make it, readable and
//! executable ([`asked`]). So who gives text other rights by himself,
//! beside this crate, and after a batch has asked, finds what was there before; a guard on the pages makes the next batch
//! ask again.
//!
//! Two copies of this crate in one process have two maps. Pages that one finds writable it leaves so in the end, since it
//! can't tell another's guard from rights that were always there; the segment's flags would tell what text was linked as, but
//! going by them would seal what the other still writes. While it holds such pages open itself, it asks again before each
//! write: the other may have sealed them, and these rights are then what they get back. What is left: who writes through
//! a guard of his own, or as `Access::Held`, asks nobody; and a batch seals what it knows to have been sealed, though the other
//! has opened it since.
//!
//! Cost: a guard some 7 µs with its end: 4 µs the question, 2 µs the two `mprotect`; neither, on pages that are
//! open already. A batch adds some tens of nanoseconds to its system calls.

mod asked;
mod error;
#[cfg(all(test, loom))]
mod interleavings;
mod known;
#[cfg(probe_discovers)]
mod now;
mod runs;
mod shared;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;

use crate::os::text::pages;
use runs::Era;
use shared::{Locked, lock};

pub(super) use asked::check_readable;
pub use error::TextError;
#[cfg(probe_discovers)]
pub(super) use now::{NotOpen, write_now};
#[cfg(probe_discovers)]
pub(crate) use now::{close_held, make_room};
pub(crate) use shared::cross_forks;

/// Text that is writable while this lives.
///
/// Guards may overlap and nest, on any threads, and end in any order: the last one gives each page back the rights that
/// it had. Pages outside of the range are never touched.
///
/// Pages that are writable already are left so at the end. The guard is no hold on them: whoever made them writable may seal
/// them while it lives, without knowing of it. Another copy of this crate in the process, a plugin's, is such a somebody: neither
/// knows of the other's guards, and attachments. Don't hold open what the other patches.
///
/// A guard asks the kernel for the rights of its pages, where batches remember them (see
/// [`TextPolicy::Sealed`](super::TextPolicy::Sealed)); so after one, be it refused or over, batches ask again there.
///
/// Pages of a shared mapping can be opened too, if the system allows it: what is written there reaches everybody who has
/// mapped them.
///
/// Don't unmap what a guard holds open: its end would change the rights of whatever is mapped there by then. (For
/// shared objects with probes that are unloaded, the next operation on probes that looks at the objects, such as
/// [`probes`](crate::probes), forgets their pages; another guard does not look.)
///
/// A forked child inherits the guards of the forking thread; what other threads held open at that moment stays open in
/// the child.
///
/// ```
/// use probe_runtime::patch::{OpenText, TextError};
///
/// #[inline(never)]
/// fn patched() {}
///
/// let at = patched as fn() as usize;
/// let text = OpenText::new(at..at + 5)?;
/// assert!(text.pages().contains(&at));
/// // Here the five bytes can be written, under a protocol that suits those who execute them.
/// text.close()?;
///
/// assert_eq!(OpenText::new(8..9).unwrap_err(), TextError::Unmapped { addr: 8 });
/// # Ok::<(), TextError>(())
/// ```
#[must_use = "dropping the guard takes the right to write back"]
pub struct OpenText {
    pages: Range<usize>,
    era: Era,
}

impl OpenText {
    /// Makes all pages that hold these bytes writable; those that could not be executed still can't. An empty range opens
    /// nothing.
    ///
    /// # Errors
    /// [`TextError::Unmapped`] and [`TextError::NotReadable`] name the first address of the range where there is no text;
    /// [`TextError::Protected`] where the system refuses. Nothing is open then.
    pub fn new(bytes: Range<usize>) -> Result<Self, TextError> {
        if bytes.is_empty() {
            return Ok(Self { pages: bytes.start..bytes.start, era: Era::default() });
        }
        let last = isize::MAX.cast_unsigned() - 0xffff;
        if bytes.end > last {
            // Not a program's half of the addresses.
            return Err(TextError::Unmapped { addr: bytes.start.max(last) });
        }
        let whole = pages(bytes.clone());
        let era = lock().open(&whole).map_err(|error| within(error, &bytes))?;
        Ok(Self { pages: whole, era })
    }

    /// The pages.
    pub fn pages(&self) -> Range<usize> {
        self.pages.clone()
    }

    /// Ends the guard, as dropping it does, and tells how that went.
    ///
    /// # Errors
    /// [`TextError::Unrestored`] where the system does not let pages have their former rights back.
    pub fn close(self) -> Result<(), TextError> {
        ManuallyDrop::new(self).end()
    }

    fn end(&self) -> Result<(), TextError> {
        if self.pages.is_empty() { Ok(()) } else { lock().close(&self.pages, self.era) }
    }
}

impl Drop for OpenText {
    fn drop(&mut self) {
        // What could not be restored is counted: `unrestored_bytes`.
        let _ = self.end();
    }
}

impl fmt::Debug for OpenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenText({:#x}..{:#x})", self.pages.start, self.pages.end)
    }
}

/// A batch of writes to loaded objects' text. While it lives, nobody else opens or seals any text.
pub(super) struct WritableRuns(Locked);

impl WritableRuns {
    pub(super) fn new() -> Self {
        Self(lock())
    }

    /// Calls `write` while whole pages are writable. The inner result tells how restoring what is not held open went.
    pub(super) fn with_open(
        &mut self,
        whole: &Range<usize>,
        write: impl FnOnce(),
    ) -> Result<Result<(), TextError>, TextError> {
        self.0.write(whole, write)
    }
}

/// An address of the range that was asked for, rather than of its first page.
fn within(error: TextError, bytes: &Range<usize>) -> TextError {
    match error {
        TextError::Unmapped { addr } => TextError::Unmapped { addr: addr.max(bytes.start) },
        TextError::NotReadable { addr } => TextError::NotReadable { addr: addr.max(bytes.start) },
        other => other,
    }
}

/// Bytes of text that are writable though nobody holds them open, because the system did not let their pages have
/// their former rights back. Whole pages; 0 in a process where nothing went wrong. A later guard or batch on
/// such pages tries again. Where the system does not say whether pages are writable, those that may be are counted.
///
/// ```
/// assert_eq!(probe_runtime::patch::unrestored_bytes(), 0);
/// ```
pub fn unrestored_bytes() -> usize {
    lock().unrestored()
}

/// Forgets, without touching them, pages that are gone: those of `unloaded`, and all that are not mapped any more, or
/// were mapped anew, and so are not writable. Guards on them may still live; they end without doing anything there. For
/// when objects came or went, before their text is opened again.
pub(crate) fn forget_gone(unloaded: &[Range<usize>]) {
    lock().forget_gone(unloaded);
}
