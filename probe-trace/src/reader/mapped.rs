//! Rings in the file itself. Their threads may write them while they are read, or may have been
//! killed in the middle of a store.
//!
//! A thread stores an event's payload first and its word last, and the word after its last event is
//! zero. So the events before the first word that is zero are whole, at any moment.

use std::io;
use std::ops::Range;

use super::clock::Reading;
use super::file::{CHUNK_WORDS, SubBuffer, TraceFile};
use crate::layout::{event, ring, sub_buffer};

/// The most bytes of a ring, so that no sum overflows. A larger ring is not read.
const MAX_RING_BYTES: u64 = 1 << 62;

impl TraceFile {
    /// Notes the sub-buffers and losses of the rings that lie in this part of the file. `stride` is
    /// the bytes of one ring's memory. A ring that the file's end cuts off is read up to there.
    pub(super) fn scan_rings(
        &mut self,
        content: Range<u64>,
        stride: u64,
        readings: &mut Vec<Reading>,
    ) -> io::Result<()> {
        let ([sub_buffers, words], length) = (self.shape, content.end);
        let bytes = sub_buffers.checked_mul(words).and_then(|words| words.checked_mul(8));
        let is_possible =
            |bytes: &u64| *bytes != 0 && *bytes <= stride.min(MAX_RING_BYTES) && stride.is_multiple_of(8);
        let Some(bytes) = bytes.filter(is_possible) else {
            self.problems.push(format!("the rings at byte {} have an impossible size", content.start));
            return Ok(());
        };
        let mut start = content.start;
        for number in 0.. {
            if start >= length {
                break;
            }
            let before = self.sub_buffers.len();
            for place in 0..sub_buffers {
                let at = start + place * words * 8;
                let Some(head) = self.words_at(at, sub_buffer::WORDS, length)? else { break };
                let Some(own) = head[sub_buffer::SEQUENCE].checked_sub(1) else {
                    // A ring begins with its first sub-buffer.
                    if place == 0 && head[sub_buffer::THREAD] == 0 {
                        break;
                    }
                    continue;
                };
                if own % sub_buffers != place {
                    self.problems.push(format!("the sub-buffer at byte {at} has an impossible number"));
                    continue;
                }
                readings.extend(Reading::in_sub_buffer(&head));
                let words = usize::try_from(words.min((length - at) / 8)).unwrap_or(usize::MAX);
                self.sub_buffers.push(SubBuffer { ring: number, number: own, at, words, is_live: true });
            }
            if self.sub_buffers.len() > before
                && let Some(head) = self.words_at(start + bytes, ring::WORDS, length)?
            {
                self.losses.heads.extend(head.try_into().ok().map(|head| (number, head)));
            }
            let Some(next) = start.checked_add(stride) else { break };
            start = next;
        }
        Ok(())
    }

    /// Reads the words of a live sub-buffer that are in use. `None` if its thread has begun a later
    /// one in its place.
    pub(super) fn read_live(&mut self, of: SubBuffer) -> io::Result<Option<Vec<u64>>> {
        let (mut rest, mut words) = (of, Vec::new());
        // The part behind the last event may be large, and a hole of the file. Each part is as long
        // as all parts before it, so each word is looked at twice at most.
        let end = loop {
            let most = CHUNK_WORDS.max(words.len());
            words.append(&mut self.take(&mut rest, most)?);
            let end = used(&words);
            if rest.words == 0 || words.len() - end > event::PAYLOAD_MAX {
                break end;
            }
        };
        words.truncate(end);
        // As with a seqlock: the thread clears the number before it writes anew.
        let number = [of.number + 1];
        let is_same = words[..1] == number && self.words_at(of.at, 1, u64::MAX)?.as_deref() == Some(&number);
        Ok(is_same.then_some(words))
    }
}

/// Returns the number of words in use.
fn used(words: &[u64]) -> usize {
    let used = usize::try_from(words[sub_buffer::USED]).unwrap_or(usize::MAX);
    let end = if used == 0 { words.len() } else { used.clamp(sub_buffer::WORDS, words.len()) };
    let mut at = sub_buffer::WORDS;
    while at < end && words[at] != 0 {
        let next = at + 1 + event::payload(words[at]);
        // The file was cut off in the middle of this record.
        if next > end {
            break;
        }
        at = next;
    }
    at
}
