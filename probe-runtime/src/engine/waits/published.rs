//! A sequence lock: words that one thread publishes together, and others read at any time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

/// Words that belong together. Zeroes are published zeroes.
#[repr(C)]
pub(super) struct Published<const N: usize> {
    /// How often they were written; odd in between.
    version: AtomicU64,
    /// One alone may be of any publication.
    pub(super) words: [AtomicU64; N],
}

impl<const N: usize> Default for Published<N> {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; N] }
    }
}

impl<const N: usize> Published<N> {
    /// Publishes words. One thread at a time does. A fork may have cut off an earlier one.
    pub(super) fn publish(&self, words: [u64; N]) {
        let odd = self.version.load(Relaxed) | 1;
        self.version.store(odd, Relaxed);
        // Readers that see any of these see the version before it.
        fence(Release);
        self.words.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        self.version.store(odd + 1, Release);
    }

    /// Returns the words that were published last; `None` if some are being published.
    pub(super) fn read(&self) -> Option<[u64; N]> {
        let before = self.version.load(Acquire);
        let words = self.words.each_ref().map(|word| word.load(Relaxed));
        fence(Acquire);
        (before.is_multiple_of(2) && self.version.load(Relaxed) == before).then_some(words)
    }
}
