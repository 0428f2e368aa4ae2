//! Compresses a text at three levels, and decompresses it.

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib;

pub fn work(text: &str, times: u64) -> usize {
    let text = text.as_bytes();
    let mut packed = 0;
    for _ in 0..times {
        for level in [1, 6, 9] {
            let bytes = compress_to_vec_zlib(text, level);
            assert!(decompress_to_vec_zlib(&bytes).is_ok_and(|it| it == text));
            packed += bytes.len();
        }
    }
    packed
}
