//! One thread's stacks: a table of numbers, and the calls behind it. Only the thread writes.
//!
//! ```text
//! words in use │ entries: number, place and length │ calls
//! ```
//! The number of a stack is a hash of its calls, so that it is the same on all threads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of the table; a power of two.
const ENTRIES: usize = 2048;
/// Entries that are looked at for one stack.
const TRIES: usize = 32;
/// Words of calls.
const ROOM: usize = 32 * 1024;
const LEN_BITS: u32 = 8;

/// The stacks in one thread's memory.
pub(super) struct KeptStacks<'a> {
    used: &'a AtomicU64,
    entries: &'a [AtomicU64],
    calls: &'a [AtomicU64],
}

impl<'a> KeptStacks<'a> {
    pub(super) const WORDS: usize = 1 + 2 * ENTRIES + ROOM;

    /// Finds the parts in the first [`WORDS`](Self::WORDS) of a memory; `None` in a smaller one.
    #[inline(always)]
    pub(super) fn of(memory: &'a [AtomicU64]) -> Option<Self> {
        let (used, memory) = memory.get(..Self::WORDS)?.split_first()?;
        let (entries, calls) = memory.split_at_checked(2 * ENTRIES)?;
        Some(Self { used, entries, calls })
    }

    /// Returns the number of a stack, which may be a new one; `None` if there is no room.
    #[inline(always)]
    pub(super) fn number(&self, number: StackNumber, calls: &[u64]) -> Option<u64> {
        let number = number.finish();
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of entries")]
        let start = (number >> (u64::BITS - ENTRIES.ilog2())) as usize;
        if self.entries[2 * start].load(Relaxed) == number {
            return Some(number);
        }
        self.search(start, number, calls)
    }

    #[inline(never)]
    fn search(&self, start: usize, number: u64, calls: &[u64]) -> Option<u64> {
        for at in (start..start + TRIES).map(|at| at % ENTRIES) {
            let [known, place] = [&self.entries[2 * at], &self.entries[2 * at + 1]];
            match known.load(Relaxed) {
                0 => {
                    let used = self.used.load(Relaxed);
                    let room = self.calls.get(usize::try_from(used).ok()?..)?.get(..calls.len())?;
                    room.iter().zip(calls).for_each(|(word, call)| word.store(*call, Relaxed));
                    place.store(used << LEN_BITS | calls.len() as u64, Relaxed);
                    // Readers that see the number see the calls.
                    known.store(number, Release);
                    // Each stack takes a word, so that more words tell of it. Readers of the number
                    // of words see the stack.
                    self.used.store(used + calls.len().max(1) as u64, Release);
                    return Some(number);
                }
                known if known == number => return Some(number),
                _ => (),
            }
        }
        None
    }

    /// Returns the words in use, which grow with each stack: [`all`](Self::all) has those stacks.
    #[cfg(feature = "trace")]
    pub(super) fn used(&self) -> u64 {
        self.used.load(Acquire)
    }

    /// Returns all stacks, by their numbers.
    pub(super) fn all(self) -> impl Iterator<Item = (u64, Vec<u64>)> + 'a {
        self.entries.chunks_exact(2).filter_map(move |entry| {
            let number = entry[0].load(Acquire);
            let place = entry[1].load(Relaxed);
            let (at, len) = (usize::try_from(place >> LEN_BITS).ok()?, place % (1 << LEN_BITS));
            let calls = self.calls.get(at..)?.get(..usize::try_from(len).ok()?)?;
            (number != 0).then(|| (number, calls.iter().map(|call| call.load(Relaxed)).collect()))
        })
    }
}

/// The number of a stack, while its calls are found.
#[derive(Clone, Copy)]
pub(super) struct StackNumber(u64);

impl StackNumber {
    pub(super) fn new() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }

    #[inline(always)]
    pub(super) fn add(&mut self, call: u64) {
        self.0 = (self.0.rotate_left(23) ^ call).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Returns the number, which is not 0. Its high bits choose the entry.
    #[inline(always)]
    fn finish(self) -> u64 {
        (self.0 ^ self.0 >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn kept(memory: &[AtomicU64], calls: &[u64]) -> Option<u64> {
        let mut number = StackNumber::new();
        calls.iter().for_each(|call| number.add(*call));
        KeptStacks::of(memory).unwrap().number(number, calls)
    }

    fn memory() -> Vec<AtomicU64> {
        (0..KeptStacks::WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn stacks_are_read_as_they_were_kept() {
        let (one, other) = (memory(), memory());
        let stacks: Vec<Vec<u64>> =
            (0..100).map(|at| (0..at % 17).map(|call| 0x5000 + at * call).collect()).collect();
        let numbers: Vec<_> = stacks.iter().map(|it| kept(&one, it).unwrap()).collect();
        let again: Vec<_> = stacks.iter().rev().map(|it| kept(&other, it).unwrap()).collect();
        assert!(numbers.iter().eq(again.iter().rev()), "the same on each thread");
        let all: HashMap<_, _> = KeptStacks::of(&one).unwrap().all().collect();
        let used = one[0].load(Relaxed);
        for (number, stack) in numbers.iter().zip(&stacks) {
            assert_eq!(all[number], *stack);
            assert_eq!(kept(&one, stack), Some(*number));
        }
        assert_eq!(one[0].load(Relaxed), used, "each is kept once");
    }

    #[test]
    fn stacks_beyond_the_room_have_no_number() {
        let memory = memory();
        let kept = |at: u64| kept(&memory, &[at; 64]);
        let found: Vec<_> = (0..1000).map(kept).collect();
        let with_room = ROOM / 64;
        assert!(found[..with_room].iter().all(Option::is_some), "{found:?}");
        assert!(found[with_room..].iter().all(Option::is_none));
        assert_eq!((0..1000).map(kept).collect::<Vec<_>>(), found, "those that are kept stay");
    }

    #[cfg(feature = "trace")]
    #[test]
    fn a_reader_that_sees_the_words_in_use_sees_their_stacks() {
        let (rounds, stacks) = if cfg!(miri) { (1, 20) } else { (50, 1000) };
        for _ in 0..rounds {
            let memory = memory();
            std::thread::scope(|scope| {
                scope.spawn(|| (0..stacks).for_each(|at| _ = kept(&memory, &[at, at + 1]).unwrap()));
                loop {
                    let used = KeptStacks::of(&memory).unwrap().used();
                    let seen = KeptStacks::of(&memory).unwrap().all().count() as u64;
                    assert!(2 * seen >= used, "{seen} stacks in {used} words");
                    if used == 2 * stacks {
                        break;
                    }
                }
            });
        }
    }

    #[test]
    fn a_full_table_leaves_the_word_behind_it_alone() {
        let mut memory = memory();
        memory.push(AtomicU64::new(3));
        for at in 0..ROOM as u64 / 64 {
            assert!(kept(&memory, &[at; 64]).is_some(), "{at}");
        }
        assert_eq!(memory[0].load(Relaxed), ROOM as u64);
        assert_eq!(kept(&memory, &[7]), None);
        assert_eq!([&memory[0], &memory[KeptStacks::WORDS]].map(|it| it.load(Relaxed)), [ROOM as u64, 3]);
        assert!(KeptStacks::of(&memory).unwrap().all().all(|(_, calls)| calls.len() == 64));
    }
}
