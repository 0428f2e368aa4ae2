//! A counting block: the target, in place of the cold block, of the sites of a probe that is only
//! counted.
//!
//! ```text
//! 64 4c 8b 1c 25 disp32     mov  r11, fs:[slot]       this thread's slot
//! 4d 85 db                  test r11, r11
//! 74 0c                     jz   slow                 it has none yet
//! 49 ff 83 disp32           inc  qword ptr [r11 + counter]
//! e9 rel32                  jmp  site + 5
//! e9 rel32            slow: jmp  cold
//! ```
//! It reads no hook and sets no mark, so no operation waits for it. It increments the same counter
//! as the way in ([`enter`](super::enter)) would: the probe's counter in this thread's slot.
//!
//! - *`r11` and the flags* are lost: the site's asm tells the compiler so. No compiler keeps flags
//!   across a site, since its cold block calls. `r11` passes no argument and no result, and
//!   compilers use it after the other registers that calls may change. So latent
//!   code hardly changes (the figure `crates`). A register that a block saved would go through
//!   memory: some seven cycles, for each hit in a row.
//! - *Signals* may arrive between any two instructions. `inc` on memory is one instruction, so a
//!   handler's hits of the same probe add up.
//! - *Unwinding*: a block calls no function, so only a walk from a signal handler can begin in one.
//!   A walk by unwind tables ends there, as in all code made at run time, which has no table. A
//!   walk by frame pointers goes on, since `rbp` is still the function's.
//! - *Late hits*: a thread that is stopped between the site and `inc` counts when it goes on,
//!   whatever the site holds by then. Its hit began before the change; no other thread can tell
//!   that it is still there.
//!
//! Pure, except for a query of the linker. Cost of a hit: 5 instructions, and the site's.

// Safety: relies on `enter`'s thread-local pointer being at one offset from the thread pointer in
// every thread, as the initial-exec model says.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;

use super::enter::enter;

/// Bytes of a block, and its alignment: half a cache line.
pub(crate) const LEN: usize = 32;

/// The place and counter of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// The address after the site's instruction.
    pub(crate) back: usize,
    /// The cold block.
    pub(crate) target: usize,
    /// Bytes from the start of a slot to the counter.
    pub(crate) counter: i32,
}

/// The code of all blocks, but for the words at the places below.
#[rustfmt::skip]
const CODE: [u8; LEN] = [
    0x64, 0x4c, 0x8b, 0x1c, 0x25, 0, 0, 0, 0,
    0x4d, 0x85, 0xdb, 0x74, 0x0c,
    0x49, 0xff, 0x83, 0, 0, 0, 0,
    0xe9, 0, 0, 0, 0,
    0xe9, 0, 0, 0, 0,
    0xcc,
];
/// Offsets of four words: the slot's place, the counter's, and the distances of both jumps.
const SLOT: usize = 5;
const COUNTER: usize = 17;
const BACK: usize = 22;
const TARGET: usize = 27;
const WORD: usize = size_of::<i32>();

impl Block {
    /// Returns the code of a block at the address `at`, for threads whose slot pointer has the
    /// offset `slot` from the thread pointer; `None` if a distance does not fit.
    #[inline]
    pub(crate) fn code(self, at: usize, slot: i32) -> Option<[u8; LEN]> {
        let distance =
            |to: usize, from: usize| i32::try_from(to.wrapping_sub(at + from + WORD).cast_signed()).ok();
        let (back, target) = (distance(self.back, BACK)?, distance(self.target, TARGET)?);
        let mut code = CODE;
        for (at, word) in [(SLOT, slot), (COUNTER, self.counter), (BACK, back), (TARGET, target)] {
            code[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        }
        Some(code)
    }

    /// Returns the block with these bytes at this address; `None` for any other code. Any copy of
    /// this crate may have made it: their slots and counters may differ.
    pub(crate) fn of(code: &[u8; LEN], at: usize) -> Option<Self> {
        let word =
            |offset: usize| Some(i32::from_le_bytes(code.get(offset..offset + WORD)?.try_into().ok()?));
        let leads = |offset: usize| Some((at + offset + WORD).wrapping_add_signed(word(offset)? as isize));
        let block = Self { back: leads(BACK)?, target: leads(TARGET)?, counter: word(COUNTER)? };
        (block.code(at, word(SLOT)?)? == *code).then_some(block)
    }
}

/// Returns the offset of a thread's slot pointer from its thread pointer; `None` if no instruction
/// can encode it.
pub(crate) fn slot_offset() -> Option<i32> {
    let offset: isize;
    // SAFETY: reads a word that the linker or the dynamic linker has filled in.
    unsafe {
        asm!(
            "mov {offset}, [rip + {enter}.slot@GOTTPOFF]",
            offset = out(reg) offset,
            enter = sym enter,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    i32::try_from(offset).ok()
}

#[cfg(test)]
mod tests;
