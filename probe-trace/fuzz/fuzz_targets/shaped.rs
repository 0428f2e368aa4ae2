//! Reads, merges and exports one or two files whose blocks are whole: the bytes choose blocks,
//! definitions and records.
#![no_main]
#![allow(dead_code, reason = "the tests use more of these modules")]

#[path = "../../tests/hostile/judge.rs"]
mod judge;
#[path = "../../tests/hostile/made.rs"]
mod made;
#[path = "../../tests/hostile/shaped.rs"]
mod shaped;

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    let Some((divided, choices)) = choices.split_first() else { return };
    let (one, other) = choices.split_at(choices.len() * usize::from(*divided % 4) / 4);
    let files = [one, other].map(shaped::shape);
    judge::judge(&files.each_ref().map(Vec::as_slice), &judge::FORMATS);
});
