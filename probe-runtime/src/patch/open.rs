//! The text that [`TextPolicy::Open`](super::TextPolicy::Open) keeps writable.

use std::io;
use std::ops::Range;

use crate::os::text::{Access, pages, protect};

/// The text segments that are open, with the number of their openers.
#[derive(Default, Debug)]
pub(crate) struct OpenSegments {
    segments: Vec<(Range<usize>, usize)>,
}

impl OpenSegments {
    /// Whether all of these bytes are writable.
    pub(super) fn covers(&self, bytes: &Range<usize>) -> bool {
        self.segments.iter().any(|(open, _)| open.start <= bytes.start && bytes.end <= open.end)
    }

    /// Opens a text segment, or counts one more opener.
    ///
    /// # Errors
    /// The system's, where it does not allow text to be written; nothing is open then.
    pub(crate) fn open(&mut self, segment: &Range<usize>) -> io::Result<()> {
        let whole = pages(segment.clone());
        if let Some((_, openers)) = self.segments.iter_mut().find(|(open, _)| *open == whole) {
            *openers += 1;
            return Ok(());
        }
        protect(whole.clone(), Access::Open)?;
        self.segments.push((whole, 1));
        Ok(())
    }

    /// Takes one opener back; the last one seals the segment.
    ///
    /// # Errors
    /// The system's; the segment then stays writable.
    pub(crate) fn close(&mut self, segment: &Range<usize>) -> io::Result<()> {
        let whole = pages(segment.clone());
        let Some(at) = self.segments.iter().position(|(open, _)| *open == whole) else { return Ok(()) };
        self.segments[at].1 -= 1;
        if self.segments[at].1 == 0 {
            self.segments.swap_remove(at);
            protect(whole, Access::Sealed)?;
        }
        Ok(())
    }

    /// Forgets the segments of objects that were unloaded.
    pub(crate) fn retain(&mut self, is_loaded: impl Fn(&Range<usize>) -> bool) {
        self.segments.retain(|(open, _)| is_loaded(open));
    }
}
