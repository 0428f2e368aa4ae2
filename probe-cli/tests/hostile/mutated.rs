//! Very many files: real ones and made ones with some bytes changed, and files that any bytes
//! shape.

use std::{env, fs};

use probe_tests::whole;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::judge::{Seen, judge};
use crate::made::Made;
use crate::shaped::shape;

/// The files of one test: a slice of the number that `PROBE_TEST_WHOLE=1` asks for.
pub fn turns(all: usize) -> usize {
    if whole::is_asked_for() { all } else { all / 4 }
}

pub fn random() -> TestRng {
    TestRng::deterministic_rng(RngAlgorithm::ChaCha)
}

/// Returns a number below the limit, which is small.
pub fn below(random: &mut TestRng, limit: usize) -> usize {
    random.next_u32() as usize % limit
}

/// Changes some bytes, mostly of the part that is given.
pub fn mutate(random: &mut TestRng, bytes: &mut Vec<u8>, part: std::ops::Range<usize>) {
    for _ in 0..=below(random, 4) {
        let at = match below(random, 4) {
            0 => below(random, bytes.len()),
            _ => part.start + below(random, part.len()),
        };
        let at = at.min(bytes.len() - 1);
        match below(random, 7) {
            0 => bytes[at] = 0,
            1 => bytes[at] = u8::MAX,
            2 => bytes[at & !7..].iter_mut().take(8).for_each(|byte| *byte = u8::MAX),
            3 => bytes[at & !7..].iter_mut().take(8).for_each(|byte| *byte = 0),
            4 if below(random, 8) == 0 => bytes.truncate(at.max(1)),
            5 => bytes[at] = bytes[at].wrapping_add(8),
            _ => bytes[at] ^= 1 << below(random, 8),
        }
    }
}

#[test]
fn made_files_with_changed_bytes() {
    let turns = turns(40_000);
    let good = Made::with_probes(5).bytes();
    assert_eq!(judge(good.clone()), Seen { files: 1, probes: 5, sites: 5, findings: 0 });
    let mut random = random();
    let mut seen = Seen::default();
    for _ in 0..turns {
        let mut bytes = good.clone();
        let all = 0..bytes.len();
        mutate(&mut random, &mut bytes, all);
        seen.add(judge(bytes));
    }
    assert!(seen.files > turns / 2 && seen.sites > 2 * turns as u64, "{seen:?}");
    assert!(seen.findings > turns as u64 / 4, "{seen:?}");
}

#[test]
fn files_that_any_bytes_shape() {
    let turns = turns(40_000);
    let mut random = random();
    let mut seen = Seen::default();
    for _ in 0..turns {
        let mut choices = vec![0; below(&mut random, 200)];
        random.fill_bytes(&mut choices);
        seen.add(judge(shape(&choices)));
    }
    assert!(seen.files > turns / 4 && seen.sites > turns as u64 / 4, "{seen:?}");
}

mod probed {
    #[probe_runtime::probe(group = "hostile")]
    #[inline(never)]
    pub(crate) fn call(number: u64) -> u64 {
        probe!("at", number, text = "some");
        number
    }
}

/// This program has probes. Its file is large, so it gets fewer turns.
#[test]
fn this_program_with_changed_bytes() {
    assert_eq!(probed::call(1), 1);
    let good = fs::read(env::current_exe().unwrap()).unwrap();
    let whole = judge(good.clone());
    let expected =
        if cfg!(all(target_arch = "x86_64", target_os = "linux", not(probe_portable))) { 3 } else { 0 };
    assert!(whole.sites >= expected && whole.findings == 0, "{whole:?}");
    let turns = turns(100);
    let mut random = random();
    let mut seen = Seen::default();
    for _ in 0..turns {
        let mut bytes = good.clone();
        // The headers and the notes are at the beginning.
        mutate(&mut random, &mut bytes, 0..4096);
        seen.add(judge(bytes));
    }
    assert!(seen.files > turns / 5, "{seen:?}");
}
