//! Plans the writes of a patch, and their order. Pure: numbers in, numbers out.

use crate::arch::BREAKPOINT;
use crate::engine::bytes::{Bytes, MAX_LEN, mask};
use crate::engine::poke::Write;

/// The bytes of a number that the breakpoint takes the place of.
const BREAKPOINT_MASK: u64 = mask(BREAKPOINT.len());

/// Returns whether an instruction of `len` bytes at `addr` lies across two aligned 8-byte words, so
/// that no single write replaces it.
///
/// ```
/// use probe_patch::word::is_straddler;
/// assert!(!is_straddler(0x1003, 5));
/// assert!(is_straddler(0x1004, 5));
/// ```
pub const fn is_straddler(addr: usize, len: usize) -> bool {
    addr % MAX_LEN + len > MAX_LEN
}

/// One step of a plan.
///
/// ```
/// use probe_patch::Bytes;
/// use probe_patch::word::{Plan, Step};
/// let (old, new) = (Bytes::from([0xb0, 1]), Bytes::from([0xb0, 2]));
/// let plan = Plan::new(0x1007, old, new).expect("of one length"); // one byte in each word
/// for step in plan.steps(false) {
///     match step {
///         Step::Write(write) => println!("{:#x}: {:x} to {:x}", write.word, write.from, write.to),
///         Step::Sync => println!("wait until every thread sees it"),
///     }
/// }
/// assert_eq!(plan.steps(false).len(), 5); // lock, sync, rest, sync, first
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An atomic write to one aligned word.
    Write(Write),
    /// A wait until every thread that fetches sees all earlier writes.
    Sync,
}

/// The replacement of one instruction by another of the same length.
///
/// ```
/// use probe_patch::Bytes;
/// use probe_patch::word::{Plan, Step};
/// let (old, new) = (Bytes::from([0xb8, 1, 0, 0, 0]), Bytes::from([0xb8, 2, 0, 0, 0]));
/// let syncs = |addr, strict| {
///     let steps = Plan::new(addr, old, new).expect("of one length").steps(strict);
///     steps.into_iter().filter(|step| *step == Step::Sync).count()
/// };
/// assert_eq!(syncs(0x1000, false), 0); // in one word: one write
/// assert_eq!(syncs(0x1000, true), 2);
/// assert_eq!(syncs(0x1006, false), 2);
///
/// // Two bytes in the first word, three in the second.
/// let plan = Plan::new(0x1006, old, new).expect("of one length");
/// assert_eq!((plan.addr(), plan.expected(), plan.value()), (0x1006, old, new));
/// assert_eq!(plan.whole(), None);
/// assert_eq!((plan.lock().from, plan.lock().to), (0x01b8 << 48, 0x01cc << 48));
/// assert_eq!((plan.unlock().from, plan.unlock().to), (0xcc << 48, 0xb8 << 48));
/// assert_eq!(plan.rest().map(|write| write.word).collect::<Vec<_>>(), [0x1000, 0x1008]);
/// assert_eq!(plan.second_word().map(|write| write.word), Some(0x1008));
/// assert_eq!(plan.first().to, 0xb8 << 48);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    addr: usize,
    len: usize,
    old: u64,
    new: u64,
}

impl Plan {
    /// Returns the plan that replaces `expected` at `addr` by `value`; `None` if their lengths
    /// differ.
    pub fn new(addr: usize, expected: Bytes, value: Bytes) -> Option<Self> {
        let plan = Self { addr, len: value.len(), old: expected.number(), new: value.number() };
        (expected.len() == value.len()).then_some(plan)
    }

    /// Returns the lowest `len` bytes of a number; `None` for a length that no patched instruction
    /// has.
    pub(crate) fn bytes(number: u64, len: usize) -> Option<Bytes> {
        (1..=MAX_LEN).contains(&len).then(|| Bytes::from_number(number, len))
    }

    /// Returns the instruction's address.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Returns the instruction that is replaced.
    pub fn expected(&self) -> Bytes {
        Bytes::from_number(self.old, self.len)
    }

    /// Returns the instruction that replaces it.
    pub fn value(&self) -> Bytes {
        Bytes::from_number(self.new, self.len)
    }

    /// Returns the one write that replaces the instruction, if it lies in one word.
    pub fn whole(&self) -> Option<Write> {
        (!is_straddler(self.addr, self.len)).then(|| self.in_first_word(mask(self.len), self.old, self.new))
    }

    /// Returns the write that puts a breakpoint (`int3`) at the first byte. It covers all of the
    /// instruction's bytes in the first word, so that it fails if any of them is not as expected.
    pub fn lock(&self) -> Write {
        self.in_first_word(mask(self.len), self.old, with_breakpoint(self.old))
    }

    /// Returns the write that takes the breakpoint away again, if no other byte was written.
    pub fn unlock(&self) -> Write {
        self.in_first_word(BREAKPOINT_MASK, with_breakpoint(self.old), self.old)
    }

    /// Returns the bytes in the second word, unchanged. The write of [`lock`](Self::lock) does not
    /// compare these.
    pub fn second_word(&self) -> Option<Write> {
        is_straddler(self.addr, self.len).then(|| self.in_second_word(self.old, self.old))
    }

    /// Returns the writes that replace all but the first byte, while that is the breakpoint.
    pub fn rest(&self) -> impl Iterator<Item = Write> {
        let head = self.in_first_word(mask(self.len) & !BREAKPOINT_MASK, self.old, self.new);
        let tail = is_straddler(self.addr, self.len).then(|| self.in_second_word(self.old, self.new));
        Some(head).into_iter().chain(tail).filter(|write| write.mask != 0)
    }

    /// Returns the write that replaces the breakpoint by the new first byte.
    pub fn first(&self) -> Write {
        self.in_first_word(BREAKPOINT_MASK, with_breakpoint(self.old), self.new)
    }

    /// Returns all steps, for reasoning about them. With `strict`, the breakpoint comes first even
    /// if one write would do.
    pub fn steps(&self, strict: bool) -> Vec<Step> {
        if let (Some(whole), false) = (self.whole(), strict) {
            return vec![Step::Write(whole)];
        }
        let mut steps = vec![Step::Write(self.lock()), Step::Sync];
        steps.extend(self.rest().map(Step::Write));
        steps.extend([Step::Sync, Step::Write(self.first())]);
        steps
    }

    /// Returns a write of the bytes in `mask`, as far as they lie in the word that the instruction
    /// begins in.
    fn in_first_word(&self, mask: u64, from: u64, to: u64) -> Write {
        let shift = 8 * (self.addr % MAX_LEN);
        let at = |bytes: u64| (bytes & mask) << shift;
        Write { word: self.addr & !(MAX_LEN - 1), mask: mask << shift, from: at(from), to: at(to) }
    }

    /// Returns a write of the instruction's bytes that lie in the next word.
    fn in_second_word(&self, from: u64, to: u64) -> Write {
        let in_first = MAX_LEN - self.addr % MAX_LEN;
        let mask = mask(self.len - in_first);
        let at = |bytes: u64| bytes >> (8 * in_first) & mask;
        Write { word: (self.addr & !(MAX_LEN - 1)) + MAX_LEN, mask, from: at(from), to: at(to) }
    }
}

fn with_breakpoint(instruction: u64) -> u64 {
    instruction & !BREAKPOINT_MASK | Bytes::from(BREAKPOINT).number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(memory: &mut [u8; 24], base: usize, write: Write) {
        assert_eq!(write.word % MAX_LEN, 0);
        assert_eq!((write.from & !write.mask, write.to & !write.mask), (0, 0));
        let at = write.word - base;
        let word = u64::from_le_bytes(memory[at..at + 8].try_into().unwrap());
        assert_eq!(word & write.mask, write.from, "a plan's writes follow each other");
        memory[at..at + 8].copy_from_slice(&(word & !write.mask | write.to).to_le_bytes());
    }

    #[test]
    fn a_straddler_is_locked_replaced_and_let_go() {
        let old = Bytes::from([0xe8, 0x11, 0x22, 0x33, 0x44]);
        let new = Bytes::from([0x0f, 0x1f, 0x44, 0x00, 0x00]);
        let plan = Plan::new(0x1006, old, new).unwrap();
        let write = |word, mask, from, to| Step::Write(Write { word, mask, from, to });
        assert_eq!(
            plan.steps(false),
            [
                write(0x1000, 0xffff << 48, 0x11e8 << 48, 0x11cc << 48),
                Step::Sync,
                write(0x1000, 0xff << 56, 0x11 << 56, 0x1f << 56),
                write(0x1008, 0xff_ffff, 0x44_3322, 0x00_0044),
                Step::Sync,
                write(0x1000, 0xff << 48, 0xcc << 48, 0x0f << 48),
            ]
        );
    }

    #[test]
    fn one_byte_needs_no_rest() {
        let plan = Plan::new(0x1007, Bytes::from([0x90]), Bytes::from([0xc3])).unwrap();
        assert_eq!(plan.steps(false).len(), 1);
        assert_eq!(plan.rest().count(), 0);
        assert_eq!(plan.steps(true).len(), 4);
    }

    #[test]
    fn lengths_must_agree() {
        assert_eq!(Plan::new(0, Bytes::from([1, 2]), Bytes::from([1])), None);
    }

    proptest! {
        #[test]
        fn the_steps_replace_the_instruction_and_nothing_else(
            offset in 0_usize..8,
            len in 1_usize..=8,
            memory: [u8; 24],
            new: [u8; 8],
            strict: bool,
        ) {
            let base = 0x7000;
            let addr = base + offset;
            let old = Bytes::new(&memory[offset..offset + len]).unwrap();
            let plan = Plan::new(addr, old, Bytes::new(&new[..len]).unwrap()).unwrap();
            let mut after = memory;
            for step in plan.steps(strict) {
                if let Step::Write(write) = step {
                    apply(&mut after, base, write);
                }
            }
            let mut wanted = memory;
            wanted[offset..offset + len].copy_from_slice(&new[..len]);
            prop_assert_eq!(after, wanted);
            let mut unlocked = memory;
            apply(&mut unlocked, base, plan.lock());
            prop_assert!(unlocked[offset..].starts_with(&BREAKPOINT));
            apply(&mut unlocked, base, plan.unlock());
            prop_assert_eq!(unlocked, memory);
        }
    }
}
