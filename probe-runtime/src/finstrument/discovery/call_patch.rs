//! Calls that lie across two aligned words, and jumps to a hook. One aligned write switches each of
//! them, and changes one word. Pure.
//!
//! | bytes in the first word | active: the compiler's call | latent | written |
//! |---|---|---|---|
//! | 2 to 4 of 5 | `e8 a b c d` | `eb 03 b c d`, a jump over the rest | the first word |
//! | 2 to 5 of 6 | `ff 15 a b c d` | `eb 04 a b c d`, the same | the first word |
//! | 1 of 5 | `e8 a b c d` | `e8 p q r s`, a call of a `ret` | the second word |
//! | 1 of 6 | `ff 15 a b c d` | `ff 15 p q r s`, a call through a pointer to a `ret` | the second word |
//! | all, or some, of a jump | `e9 a b c d`, `ff 25 a b c d` | `c3 …`, a `ret`, and bytes that no thread executes | the first word: one byte changes |
//!
//! The argument for safety is that of [`patch::call`](crate::patch::call). The other word is the
//! same in both states. So a thread that fetches the two words at different moments has all of one
//! instruction, and each of these instructions ends where the call did. No `int3` is involved; a
//! thread that blocks `SIGTRAP` would not survive one.
//!
//! A jump changes in its first byte alone. So a thread has one of the two instructions, for any
//! place of the words' border, and for any fetched part of the rest. A hook that is jumped to
//! returns to the function's caller, and so does a `ret`. Nothing jumps into the rest of the jump:
//! its code was decoded ([`jumps`](super::jumps)).

use super::call::{Call, Target};
use crate::engine::sites::word::{Write, is_straddler};
use crate::engine::sites::{Bytes, MAX_LEN};

const JMP_SHORT: u8 = 0xeb;
const RET: u8 = 0xc3;

/// The word that is written, and the bytes of the call in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallPatch {
    /// Its address, a multiple of 8.
    pub(super) word: usize,
    mask: u64,
    active: u64,
    latent: u64,
}

/// The target of a deactivated call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nothing {
    /// The address of a `ret`.
    pub(super) ret: usize,
    /// The address of a pointer to that `ret`.
    pub(super) pointer: usize,
}

impl CallPatch {
    /// Returns the switch of a call; `None` if one write replaces all of it, or no `ret` is in
    /// reach.
    pub(super) fn of(call: Call, nothing: Nothing) -> Option<Self> {
        let (at, active) = call.instruction();
        let len = active.len();
        if !is_straddler(at, len) {
            return None;
        }
        let mut latent = [0; 6];
        latent[..len].copy_from_slice(&active);
        let in_first = 8 - at % 8;
        let (word, range) = if in_first == 1 {
            let there = if matches!(call.target, Target::Direct(_)) { nothing.ret } else { nothing.pointer };
            let distance = i32::try_from(there.wrapping_sub(call.returns()).cast_signed()).ok()?;
            latent[len - 4..len].copy_from_slice(&distance.to_le_bytes());
            (at + 1, 1..len)
        } else {
            latent[0] = JMP_SHORT;
            latent[1] = if len == 5 { 3 } else { 4 };
            (at & !7, 0..in_first)
        };
        Some(Self::within(word, at + range.start, &active[range.clone()], &latent[range]))
    }

    /// Returns the switch of a jump, between itself and a `ret`.
    pub(super) fn of_jump(at: usize, jump: Bytes) -> Self {
        let in_first = jump.len().min(8 - at % 8);
        let active = &jump[..in_first];
        let mut latent = [0; MAX_LEN];
        latent[..jump.len()].copy_from_slice(&jump);
        latent[0] = RET;
        Self::within(at & !7, at, active, &latent[..in_first])
    }

    /// Returns a switch that changes bytes at an address in a word.
    fn within(word: usize, at: usize, active: &[u8], latent: &[u8]) -> Self {
        let shift = 8 * (at % 8);
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) << shift;
        let mask = active.iter().fold(0, |mask, _| mask << 8 | 0xff) << shift;
        Self { word, mask, active: number(active), latent: number(latent) }
    }

    /// Returns the byte that makes a jump active or latent, and its address.
    pub(super) fn first_byte(self, active: bool) -> (usize, u8) {
        let at = self.mask.trailing_zeros() as usize / 8;
        let bytes = if active { self.active } else { self.latent }.to_le_bytes();
        (self.word + at, bytes[at])
    }

    /// Returns the write that makes it active or latent.
    pub(super) fn write(self, active: bool) -> Write {
        let (from, to) = if active { (self.latent, self.active) } else { (self.active, self.latent) };
        Write { word: self.word, mask: self.mask, from, to }
    }

    /// Returns the bytes at an address as they are while the call is active.
    pub(super) fn active_bytes<const LEN: usize>(self, at: usize, mut found: [u8; LEN]) -> [u8; LEN] {
        let (mask, active) = (self.mask.to_le_bytes(), self.active.to_le_bytes());
        for (at, byte) in (at..).zip(&mut found) {
            let offset = at.wrapping_sub(self.word);
            if mask.get(offset).is_some_and(|mask| *mask != 0) {
                *byte = active[offset];
            }
        }
        found
    }

    /// Returns whether the call is active, by the value of its word; `None` if the word is not the
    /// call's.
    pub(super) fn is_active(self, word: u64) -> Option<bool> {
        let found = word & self.mask;
        (found == self.active || found == self.latent).then_some(found == self.active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOTHING: Nothing = Nothing { ret: 0x7000_1234, pointer: 0x7000_5678 };

    /// Returns the bytes of the call after a write, with those around them.
    fn after(at: usize, bytes: &[u8], write: Write) -> [u8; 16] {
        let mut memory = [0x90; 16];
        memory[at % 8..at % 8 + bytes.len()].copy_from_slice(bytes);
        let offset = write.word - (at & !7);
        let word = u64::from_le_bytes(memory[offset..offset + 8].try_into().unwrap());
        assert_eq!(word & write.mask, write.from);
        memory[offset..offset + 8].copy_from_slice(&(word & !write.mask | write.to).to_le_bytes());
        memory
    }

    fn latent(offset: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        let at = 0x6fff_f000 + offset;
        let mut before = [0x90; 6];
        before[6 - bytes.len()..].copy_from_slice(bytes);
        let call = Call::before(at + bytes.len(), before).unwrap();
        let memory = after(at, bytes, CallPatch::of(call, NOTHING)?.write(false));
        let around: Vec<u8> = [&memory[..offset], &memory[offset + bytes.len()..]].concat();
        assert!(around.iter().all(|byte| *byte == 0x90));
        Some(memory[offset..offset + bytes.len()].to_vec())
    }

    #[test]
    fn every_split_has_its_latent_form() {
        for offset in 0..8 {
            let direct = latent(offset, &[0xe8, 1, 2, 3, 4]);
            let through = latent(offset, &[0xff, 0x15, 1, 2, 3, 4]);
            let rel = |there: usize, len: usize| {
                u32::try_from(there - 0x6fff_f000 - 7 - len).unwrap().to_le_bytes()
            };
            let wanted = match offset {
                0..=3 => None,
                4..=6 => Some(vec![0xeb, 3, 2, 3, 4]),
                _ => Some([&[0xe8][..], &rel(NOTHING.ret, 5)].concat()),
            };
            assert_eq!(direct, wanted, "{offset}");
            let wanted = match offset {
                0..=2 => None,
                3..=6 => Some(vec![0xeb, 4, 1, 2, 3, 4]),
                _ => Some([&[0xff, 0x15][..], &rel(NOTHING.pointer, 6)].concat()),
            };
            assert_eq!(through, wanted, "{offset}");
        }
    }

    #[test]
    fn what_is_out_of_reach_is_not_switched() {
        let call = Call::before(0x1007 + 5, [0x90, 0xe8, 1, 2, 3, 4]).unwrap();
        assert_eq!(CallPatch::of(call, Nothing { ret: 1 << 40, pointer: 0 }), None);
    }

    #[test]
    fn a_jump_becomes_a_return_at_every_offset() {
        for jump in [&[0xe9, 1, 2, 3, 4][..], &[0xff, 0x25, 1, 2, 3, 4], &[0x3e, 0xff, 0x25, 1, 2, 3, 4]] {
            for at in 0x1000..0x1008 {
                let switch = CallPatch::of_jump(at, Bytes::new(jump).unwrap());
                let memory = after(at, jump, switch.write(false));
                let mut wanted = [0x90; 16];
                wanted[at % 8..at % 8 + jump.len()].copy_from_slice(jump);
                wanted[at % 8] = 0xc3;
                assert_eq!((memory, switch.first_byte(false)), (wanted, (at, 0xc3)));
                let word = u64::from_le_bytes(memory[..8].try_into().unwrap());
                assert_eq!((switch.word, switch.is_active(word)), (0x1000, Some(false)));
                let read = <[u8; 5]>::try_from(&memory[at % 8..at % 8 + 5]).unwrap();
                assert_eq!(switch.active_bytes(at, read), jump[..5]);
            }
        }
    }

    proptest! {
        #[test]
        fn there_and_back(at in 0x1000_usize..1 << 30, distance: i32, is_direct: bool) {
            let mut bytes = if is_direct { [0x90, 0xe8, 0, 0, 0, 0] } else { [0xff, 0x15, 0, 0, 0, 0] };
            bytes[2..].copy_from_slice(&distance.to_le_bytes());
            let bytes_of = usize::from(is_direct);
            let call = Call::before(at + 6 - bytes_of, bytes).unwrap();
            if let Some(switch) = CallPatch::of(call, NOTHING) {
                let off = after(at, &bytes[bytes_of..], switch.write(false));
                let on = after(at, &bytes[bytes_of..], Write { to: switch.active, ..switch.write(false) });
                let word = |memory: &[u8; 16]| {
                    let offset = switch.word - (at & !7);
                    u64::from_le_bytes(memory[offset..offset + 8].try_into().unwrap())
                };
                prop_assert_eq!(&on[at % 8..][..6 - bytes_of], &bytes[bytes_of..]);
                prop_assert_eq!(switch.is_active(word(&on)), Some(true));
                let is_same = off == on;
                prop_assert_eq!(switch.is_active(word(&off)), Some(is_same));
                prop_assert_eq!(switch.is_active(0xcccc_cccc_cccc_cccc), None);
            }
        }
    }
}
