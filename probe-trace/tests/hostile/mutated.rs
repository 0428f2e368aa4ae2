//! Very many files: shaped by any bytes, and good ones with some bytes changed.

use std::env;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::judge::{FORMATS, Seen, judge};
use crate::made::{File, definition};
use crate::shaped::shape;
use probe_trace::layout::{block, event, field};

/// The files of one test: a slice of the 50,000 that `PROBE_TEST_WHOLE=1` asks for.
fn each() -> usize {
    if env::var_os("PROBE_TEST_WHOLE").is_some_and(|asked| asked == "1") { 50_000 } else { 2_000 }
}

fn random() -> TestRng {
    TestRng::deterministic_rng(RngAlgorithm::ChaCha)
}

/// Returns a number below the limit, which is small.
fn below(random: &mut TestRng, limit: usize) -> usize {
    random.next_u32() as usize % limit
}

#[test]
fn files_that_any_bytes_shape() {
    let (each, mut random) = (each(), random());
    let mut seen = Seen::default();
    let mut files = Vec::new();
    for turn in 0..each {
        let mut choices = vec![0; below(&mut random, 400)];
        random.fill_bytes(&mut choices);
        files.push(shape(&choices));
        if files.len() > below(&mut random, 2) {
            let all: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
            seen.add(judge(&all, &FORMATS[turn % FORMATS.len()..][..1]));
            files.clear();
        }
    }
    // They reach all that is behind the headers.
    assert!(seen.files > each * 9 / 10 && seen.events > each && seen.written > each * 100, "{seen:?}");
}

#[test]
fn good_files_with_changed_bytes() {
    let good = good();
    assert_eq!(judge(&[&good], &FORMATS).events, 24);
    let (each, mut random) = (each(), random());
    let mut seen = Seen::default();
    for turn in 0..each {
        let mut bytes = good.clone();
        for _ in 0..=below(&mut random, 4) {
            let at = below(&mut random, bytes.len());
            match below(&mut random, 6) {
                0 => bytes[at] = 0,
                1 => bytes[at] = u8::MAX,
                2 => bytes[at & !7..].iter_mut().take(8).for_each(|byte| *byte = u8::MAX),
                3 => bytes.truncate(at.max(1)),
                // A part of the file, once more.
                4 => bytes.extend_from_within(at..),
                _ => bytes[at] ^= 1 << below(&mut random, 8),
            }
        }
        seen.add(judge(&[&bytes], &FORMATS[turn % FORMATS.len()..][..1]));
    }
    assert!(seen.files > each / 2 && seen.events > each * 5, "{seen:?}");
}

/// Makes a file with two threads, calls, a future and all kinds of fields.
fn good() -> Vec<u8> {
    let mut file = File::new();
    file.block(block::PROGRAM, 0, b"program");
    let fields = ["n", "text", "wide"];
    file.definitions(&[
        definition(0, 1, 0, "app::outer", &fields),
        definition(1, 2, 0, "app::outer", &[]),
        definition(2, 1, 1, "c::inner", &[]),
        definition(3, 2, 1, "c::inner", &[]),
        definition(4, 1, 2, "app::task", &["future"]),
        definition(5, 4, 2, "app::task", &["future"]),
    ]);
    let types = u64::from_le_bytes([field::U64, field::STR, field::I128, 0, 0, 0, 0, 0]);
    for thread in 0..2 {
        let mut records = Vec::new();
        for at in 0..2 {
            records.extend([event::word(0, 6, at * 100), types, 7, 5 << 32 | 3, 0x63_62_61, 1, 2]);
            records.extend([event::word(2, 1, at * 100 + 10), 9000 - u64::from(at)]);
            records.extend([event::word(3, 1, at * 100 + 20), 9000 - u64::from(at)]);
            let future = [field::U64.into(), 0x5000 + thread];
            records.extend([event::word(4, 2, at * 100 + 30), future[0], future[1]]);
            records.extend([event::word(5, 2, at * 100 + 40), future[0], future[1]]);
            records.push(event::word(1, 0, at * 100 + 50));
        }
        file.sub_buffer(thread, 0, &[], &records);
        file.words(
            block::RING,
            thread,
            &[0, 12, 0, 0, 0, 0, 0, thread + 1, thread + 101, 0, 0, 0, 0, 0, 0, 0],
        );
    }
    file.reading(1 << 30);
    file.words(block::UNSEEN, 0, &[0, 0]);
    file.0
}
