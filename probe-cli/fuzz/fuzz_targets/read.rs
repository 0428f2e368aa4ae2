//! Reads and audits a file of any bytes, which are judged by the rules of `tests/hostile`.
#![no_main]
#![allow(dead_code, reason = "the tests use more of this module")]

#[path = "../../tests/hostile/judge.rs"]
mod judge;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    judge::judge(file.to_vec());
});
