//! Hashes a text's lines, and pieces of many lengths: at once, and as a stream.

use std::hash::Hasher;

use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64};

pub fn work(text: &str, times: u64) -> usize {
    let mut all = 0;
    for seed in 0..times {
        for line in text.lines() {
            all ^= XxHash64::oneshot(seed, line.as_bytes()) ^ XxHash3_64::oneshot(line.as_bytes());
        }
        for length in [7, 100, 1_000, 30_000] {
            let mut stream = XxHash64::with_seed(seed);
            let mut other = XxHash3_64::with_seed(seed);
            for piece in text.as_bytes().chunks(length).take(1_000) {
                stream.write(piece);
                other.write(piece);
                all ^= u64::from(XxHash32::oneshot(1, piece)) ^ XxHash3_128::oneshot(piece) as u64;
            }
            all ^= stream.finish() ^ other.finish();
        }
    }
    (all | 1) as usize
}
