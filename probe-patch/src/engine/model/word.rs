//! Checks the plans of [`word`](super::super::word) against the model.

use proptest::prelude::*;
use proptest::sample::Index;

use super::protocol::is_torn;
use super::{BASE, History, LINE, Memory, ModelStep, fetched, fetched_last};
use crate::engine::bytes::Bytes;
use crate::engine::word::{self, INT3, Plan, is_straddler};

/// Carries out the steps of a plan. Each write must find the expected bytes.
fn carry_out(history: &mut History, plan: &Plan, strict: bool) {
    plan.steps(strict).into_iter().for_each(|step| take(history, step));
}

fn take(history: &mut History, step: word::Step) {
    match step {
        word::Step::Sync => history.push(ModelStep::Sync),
        word::Step::Write(write) => {
            assert_eq!(
                history.now().word(write.word) & write.mask,
                write.from,
                "plans' writes follow each other"
            );
            history.push(ModelStep::Write { word: write.word, mask: write.mask, to: write.to });
        }
    }
}

fn plan(addr: usize, old: Bytes, new: Bytes) -> Plan {
    Plan::new(addr, old, new).expect("as long")
}

/// Returns instructions that do not begin with `int3`.
fn instruction(len: usize) -> impl Strategy<Value = Bytes> {
    // Few values, so that parts of two instructions are often the same.
    let byte = prop_oneof![0_u8..3, any::<u8>()];
    proptest::collection::vec(byte, len)
        .prop_filter_map("int3", |bytes| if bytes[0] == INT3 { None } else { Bytes::new(&bytes) })
}

/// Returns addresses near a boundary of words, or of cache lines, with some instructions for each.
fn site(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = (usize, Vec<Bytes>)> {
    let addr = prop_oneof![BASE + 16..BASE + 24, LINE - 8..LINE];
    let count = count.into();
    (addr, 1_usize..=8).prop_flat_map(move |(addr, len)| {
        (Just(addr), proptest::collection::vec(instruction(len), count.clone()))
    })
}

/// Returns the traps and the instructions among the fetched bytes.
fn instructions(fetched: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    fetched.into_iter().filter(|bytes| bytes[0] != INT3).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nobody_sees_a_third_instruction((addr, values) in site(2), strict: bool) {
        let (old, new) = (values[0], values[1]);
        let mut history = History::of(addr, old, &[]);
        carry_out(&mut history, &plan(addr, old, new), strict);
        prop_assert_eq!(history.now(), &Memory::with(addr, new));
        for granule in [8, 16, 64] {
            prop_assert!(!is_torn(&history, addr, &values, granule));
        }
    }

    /// Through a trap, patching does not even need aligned writes to be atomic.
    #[test]
    fn strict_needs_whole_bytes_only((addr, values) in site(2)) {
        let mut history = History::of(addr, values[0], &[]);
        carry_out(&mut history, &plan(addr, values[0], values[1]), true);
        for granule in [1, 2, 4] {
            prop_assert!(!is_torn(&history, addr, &values, granule));
        }
    }

    /// One patch begins when the previous one has returned; no thread waits in between.
    #[test]
    fn one_after_the_other((addr, values) in site(2..7), strict: bool) {
        let mut history = History::of(addr, values[0], &[]);
        for two in values.windows(2) {
            carry_out(&mut history, &plan(addr, two[0], two[1]), strict);
            if strict || is_straddler(addr, two[1].len()) {
                // After the patch, threads no longer fetch the old instruction: only the new one,
                // or a trap that leads to it.
                prop_assert_eq!(instructions(fetched_last(&history, addr, two[1].len(), 1)), [two[1]]);
            }
        }
        let granule = if strict { 1 } else { 8 };
        prop_assert!(!is_torn(&history, addr, &values, granule));
        prop_assert_eq!(history.now(), &Memory::with(addr, values[values.len() - 1]));
    }

    /// Patches by one write or strictly, in any sequence.
    #[test]
    fn strict_or_not_in_turn((addr, values) in site(2..7), modes: [bool; 6]) {
        let mut history = History::of(addr, values[0], &[]);
        for (two, strict) in values.windows(2).zip(modes) {
            carry_out(&mut history, &plan(addr, two[0], two[1]), strict);
        }
        prop_assert!(!is_torn(&history, addr, &values, 8));
    }

    /// Patches of two adjacent instructions share words, and come in any order.
    #[test]
    fn neighbours_do_not_disturb_each_other(
        (addr, values) in site(2),
        (others, strict) in (1_usize..=8).prop_flat_map(|len| (proptest::collection::vec(instruction(len), 2), any::<[bool; 2]>())),
        order in proptest::collection::vec(any::<bool>(), 24),
    ) {
        let neighbour = addr + values[0].len();
        let mut history = History::new(Memory::with(addr, values[0]).and(neighbour, others[0]));
        let first = plan(addr, values[0], values[1]).steps(strict[0]);
        let second = plan(neighbour, others[0], others[1]).steps(strict[1]);
        let (mut first, mut second) = (first.into_iter(), second.into_iter());
        for is_first in order {
            let next = if is_first { first.next() } else { second.next() };
            next.into_iter().for_each(|step| take(&mut history, step));
        }
        first.chain(second).for_each(|step| take(&mut history, step));
        prop_assert!(!is_torn(&history, addr, &values, 8));
        prop_assert!(!is_torn(&history, neighbour, &others, 8));
        prop_assert_eq!(history.now(), &Memory::with(addr, values[1]).and(neighbour, others[1]));
    }

    /// Shows that the model finds errors: a straddler's plan that lacks any one of its steps is
    /// found out, if both parts differ.
    #[test]
    fn no_step_can_go((addr, len, seed) in straddler(), gone: Index) {
        let (old, new) = different(len, seed);
        let mut steps = plan(addr, old, new).steps(false);
        let gone = steps.remove(gone.index(steps.len() - 1));
        let mut history = History::of(addr, old, &[]);
        for step in steps {
            let step = match step {
                word::Step::Write(write) => ModelStep::Write { word: write.word, mask: write.mask, to: write.to },
                word::Step::Sync => ModelStep::Sync,
            };
            history.push(step);
        }
        prop_assert!(is_torn(&history, addr, &[old, new], 8), "it did not miss {gone:?}");
    }

    /// If fetches have no granule, one aligned write is torn. `strict` is for such processors.
    #[test]
    fn one_write_needs_the_granule(offset in 0_usize..8, len in 2_usize..=8, seed: u8) {
        let addr = BASE + 8 + offset % (9 - len);
        let (old, new) = different(len, seed);
        let mut history = History::of(addr, old, &[]);
        carry_out(&mut history, &plan(addr, old, new), false);
        prop_assert!(is_torn(&history, addr, &[old, new], 1));
        prop_assert!(!is_torn(&history, addr, &[old, new], 8));
    }

    /// A larger unit shows fewer mixes: a plan that is safe word by word is safe line by line.
    #[test]
    fn a_larger_unit_shows_nothing_new((addr, values) in site(2..4), strict: bool) {
        let len = values[0].len();
        let mut history = History::of(addr, values[0], &[]);
        for two in values.windows(2) {
            carry_out(&mut history, &plan(addr, two[0], two[1]), strict);
        }
        let all: Vec<_> = [1, 2, 4, 8, 16, 32, 64].map(|granule| fetched(&history, addr, len, granule)).into();
        for two in all.windows(2) {
            prop_assert!(two[1].is_subset(&two[0]));
        }
    }
}

fn straddler() -> impl Strategy<Value = (usize, usize, u8)> {
    (2_usize..=8)
        .prop_flat_map(|len| (1..len, Just(len), any::<u8>()))
        .prop_map(|(split, len, seed)| (LINE - split, len, seed))
}

/// Returns two instructions that have no byte in common.
fn different(len: usize, seed: u8) -> (Bytes, Bytes) {
    let fill = |base: u8| {
        let bytes: Vec<u8> = (base..).take(len).collect();
        Bytes::new(&bytes).expect("1 to 8 bytes")
    };
    (fill(seed % 100), fill(100 + seed % 64))
}
