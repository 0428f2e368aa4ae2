//! Copies of sub-buffers, which other threads take while the ring's own writes.

use probe_trace::layout::sub_buffer;

use super::super::atomic::Ordering::{Acquire, Relaxed};
use super::super::atomic::fence;
use super::{HEADER, Ring, Shape, at};

impl Ring<'_> {
    /// Returns the numbers of the sub-buffers that the ring may hold, the current one last.
    pub(in super::super) fn numbers(self, shape: Shape) -> std::ops::Range<u64> {
        let position = self.head.position.load(Acquire);
        let end = position.div_ceil(shape.words);
        end.saturating_sub(shape.sub_buffers)..end
    }

    /// Copies the used words of a sub-buffer, in place of those in `copy`. `None` if its thread has
    /// begun to write a later one there, or has not begun this one.
    pub(in super::super) fn copy(self, shape: Shape, number: u64, copy: &mut Vec<u64>) -> Option<()> {
        let sequence = self.header(shape, number, sub_buffer::SEQUENCE);
        if sequence.load(Acquire) != number + 1 {
            return None;
        }
        let used = self.used(shape, number)?;
        let start = at(number % shape.sub_buffers * shape.words);
        let words = self.words.get(start..start + at(used))?;
        copy.clear();
        copy.extend(words.iter().map(|word| word.load(Relaxed)));
        fence(Acquire);
        if sequence.load(Relaxed) != number + 1 {
            return None;
        }
        *copy.get_mut(sub_buffer::USED)? = used;
        Some(())
    }

    /// Adds the words of a sub-buffer from `words.len()` on that are whole records by now. Its
    /// thread must not begin to write a later one there.
    pub(in super::super) fn extend(self, shape: Shape, number: u64, words: &mut Vec<u64>) {
        if self.header(shape, number, sub_buffer::SEQUENCE).load(Acquire) != number + 1 {
            return;
        }
        let Some(used) = self.used(shape, number) else { return };
        let start = at(number % shape.sub_buffers * shape.words);
        let new = self.words.get(start + words.len()..start + at(used)).unwrap_or_default();
        words.extend(new.iter().map(|word| word.load(Relaxed)));
    }

    /// Returns the number of words that a sub-buffer uses.
    fn used(self, shape: Shape, number: u64) -> Option<u64> {
        let position = self.head.position.load(Acquire);
        let used = match self.header(shape, number, sub_buffer::USED).load(Acquire) {
            0 => position.saturating_sub(number * shape.words).min(shape.words),
            used => used,
        };
        (HEADER..=shape.words).contains(&used).then_some(used)
    }

    /// Returns the events before a sub-buffer that was not drained, or that has not begun.
    pub(in super::super) fn before(self, shape: Shape, number: u64) -> u64 {
        // All that is there unless the sub-buffer has begun.
        let written = self.head.written.load(Acquire);
        let header = |word| self.header(shape, number, word);
        if header(sub_buffer::SEQUENCE).load(Acquire) == number + 1 {
            header(sub_buffer::WRITTEN_BEFORE).load(Relaxed)
        } else {
            written
        }
    }

    /// Returns whether the thread has left this sub-buffer, or filled it.
    pub(in super::super) fn is_whole(self, shape: Shape, number: u64) -> bool {
        self.head.position.load(Acquire) >= (number + 1) * shape.words
    }
}
