//! A ring that lies in a mapped file. Its words go on behind the sub-buffers, with a [head](ring)
//! as files have it for the losses.
//!
//! The file is readable at any moment, also if the process is killed in the middle of a store:
//!
//! - An event's payload is stored before its word, and the word behind the last event is zero: the
//!   thread clears a part of the sub-buffer before it writes there.
//! - The number of a sub-buffer is zero while its header is written, as for readers in the process.
//! - The position is not in the file, so no change of the file leads a store astray.
//! - A child that a signal handler has forked in the middle of a hit finds the head empty, and the
//!   parent's file in its memory. It notices the first before it stores a word.
//!
//! Cost: a store for each word that is used again. The words of a part are cleared at once, shortly
//! before they are written, when the processor has to fetch their cache lines anyway.

use probe_trace::layout::ring;

use super::super::atomic::AtomicU64;
use super::super::atomic::Ordering::{Acquire, Relaxed, Release};
use super::{Ring, Shape, at};

/// Words that are cleared at once.
const CLEARED: u64 = 512;

impl<'a> Ring<'a> {
    /// Clears the words behind those that are clear, where readers look for the first zero. Returns
    /// whether the sub-buffer has so much room.
    #[cold]
    pub(super) fn clear(self, shape: Shape, wanted: u64) -> bool {
        let head = self.head;
        let (position, end) = (head.position.load(Acquire), head.end.load(Acquire));
        // After a lost event, another sub-buffer begins.
        if self.tail(shape).is_none() || head.lost_now.load(Relaxed) != 0 || position == 0 {
            return false;
        }
        let limit = (position - 1) / shape.words * shape.words + shape.words;
        if limit - position < wanted {
            return false;
        }
        // The word behind the last event of the cleared part stays zero.
        let until = limit.min((position + wanted).max(end + CLEARED) + 1);
        let lap = head.lap.load(Relaxed);
        let words = self.words.get(at(end.wrapping_sub(lap))..at(until - lap)).unwrap_or_default();
        words.iter().for_each(|word| self.put(word, 0, Relaxed));
        head.end.store(if until == limit { limit } else { until - 1 }, Relaxed);
        true
    }

    /// Returns the words behind the sub-buffers; `None` if the memory is no file's.
    pub(super) fn tail(self, shape: Shape) -> Option<&'a [AtomicU64; ring::WORDS]> {
        self.words.get(at(shape.sub_buffers * shape.words)..)?.first_chunk()
    }

    /// Tells the losses to the file that the ring lies in.
    pub(super) fn tell_loss(self, shape: Shape) {
        let Some(tail) = self.tail(shape) else { return };
        let words = self.head_words();
        let parts = [ring::THREAD, ring::TID, ring::GAP_BEGIN, ring::GAP_END, ring::LOST_NOW];
        parts.into_iter().for_each(|at| self.put(&tail[at], words[at], Relaxed));
        self.put(&tail[ring::LOST], words[ring::LOST], Release);
    }

    /// Tells the whole head to the file that the ring lies in, once no thread writes any more.
    pub(in super::super) fn close(self, shape: Shape) {
        let Some(tail) = self.tail(shape) else { return };
        tail.iter().zip(self.head_words()).for_each(|(at, word)| at.store(word, Relaxed));
    }

    /// Returns the ring's head as files have it.
    pub(in super::super) fn head_words(self) -> [u64; ring::WORDS] {
        let mut words = [0; ring::WORDS];
        self.head.shown().into_iter().for_each(|(at, of)| words[at] = of.load(Relaxed));
        words
    }
}
