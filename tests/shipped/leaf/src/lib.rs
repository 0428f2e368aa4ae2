//! A library at the end of a chain, as its author ships it: without the standard library, without
//! `unsafe`, and without a word about possible listeners.

#![no_std]
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, clippy::mem_forget)]

use core::fmt::Debug;
use core::hint::black_box;

use probe_runtime::probe;

/// A decoded frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its tag.
    pub tag: u8,
    /// Its payload's length.
    pub len: usize,
}

/// Decodes the head of a frame.
///
/// # Errors
/// If there is none: how many bytes are missing.
#[probe]
#[inline(never)]
pub fn decode(bytes: &[u8]) -> Result<Frame, usize> {
    let [tag, payload @ ..] = bytes else {
        probe!("decode::short", missing = 1_usize - bytes.len());
        return Err(1);
    };
    probe!("decode::frame", tag = *tag, len = payload.len(), head = ?payload.first());
    Ok(Frame { tag: *tag, len: payload.len() })
}

/// Sums up what an iterator gives.
#[probe]
#[inline(never)]
pub fn sum<T: Copy + Into<u64> + Debug>(items: &[T]) -> u64 {
    items.iter().map(|item| (*item).into()).sum()
}

/// Waits for a future, then decodes its result.
///
/// # Errors
/// As [`decode`].
#[probe]
pub async fn fetch<'a>(source: impl Future<Output = &'a [u8]>) -> Result<Frame, usize> {
    decode(source.await)
}

/// Counts frames.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    frames: usize,
}

#[probe(group = "leaf::tally")]
impl Tally {
    /// Counts one more, if it has a payload.
    #[inline(never)]
    pub fn add(&mut self, frame: Frame) {
        if frame.len != 0 {
            probe!("Tally::counted", tag = frame.tag, so_far = self.frames);
            self.frames += 1;
        }
    }

    /// How many there were. (Left out: it is small.)
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }
}

/// Nothing calls it.
#[probe(ret)]
#[must_use]
pub fn spare() -> u32 {
    let n = black_box(1_u32);
    probe_runtime::point!("never", n);
    n
}
