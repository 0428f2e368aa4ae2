//! A counting block: the target, in place of the cold block, of the sites of a probe that is only
//! counted.
//!
//! ```text
//! 48 8d 64 24 80            lea  rsp, [rsp - 128]     over the red zone
//! 51                        push rcx
//! 50                        push rax
//! 9f                        lahf                      SF ZF AF PF CF
//! 0f 90 c0                  seto al                   OF
//! 64 48 8b 0c 25 disp32     mov  rcx, fs:[slot]       this thread's slot
//! e3 19                     jrcxz slow                it has none yet
//! 48 ff 81 disp32           inc  qword ptr [rcx + counter]
//! 04 7f                     add  al, 0x7f             OF again
//! 9e                        sahf                      and the others
//! 58                        pop  rax
//! 59                        pop  rcx
//! 48 8d a4 24 disp32        lea  rsp, [rsp + 128]
//! e9 rel32                  jmp  site + 5
//! 58                  slow: pop  rax
//! 59                        pop  rcx
//! 48 8d a4 24 disp32        lea  rsp, [rsp + 128]
//! e9 rel32                  jmp  cold
//! ```
//! It reads no hook and sets no mark, so no operation waits for it. It increments the same counter
//! as the way in ([`enter`](super::enter)) would: the probe's counter in this thread's slot.
//!
//! - *Flags* are kept: the site's asm promises that to the compiler. `lahf` and `seto` read all six
//!   status flags. No instruction before `jrcxz` changes a flag, so `slow` has none to restore.
//!   Some early processors lack `lahf` in 64-bit mode: they get no blocks ([`is_supported`]).
//! - *Signals* may arrive between any two instructions. `inc` on memory is one instruction, so a
//!   handler's hits of the same probe add up. The words that the block has pushed lie above the
//!   handler's stack pointer.
//! - *Unwinding*: a block calls no function, so only a walk from a signal handler can begin in one.
//!   A walk by unwind tables ends there, as in all code made at run time, which has no table. A
//!   walk by frame pointers goes on, since `rbp` is still the function's.
//! - *Late hits*: a thread that is stopped between the site and `inc` counts when it goes on,
//!   whatever the site holds by then. Its hit began before the change; no other thread can tell
//!   that it is still there.
//!
//! Pure, except for queries of the processor and the linker. Cost of a hit: 14 instructions, and
//! the site's. (Intel SDM 2A, `LAHF`; AMD APM vol. 3.)

// Safety: relies on `enter`'s thread-local pointer being at one offset from the thread pointer in
// every thread, as the initial-exec model says.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;
use std::sync::OnceLock;

use super::enter::enter;
use super::vectors::cpuid;

/// Bytes of a block, and its alignment: one cache line.
pub(crate) const LEN: usize = 64;

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
    0x48, 0x8d, 0x64, 0x24, 0x80,
    0x51, 0x50, 0x9f, 0x0f, 0x90, 0xc0,
    0x64, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0,
    0xe3, 0x19,
    0x48, 0xff, 0x81, 0, 0, 0, 0,
    0x04, 0x7f, 0x9e,
    0x58, 0x59, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0, 0xe9, 0, 0, 0, 0,
    0x58, 0x59, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0, 0xe9, 0, 0, 0, 0,
    0xcc, 0xcc,
];
/// Offsets of four words: the slot's place, the counter's, and the distances of both jumps.
const SLOT: usize = 16;
const COUNTER: usize = 25;
const BACK: usize = 43;
const TARGET: usize = 58;
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

/// Returns whether this processor can execute blocks.
pub(crate) fn is_supported() -> bool {
    static HAS_LAHF: OnceLock<bool> = OnceLock::new();
    // Every processor with 64-bit mode has this leaf, which says so. Under a hypervisor each query
    // takes microseconds.
    *HAS_LAHF.get_or_init(|| cpuid(0x8000_0001, 0).ecx & 1 != 0)
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
