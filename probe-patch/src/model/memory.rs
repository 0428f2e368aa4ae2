//! Memory, and its history under a list of steps.

use crate::bytes::Bytes;

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

#[cfg(test)]
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
}
