//! Compares the protocol for straddlers with all others: it is the shortest that is safe, and none
//! of its steps can be left out.

use super::{BASE, History, LINE, Memory, ModelStep, fetched, fetched_last, write};
use crate::engine::bytes::Bytes;
use crate::engine::word::INT3;

/// Returns whether some mix is neither instruction, and does not trap.
pub(super) fn is_torn(history: &History, addr: usize, complete: &[Bytes], granule: usize) -> bool {
    fetched(history, addr, complete[0].len(), granule)
        .iter()
        .any(|bytes| bytes[0] != INT3 && !complete.contains(bytes))
}

const OLD: Bytes = bytes([0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17]);
const NEW: Bytes = bytes([0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27]);

const fn bytes(bytes: [u8; 8]) -> Bytes {
    match Bytes::new(&bytes) {
        Some(bytes) => bytes,
        None => unreachable!(),
    }
}

/// Returns the first `len` bytes.
fn cut(bytes: Bytes, len: usize) -> Bytes {
    Bytes::new(&bytes[..len]).expect("1 to 8 bytes")
}

/// The parts that a protocol for a straddler can be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The first byte becomes int3.
    Trap,
    /// The first word's bytes except the first byte.
    HeadRest,
    /// The first word's bytes.
    Head,
    /// The second word's bytes.
    Tail,
    /// The first byte.
    First,
    Sync,
}

use Part::{First, Head, HeadRest, Sync, Tail, Trap};

/// An instruction with `split` bytes before the boundary.
#[derive(Clone, Copy)]
struct Straddler {
    split: usize,
    len: usize,
}

impl Straddler {
    fn addr(self) -> usize {
        LINE - self.split
    }

    fn before(self) -> Bytes {
        cut(OLD, self.len)
    }

    fn after(self) -> Bytes {
        cut(NEW, self.len)
    }

    fn step(self, part: Part) -> ModelStep {
        let addr = self.addr();
        let head = cut(NEW, self.split);
        let steps = match part {
            Trap => write(addr, 0, [INT3].into()),
            HeadRest => write(addr, 1, head),
            Head => write(addr, 0, head),
            Tail => write(addr, self.split, self.after()),
            First => write(addr, 0, cut(NEW, 1)),
            Sync => return ModelStep::Sync,
        };
        steps[0]
    }

    /// Returns whether a protocol replaces the instruction, and no thread ever sees half of it.
    fn is_safe(self, protocol: &[Part]) -> bool {
        let steps: Vec<ModelStep> = protocol.iter().map(|part| self.step(*part)).collect();
        let history = History::of(self.addr(), self.before(), &steps);
        *history.now() == Memory::with(self.addr(), self.after())
            && !is_torn(&history, self.addr(), &[self.before(), self.after()], 8)
    }

    /// Returns the choices for a step.
    fn parts(self) -> &'static [Part] {
        // Where one byte lies before the boundary, it is the head.
        if self.split == 1 { &[Trap, Tail, First, Sync] } else { &[Trap, HeadRest, Head, Tail, First, Sync] }
    }
}

fn straddlers() -> impl Iterator<Item = Straddler> {
    (2..=8).flat_map(|len| (1..len).map(move |split| Straddler { split, len }))
}

/// Returns all lists of up to `longest` parts.
fn protocols(parts: &[Part], longest: usize) -> Vec<Vec<Part>> {
    let mut all = vec![vec![]];
    let mut begin = 0;
    for _ in 0..longest {
        let end = all.len();
        for at in begin..end {
            all.extend(parts.iter().map(|part| [&all[at][..], &[*part]].concat()).collect::<Vec<_>>());
        }
        begin = end;
    }
    all
}

#[test]
fn of_all_protocols_of_up_to_five_steps_one_is_safe() {
    for straddler in straddlers().filter(|straddler| matches!(straddler.len, 2 | 5)) {
        let mut safe = protocols(straddler.parts(), 5);
        safe.retain(|protocol| straddler.is_safe(protocol));
        let head = if straddler.split == 1 { First } else { Head };
        assert_eq!(safe, [[Trap, Sync, Tail, Sync, head]], "{}|{}", straddler.split, straddler.len);
    }
}

#[test]
fn one_byte_at_the_end_is_as_good_as_the_head() {
    for straddler in straddlers().filter(|straddler| straddler.split > 1) {
        assert!(straddler.is_safe(&[Trap, Sync, HeadRest, Tail, Sync, First]));
        assert!(straddler.is_safe(&[Trap, Sync, Tail, HeadRest, Sync, First]));
    }
}

#[test]
fn without_int3_no_number_of_syncs_helps() {
    for straddler in straddlers().filter(|straddler| matches!(straddler.len, 2 | 5)) {
        let parts: Vec<Part> = straddler.parts().iter().copied().filter(|part| *part != Trap).collect();
        for protocol in protocols(&parts, 5) {
            assert!(!straddler.is_safe(&protocol), "{protocol:?}");
        }
        assert!(!straddler.is_safe(&[Sync, Tail, Sync, Sync, Head, Sync]));
    }
}

#[test]
fn no_sync_can_go_and_the_tail_waits_for_its_turn() {
    for straddler in straddlers() {
        assert!(straddler.is_safe(&[Trap, Sync, Tail, Sync, Head]));
        for wrong in [
            [Trap, Tail, Sync, Head].as_slice(),
            &[Trap, Sync, Tail, Head],
            &[Sync, Trap, Tail, Sync, Head],
            &[Trap, Sync, Tail, Head, Sync],
            &[Tail, Sync, Trap, Sync, Head],
            &[Trap, Sync, Head, Sync, Tail],
        ] {
            assert!(!straddler.is_safe(wrong), "{}|{}: {wrong:?}", straddler.split, straddler.len);
        }
    }
}

#[test]
fn the_mixes_without_int3_are_those_of_the_paper() {
    let Straddler { split, len } = Straddler { split: 3, len: 5 };
    let (addr, old, new) = (LINE - split, cut(OLD, len), cut(NEW, len));
    let steps = [write(addr, split, new)[0], ModelStep::Sync, write(addr, 0, cut(NEW, split))[0]];
    let mut mixes: Vec<Vec<u8>> =
        fetched(&History::of(addr, old, &steps), addr, len, 8).iter().map(|mix| mix.to_vec()).collect();
    mixes.sort();
    // Threads may fetch the old front with the new back, however long the wait is.
    assert_eq!(mixes, [old.to_vec(), [&old[..3], &new[3..]].concat(), new.to_vec()]);
}

/// One write replaces the whole instruction, but memory performs it as two.
#[test]
fn an_unaligned_write_is_torn() {
    for straddler in straddlers() {
        for protocol in [[Tail, Head], [Head, Tail]] {
            assert!(!straddler.is_safe(&protocol));
        }
    }
}

#[test]
fn a_write_that_is_aligned_is_as_atomic_as_fetches_are() {
    for len in 2..=8 {
        for offset in 0..=8 - len {
            let (addr, old, new) = (BASE + 8 + offset, cut(OLD, len), cut(NEW, len));
            let history = History::of(addr, old, &write(addr, 0, new));
            assert!(!is_torn(&history, addr, &[old, new], 8));
            assert!(!is_torn(&history, addr, &[old, new], 64));
            assert!(
                is_torn(&history, addr, &[old, new], 1),
                "where fetches have no granule, one write is not enough"
            );
        }
    }
}

/// A late thread traps on an int3 that memory no longer holds. So a trap at an instruction that was
/// replaced is no foreign breakpoint.
#[test]
fn int3_is_fetched_until_the_sync_behind_the_last_write() {
    for straddler in straddlers() {
        let addr = straddler.addr();
        let steps = [Trap, Sync, Tail, Sync, Head].map(|part| straddler.step(part));
        let mut history = History::of(addr, straddler.before(), &steps);
        assert_eq!(history.now().byte(addr), NEW[0]);
        let last = fetched_last(&history, addr, straddler.len, 8);
        assert!(last.iter().any(|bytes| bytes[0] == INT3));
        history.push(ModelStep::Sync);
        assert_eq!(fetched_last(&history, addr, straddler.len, 8), [straddler.after()].into());
    }
}
