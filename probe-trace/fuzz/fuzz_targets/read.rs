//! Reads and exports a file of any bytes, which are judged by the rules of `tests/hostile`.
#![no_main]

#[path = "../../tests/hostile/judge.rs"]
mod judge;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    judge::judge(&[file], &judge::FORMATS);
});
