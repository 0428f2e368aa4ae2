//! Compresses and decompresses a text in pieces of several sizes, as blocks and frames.

use std::io::{Read, Write};

use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use lz4_flex::frame::{FrameDecoder, FrameEncoder};

pub fn work(text: &str, times: u64) -> usize {
    let mut packed = 0;
    for _ in 0..times {
        for size in [64, 1_000, 30_000] {
            for piece in text.as_bytes().chunks(size).take(2_000) {
                let bytes = compress_prepend_size(piece);
                assert!(decompress_size_prepended(&bytes).is_ok_and(|it| it == piece));
                packed += bytes.len();
            }
        }
        let mut encoder = FrameEncoder::new(Vec::new());
        encoder.write_all(text.as_bytes()).expect("memory");
        let bytes = encoder.finish().expect("memory");
        let mut text_again = Vec::new();
        FrameDecoder::new(&bytes[..]).read_to_end(&mut text_again).expect("what was written");
        assert!(text_again == text.as_bytes());
        packed += bytes.len();
    }
    packed
}
