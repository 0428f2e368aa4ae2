//! Reads and audits a file whose headers are right: the bytes choose the content of its tables.
#![no_main]
#![allow(dead_code, reason = "the tests use more of these modules")]

#[path = "../../tests/hostile/judge.rs"]
mod judge;
#[path = "../../tests/hostile/made.rs"]
mod made;
#[path = "../../tests/hostile/shaped.rs"]
mod shaped;

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    judge::judge(shaped::shape(choices));
});
