//! Room in a mapped file for the definitions of probes that join.
//!
//! The room is one unused block, and each addition cuts it in two:
//!
//! ```text
//! unused(n)  ▸  definitions(m) unused(n - m - header)
//! ```
//! The second block's header is stored first, then the definitions, then the first block's length,
//! and its kind last. So a reader of the file finds whole blocks at any moment. Definitions never
//! change.
//!
//! Cost: none on hits, but for the first one of a child, which writes the definitions so far.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use probe_trace::layout::block;

/// The room's words, from the header of its first block to the end of the last one's content.
#[derive(Clone, Copy)]
pub(super) struct Later<'a>(pub(super) &'a [AtomicU64]);

impl Later<'_> {
    /// Returns the place of the unused block. The room has whole blocks.
    pub(super) fn unused(self) -> usize {
        let mut at = 0;
        while let [_, kind, bytes, ..] = &self.0[at..]
            && kind.load(Relaxed) == block::DEFINITIONS
        {
            at += block::WORDS + usize::try_from(bytes.load(Relaxed) / 8).unwrap_or_default();
        }
        at
    }

    /// Returns the place of the unused block if it has room for these definitions.
    pub(super) fn place(self, definitions: &[u8]) -> Option<usize> {
        let at = self.unused();
        (at + 2 * block::WORDS + definitions.len() / 8 <= self.0.len()).then_some(at)
    }

    /// Puts definitions, which are whole words, into the unused block at this [place](Self::place).
    /// One thread at a time may call this.
    pub(super) fn put(self, at: usize, definitions: &[u8]) {
        let words = definitions.as_chunks().0;
        let content = at + block::WORDS;
        let next = content + words.len();
        let store = |at: usize, word: u64| self.0[at].store(word, Relaxed);
        let header = header(self.0.len() - next - block::WORDS);
        header.into_iter().zip(next..).for_each(|(word, at)| store(at, word));
        words.iter().zip(content..).for_each(|(word, at)| store(at, u64::from_le_bytes(*word)));
        self.0[at + block::BYTES_AT].store(words.len() as u64 * 8, Release);
        self.0[at + block::KIND_AT].store(block::DEFINITIONS, Release);
    }
}

const _: () = assert!(block::KIND_AT == 1 && block::BYTES_AT == 2);

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

    fn add(words: &[AtomicU64], definitions: &[u8]) -> bool {
        let place = Later(words).place(definitions);
        place.inspect(|at| Later(words).put(*at, definitions)).is_some()
    }

    #[test]
    fn each_addition_cuts_the_room() {
        let words = room(20);
        assert_eq!(Later(&words).unused(), 0);
        assert!(add(&words, &[1; 16]) && add(&words, &[2; 8]));
        let (one, other) = (u64::from_le_bytes([1; 8]), u64::from_le_bytes([2; 8]));
        let expected = [
            (block::DEFINITIONS, vec![one; 2]),
            (block::DEFINITIONS, vec![other]),
            (block::UNUSED, vec![0; 9]),
        ];
        assert_eq!((blocks(&words), Later(&words).unused()), (expected.into(), 11));
    }

    #[test]
    fn the_last_words_are_used_and_no_more() {
        let words = room(2 + block::WORDS);
        let before = blocks(&words);
        assert!(!add(&words, &[1; 24]));
        assert_eq!(blocks(&words), before);
        assert!(add(&words, &[1; 16]));
        assert_eq!(blocks(&words)[1], (block::UNUSED, vec![]));
        assert!(!add(&words, &[]) && !add(&words, &[1; 8]));
    }

    /// A child's file may have a part of an addition when the whole comes.
    #[test]
    fn an_addition_may_be_repeated() {
        let (words, other) = (room(20), room(20));
        assert!(add(&words, &[1; 16]) && add(&other, &[1; 16]));
        let at = Later(&words).place(&[2; 8]).unwrap();
        Later(&words).put(at, &[2; 8]);
        for copied in 0..20 {
            words.iter().zip(&other).take(copied).for_each(|(it, to)| to.store(it.load(Relaxed), Relaxed));
            Later(&other).put(at, &[2; 8]);
            assert_eq!(blocks(&other), blocks(&words));
        }
    }
}
