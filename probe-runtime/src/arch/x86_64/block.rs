//! A counting block: what a site of a probe that is only counted leads to, in place of its cold
//! block.
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
//! It reads no hook and sets no mark, so no operation waits for it. It bumps what the way in
//! ([`enter`](super::enter)) would bump: the probe's counter in this thread's slot.
//!
//! - *Flags* are kept: the site's asm promises the compiler that. `lahf` and `seto` read all six status
//!   flags; nothing before `jrcxz` changes any, so `slow` has none to restore. Some early processors
//!   lack `lahf` in 64-bit mode: they get no blocks ([`is_supported`]).
//! - *Signals* may arrive between any two instructions. `inc` on memory is one, so a handler's hits of
//!   the same probe add up. What the block has pushed lies above the handler's stack pointer.
//! - *Unwinding*: a block calls nobody, so only a signal handler's walk can begin in one. By unwind
//!   tables it ends there, as in other code that was made at run time: there is no table for it. By
//!   frame pointers it goes on, since `rbp` is still the function's.
//! - *Late hits*: a thread that is stopped between the site and `inc` counts when it goes on, whatever
//!   the site holds by then. Its hit began before, and nobody can see it there.
//!
//! Pure, but for what is asked of the processor and the linker. Cost of a hit: 14 instructions, and the
//! site's.
//! (Intel SDM 2A, `LAHF`; AMD APM vol. 3.)

// Safety: relies on `enter`'s thread-local pointer being at one offset from the thread pointer in
// every thread, as the initial-exec model says.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;
use std::sync::OnceLock;

use super::enter::enter;
use super::vectors::cpuid;

/// Bytes of a block, and what its address is a multiple of: a line of the caches.
pub(crate) const LEN: usize = 64;

/// What a block is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// The address after the site's instruction.
    pub(crate) back: usize,
    /// The cold block.
    pub(crate) target: usize,
    /// Bytes from the start of a slot to the counter.
    pub(crate) counter: i32,
}

const STEP_DOWN: &[u8] = &[0x48, 0x8d, 0x64, 0x24, 0x80];
const STEP_UP: &[u8] = &[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
const SAVE: &[u8] = &[0x51, 0x50, 0x9f, 0x0f, 0x90, 0xc0];
const SLOT: &[u8] = &[0x64, 0x48, 0x8b, 0x0c, 0x25];
const INC: &[u8] = &[0x48, 0xff, 0x81];
const FLAGS: &[u8] = &[0x04, 0x7f, 0x9e];
const RESTORE: &[u8] = &[0x58, 0x59];
const JRCXZ: u8 = 0xe3;
/// From the counter's instruction to `slow`.
const TO_SLOW: u8 = 25;
const JMP: u8 = 0xe9;
const INT3: u8 = 0xcc;

/// Bytes of a block as they are put together.
struct Code {
    bytes: [u8; LEN],
    len: usize,
    at: usize,
    /// Whether all distances so far fit.
    is_near: bool,
}

impl Code {
    #[inline(always)]
    fn add(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    #[inline(always)]
    fn add_word(&mut self, word: i32) {
        self.add(&word.to_le_bytes());
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "compared afterwards")]
    fn branch(&mut self, opcode: u8, to: usize) {
        self.add(&[opcode]);
        let distance = to.wrapping_sub(self.at + self.len + 4).cast_signed();
        self.is_near &= distance as i32 as isize == distance;
        self.add_word(distance as i32);
    }
}

impl Block {
    /// The code of a block at this address, for threads whose slot is so far from the thread
    /// pointer; `None` where something is out of reach.
    #[inline]
    pub(crate) fn code(self, at: usize, slot: i32) -> Option<[u8; LEN]> {
        let mut code = Code { bytes: [INT3; LEN], len: 0, at, is_near: true };
        code.add(STEP_DOWN);
        code.add(SAVE);
        code.add(SLOT);
        code.add_word(slot);
        code.add(&[JRCXZ, TO_SLOW]);
        code.add(INC);
        code.add_word(self.counter);
        code.add(FLAGS);
        code.add(RESTORE);
        code.add(STEP_UP);
        code.branch(JMP, self.back);
        code.add(RESTORE);
        code.add(STEP_UP);
        code.branch(JMP, self.target);
        code.is_near.then_some(code.bytes)
    }

    /// What the block with these bytes, at this address, was made for; `None` for any other code.
    /// Whichever copy of this crate has made it: their slots and counters may differ.
    pub(crate) fn of(code: &[u8; LEN], at: usize) -> Option<Self> {
        let word = |offset: usize| Some(i32::from_le_bytes(code.get(offset..offset + 4)?.try_into().ok()?));
        let leads = |end: usize| Some((at + end).wrapping_add_signed(word(end - 4)? as isize));
        let slot = STEP_DOWN.len() + SAVE.len() + SLOT.len();
        let counter = slot + 4 + 2 + INC.len();
        let back = counter + 4 + usize::from(TO_SLOW) - INC.len() - 4;
        let target = back + RESTORE.len() + STEP_UP.len() + 5;
        let block = Self { back: leads(back)?, target: leads(target)?, counter: word(counter)? };
        (block.code(at, word(slot)?)? == *code).then_some(block)
    }
}

/// Whether this processor can execute blocks.
pub(crate) fn is_supported() -> bool {
    static HAS_LAHF: OnceLock<bool> = OnceLock::new();
    const EXTENDED: u32 = 0x8000_0000;
    *HAS_LAHF.get_or_init(|| cpuid(EXTENDED, 0).eax > EXTENDED && cpuid(EXTENDED + 1, 0).ecx & 1 != 0)
}

/// How far a thread's pointer to its slot is from its thread pointer; `None` where no instruction
/// could say it.
pub(crate) fn slot_offset() -> Option<i32> {
    let offset: isize;
    // SAFETY: reads what the linker, or the dynamic linker, has filled in.
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
