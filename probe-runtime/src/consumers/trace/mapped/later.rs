//! Room in a mapped file for the definitions of probes that join.
//!
//! The room is one unused block, and each addition cuts it in two:
//!
//! ```text
//! unused(n)  ▸  definitions(m) unused(n - m - header)
//! ```
//! The second block's header is stored first, then the definitions, then the first block's length,
//! and its kind last. So a reader finds whole blocks at any moment, and so does a child that copies
//! them. Definitions never change.
//!
//! Cost: none on hits.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use probe_trace::layout::block;

/// The room's words, from the unused block's header to the end of its content.
#[derive(Clone, Copy)]
pub(super) struct Later<'a>(pub(super) &'a [AtomicU64]);

impl<'a> Later<'a> {
    /// Adds definitions, which are whole words. Returns whether there was room. One thread at a
    /// time may call this.
    pub(super) fn add(self, definitions: &[u8]) -> bool {
        let words = definitions.as_chunks().0;
        let Some((at, room)) = self.unused() else { return false };
        let rest = room.checked_sub(words.len()).and_then(|rest| rest.checked_sub(block::WORDS));
        let Some(rest) = rest else { return false };
        let store = |at: usize, word: u64| self.0[at].store(word, Relaxed);
        let content = at + block::WORDS;
        header(rest).into_iter().zip(content + words.len()..).for_each(|(word, at)| store(at, word));
        words.iter().zip(content..).for_each(|(word, at)| store(at, u64::from_le_bytes(*word)));
        self.0[at + block::BYTES_AT].store(words.len() as u64 * 8, Release);
        self.0[at + block::KIND_AT].store(block::DEFINITIONS, Release);
        true
    }

    /// Returns the words that have definitions, and the header of the block behind them. It is
    /// `None` if there are no definitions.
    pub(super) fn used(self) -> Option<(&'a [AtomicU64], [u64; block::WORDS])> {
        let (used, rest) = self.unused()?;
        (used != 0).then(|| (&self.0[..used], header(rest)))
    }

    /// Returns the place of the unused block, and the words of its content; `None` if the memory
    /// has no such block, as where another program has cut the file off.
    fn unused(self) -> Option<(usize, usize)> {
        let mut at = 0;
        loop {
            let head = self.0.get(at..at + block::WORDS)?;
            // Before its length.
            let kind = head[block::KIND_AT].load(Acquire);
            let bytes = head[block::BYTES_AT].load(Acquire);
            let words = usize::try_from(bytes / 8).ok()?;
            let is_whole = words <= self.0.len() - at - block::WORDS;
            match (head[block::MAGIC_AT].load(Relaxed), kind) {
                (block::MAGIC, block::UNUSED) if is_whole => return Some((at, words)),
                (block::MAGIC, block::DEFINITIONS) if is_whole => at += block::WORDS + words,
                _ => return None,
            }
        }
    }
}

/// Returns the header of an unused block of so many words.
pub(super) fn header(words: usize) -> [u64; block::WORDS] {
    let mut header = [0; block::WORDS];
    (header[block::MAGIC_AT], header[block::KIND_AT]) = (block::MAGIC, block::UNUSED);
    header[block::BYTES_AT] = words as u64 * 8;
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A room for so many words of content.
    fn room(words: usize) -> Vec<AtomicU64> {
        let zeros = std::iter::repeat_n(0, words);
        header(words).into_iter().chain(zeros).map(AtomicU64::new).collect()
    }

    /// Returns kind and content of each block.
    fn blocks(words: &[AtomicU64]) -> Vec<(u64, Vec<u64>)> {
        let words: Vec<_> = words.iter().map(|it| it.load(Relaxed)).collect();
        let (mut rest, mut blocks) = (&words[..], Vec::new());
        while let Some((head, content)) = rest.split_at_checked(block::WORDS) {
            assert_eq!(head[block::MAGIC_AT], block::MAGIC);
            let (content, others) = content.split_at(usize::try_from(head[block::BYTES_AT] / 8).unwrap());
            blocks.push((head[block::KIND_AT], content.to_vec()));
            rest = others;
        }
        assert_eq!(rest, [0; 0]);
        blocks
    }

    #[test]
    fn each_addition_cuts_the_room() {
        let words = room(20);
        let later = Later(&words);
        assert!(later.used().is_none());
        assert!(later.add(&[1; 16]) && later.add(&[2; 8]));
        let (one, other) = (u64::from_le_bytes([1; 8]), u64::from_le_bytes([2; 8]));
        let expected = [
            (block::DEFINITIONS, vec![one; 2]),
            (block::DEFINITIONS, vec![other]),
            (block::UNUSED, vec![0; 9]),
        ];
        assert_eq!(blocks(&words), expected);
        let (used, after) = later.used().unwrap();
        assert_eq!((used.len(), after), (11, header(9)));
    }

    #[test]
    fn the_last_words_are_used_and_no_more() {
        let words = room(2 + block::WORDS);
        let before = blocks(&words);
        assert!(!Later(&words).add(&[1; 24]));
        assert_eq!(blocks(&words), before);
        assert!(Later(&words).add(&[1; 16]));
        assert_eq!(blocks(&words)[1], (block::UNUSED, vec![]));
        assert!(!Later(&words).add(&[]) && !Later(&words).add(&[1; 8]));
    }

    #[test]
    fn memory_without_blocks_has_no_room() {
        for words in [vec![], vec![0; 3], vec![0; 50], [header(100).to_vec(), vec![0; 9]].concat()] {
            let words: Vec<_> = words.into_iter().map(AtomicU64::new).collect();
            assert!(!Later(&words).add(&[1; 8]) && Later(&words).used().is_none());
        }
    }
}
