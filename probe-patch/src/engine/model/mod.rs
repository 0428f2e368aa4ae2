//! A reference model of instruction fetch, which the patch engine's plans are checked against.
//!
//! The model is that of "Living on the edge", section 3, stated as weakly as it can be:
//!
//! - Memory changes by atomic writes to aligned words ([`Memory`], [`History`]).
//! - A thread fetches an instruction unit by unit, a unit being an aligned granule of memory
//!   ([`fetched`]). Each read returns *any* value that its unit has held since the thread last
//!   serialised: reads are reordered, left out in favour of older ones ("elided"), and go back in
//!   time. A read never returns a value that was never written.
//! - A sync makes every thread serialise: no later read returns an older value. Staleness has no
//!   other bound. A sync stands for the barrier and for a wait of `T_max` alike.
//!
//! Within these rules every mix of bytes that can be fetched is enumerated: the spaces are small.
//! The granule is 8 bytes where the engine
//! relies on aligned writes being atomic for fetch, and 1 byte where it relies on no such promise.
//!
//! `protocol` checks protocols in general, and `word` the plans of wordpatch. The architecture's
//! `model` decodes the bytes that a thread fetches; it checks the plans of call sites, and the
//! instructions of a probe's site. Each claim has a counterpart, in which the model gets a wrong
//! protocol and must find the error.

mod protocol;
mod word;

use std::collections::HashSet;
use std::ops::Range;

use crate::engine::bytes::Bytes;

/// The first address of the model's memory: the start of a page.
pub(crate) const BASE: usize = 0x7000_0000;
/// The number of words in the model's memory, which make two cache lines.
const WORDS: usize = 16;
/// The boundary between the two cache lines.
pub(crate) const LINE: usize = BASE + 64;

/// A step of a patcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModelStep {
    /// Changes the bits of `mask` in one aligned word, atomically.
    Write { word: usize, mask: u64, to: u64 },
    /// Makes every thread serialise.
    Sync,
}

/// Two cache lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Memory {
    words: [u64; WORDS],
}

impl Memory {
    /// Returns memory with an instruction, and otherwise filled with bytes that are in no
    /// instruction of the tests.
    pub(crate) fn with(addr: usize, instruction: Bytes) -> Self {
        Self { words: [0xf4f4_f4f4_f4f4_f4f4; WORDS] }.and(addr, instruction)
    }

    /// Adds another instruction.
    pub(crate) fn and(mut self, addr: usize, instruction: Bytes) -> Self {
        write(addr, 0, instruction).into_iter().for_each(|step| self.apply(step));
        self
    }

    /// Returns the aligned word at an address.
    pub(crate) fn word(&self, addr: usize) -> u64 {
        self.words[(addr - BASE) / 8]
    }

    /// Returns the byte at an address.
    pub(crate) fn byte(&self, addr: usize) -> u8 {
        let at = addr - BASE;
        self.words[at / 8].to_le_bytes()[at % 8]
    }

    /// Returns the bytes of an instruction.
    pub(crate) fn bytes(&self, addr: usize, len: usize) -> Vec<u8> {
        (addr..addr + len).map(|at| self.byte(at)).collect()
    }

    fn apply(&mut self, step: ModelStep) {
        if let ModelStep::Write { word, mask, to } = step {
            assert_eq!(word % 8, 0, "only aligned words are written at once");
            let word = &mut self.words[(word - BASE) / 8];
            *word = *word & !mask | to & mask;
        }
    }
}

/// Returns the writes that put the bytes of `value` from `skip` on in their places: one for each
/// word.
pub(crate) fn write(addr: usize, skip: usize, value: Bytes) -> Vec<ModelStep> {
    let mut steps: Vec<ModelStep> = Vec::new();
    for (at, &byte) in value.iter().enumerate().skip(skip) {
        let (at, shift) = ((addr + at) & !7, (addr + at) % 8 * 8);
        let (bits, byte) = (0xff << shift, u64::from(byte) << shift);
        match steps.last_mut() {
            Some(ModelStep::Write { word, mask, to }) if *word == at => {
                *mask |= bits;
                *to |= byte;
            }
            _ => steps.push(ModelStep::Write { word: at, mask: bits, to: byte }),
        }
    }
    steps
}

/// The history of memory, in epochs. An epoch begins at a sync, with the memory of that moment, and
/// ends at the next sync.
#[derive(Clone, Debug)]
pub(crate) struct History {
    epochs: Vec<Vec<Memory>>,
}

impl History {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { epochs: vec![vec![memory]] }
    }

    /// Returns the history of an instruction that was replaced step by step.
    pub(crate) fn of(addr: usize, old: Bytes, steps: &[ModelStep]) -> Self {
        let mut history = Self::new(Memory::with(addr, old));
        steps.iter().for_each(|step| history.push(*step));
        history
    }

    pub(crate) fn push(&mut self, step: ModelStep) {
        let mut memory = self.now().clone();
        memory.apply(step);
        match step {
            ModelStep::Sync => self.epochs.push(vec![memory]),
            ModelStep::Write { .. } => self.epochs.last_mut().expect("never empty").push(memory),
        }
    }

    /// Returns the present memory.
    pub(crate) fn now(&self) -> &Memory {
        self.epochs.last().and_then(|epoch| epoch.last()).expect("never empty")
    }

    pub(crate) fn epochs(&self) -> &[Vec<Memory>] {
        &self.epochs
    }
}

/// Returns all byte sequences that a thread may fetch at `addr` for an instruction of `len` bytes,
/// at any time in a history. Each aligned unit of `granule` bytes is read at once.
///
/// A thread that fetches has last serialised at the beginning of an epoch or later. So within an
/// epoch each unit has any of its values, independently of the other units. An instruction's units
/// are all read within one epoch, since a thread serialises between instructions.
pub(crate) fn fetched(history: &History, addr: usize, len: usize, granule: usize) -> HashSet<Bytes> {
    history.epochs().iter().flat_map(|epoch| fetched_within(epoch, addr, len, granule)).collect()
}

/// Returns the same for threads that have serialised at the last sync.
pub(crate) fn fetched_last(history: &History, addr: usize, len: usize, granule: usize) -> HashSet<Bytes> {
    let epoch = history.epochs().last().expect("never empty");
    fetched_within(epoch, addr, len, granule)
}

fn fetched_within(epoch: &[Memory], addr: usize, len: usize, granule: usize) -> HashSet<Bytes> {
    let mut mixes = vec![Vec::with_capacity(len)];
    for unit in units(addr, len, granule) {
        let values: HashSet<Vec<u8>> =
            epoch.iter().map(|memory| memory.bytes(unit.start, unit.len())).collect();
        mixes = mixes
            .iter()
            .flat_map(|mix| values.iter().map(move |value| [&mix[..], &value[..]].concat()))
            .collect();
    }
    mixes.iter().map(|mix| Bytes::new(mix).expect("1 to 8 bytes")).collect()
}

/// Returns an instruction's part in each unit that holds some of it.
fn units(addr: usize, len: usize, granule: usize) -> Vec<Range<usize>> {
    assert!(granule.is_power_of_two());
    let (mut units, mut at, end) = (Vec::new(), addr, addr + len);
    while at < end {
        let next = end.min((at & !(granule - 1)) + granule);
        units.push(at..next);
        at = next;
    }
    units
}

mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_written_word_by_word() {
        let value = Bytes::from([1, 2, 3, 4, 5]);
        let head = ModelStep::Write { word: LINE - 8, mask: 0xffff << 48, to: 0x0201 << 48 };
        let tail = ModelStep::Write { word: LINE, mask: 0xff_ffff, to: 0x05_0403 };
        assert_eq!(write(LINE - 2, 0, value), [head, tail]);
        assert_eq!(write(LINE - 2, 2, value), [tail]);
        assert_eq!(
            write(LINE, 0, value),
            [ModelStep::Write { word: LINE, mask: 0xff_ffff_ffff, to: 0x05_0403_0201 }]
        );
    }

    #[test]
    fn neighbours_stay() {
        let memory = Memory::with(LINE - 2, Bytes::from([1, 2, 3]));
        assert_eq!(memory.bytes(LINE - 3, 5), [0xf4, 1, 2, 3, 0xf4]);
    }

    #[test]
    fn an_epoch_begins_with_what_memory_is_then() {
        let history = History::of(
            BASE,
            Bytes::from([1]),
            &[&write(BASE, 0, [2].into())[..], &[ModelStep::Sync], &write(BASE, 0, [3].into())].concat(),
        );
        let values: Vec<Vec<u8>> =
            history.epochs().iter().map(|epoch| epoch.iter().map(|m| m.byte(BASE)).collect()).collect();
        assert_eq!(values, [vec![1, 2], vec![2, 3]]);
        assert_eq!(history.now().byte(BASE), 3);
    }

    fn all(mixes: &[&[u8]]) -> HashSet<Bytes> {
        mixes.iter().map(|mix| Bytes::new(mix).unwrap()).collect()
    }

    #[test]
    fn units_end_where_memory_does_so() {
        assert_eq!(units(LINE - 2, 5, 8), [LINE - 2..LINE, LINE..LINE + 3]);
        assert_eq!(units(LINE, 5, 8), [LINE..LINE + 5]);
        assert_eq!(units(LINE + 1, 3, 1), [LINE + 1..LINE + 2, LINE + 2..LINE + 3, LINE + 3..LINE + 4]);
        assert_eq!(units(LINE + 6, 4, 64), [LINE + 6..LINE + 10]);
    }

    #[test]
    fn units_are_read_independently_and_a_unit_as_a_whole() {
        let (old, new) = (Bytes::from([1, 2, 3, 4]), Bytes::from([5, 6, 7, 8]));
        let history = History::of(LINE - 2, old, &write(LINE - 2, 0, new));
        let mixes = all(&[&[1, 2, 3, 4], &[1, 2, 7, 8], &[5, 6, 3, 4], &[5, 6, 7, 8]]);
        assert_eq!(fetched(&history, LINE - 2, 4, 8), mixes);
        assert_eq!(fetched(&history, LINE - 2, 4, 1).len(), 16);
    }

    #[test]
    fn a_unit_that_holds_both_words_has_their_order() {
        let (old, new) = (Bytes::from([1, 2, 3, 4]), Bytes::from([5, 6, 7, 8]));
        let history = History::of(LINE + 6, old, &write(LINE + 6, 0, new));
        let mixes = all(&[&[1, 2, 3, 4], &[5, 6, 3, 4], &[5, 6, 7, 8]]);
        assert_eq!(fetched(&history, LINE + 6, 4, 64), mixes);
    }

    #[test]
    fn staleness_ends_at_a_sync_and_nowhere_else() {
        let one = Bytes::from([1]);
        let mut history = History::of(LINE, one, &[]);
        for value in 2..=4 {
            write(LINE, 0, [value].into()).into_iter().for_each(|step| history.push(step));
        }
        assert_eq!(fetched_last(&history, LINE, 1, 8), all(&[&[1], &[2], &[3], &[4]]));
        history.push(ModelStep::Sync);
        assert_eq!(fetched_last(&history, LINE, 1, 8), all(&[&[4]]));
        assert_eq!(fetched(&history, LINE, 1, 8).len(), 4);
    }
}
