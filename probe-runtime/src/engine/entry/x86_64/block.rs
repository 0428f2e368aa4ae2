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
//!   walk by frame pointers continues, since `rbp` is still the function's.
//! - *Late hits*: a thread that is stopped between the site and `inc` counts when it continues,
//!   whatever the site holds by then. Its hit began before the change; no other thread can tell
//!   that it is still there.
//!
//! Pure, except for a query of the linker. Cost of a hit: 5 instructions, and the site's.

// Safety: relies on `enter`'s thread-local pointer being at one offset from the thread pointer in
// every thread, as the initial-exec model says. Tests rely on functions of their own that are
// entered and left only by the jumps they state.
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

/// The instructions of a block, and the state that it keeps.
#[cfg(test)]
mod tests {
    use std::arch::global_asm;
    use std::mem::offset_of;

    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess, Register};

    use super::super::{set_slot, slot};
    use super::*;
    use crate::engine::dispatch::ThreadSlot;
    use crate::engine::sites::map_near;

    const BLOCK: Block = Block { back: 0x40_1005, target: 0x40_2000, counter: 0x1234_5678 };

    /// Returns the instructions up to the first `int3`.
    fn instructions(code: &[u8], at: usize) -> Vec<iced_x86::Instruction> {
        let decoder = Decoder::with_ip(64, code, at as u64, DecoderOptions::NONE);
        decoder.into_iter().take_while(|it| it.mnemonic() != Mnemonic::Int3).collect()
    }

    #[test]
    fn says_what_the_documentation_says() {
        use Mnemonic::{Inc, Je, Jmp, Mov, Test};
        let at = 0x7000_0040;
        let code = BLOCK.code(at, -0x68).unwrap();
        let found = instructions(&code, at);
        let wanted = [Mov, Test, Je, Inc, Jmp, Jmp];
        assert_eq!(found.iter().map(iced_x86::Instruction::mnemonic).collect::<Vec<_>>(), wanted);
        let of = |mnemonic| found.iter().filter(move |it| it.mnemonic() == mnemonic);
        let slot = of(Mov).next().unwrap();
        assert_eq!((slot.memory_segment(), slot.memory_base()), (Register::FS, Register::None));
        assert_eq!(slot.memory_displacement64().cast_signed(), -0x68);
        let inc = of(Inc).next().unwrap();
        assert_eq!((inc.memory_base(), inc.memory_displacement64()), (Register::R11, 0x1234_5678));
        let leads: Vec<_> = of(Jmp).map(iced_x86::Instruction::near_branch_target).collect();
        assert_eq!(leads, [0x40_1005, 0x40_2000]);
        let way_out = of(Je).next().unwrap().near_branch_target();
        assert_eq!(way_out, of(Jmp).next().unwrap().next_ip());
    }

    #[test]
    fn touches_one_register() {
        let code = BLOCK.code(0x7000_0040, 8).unwrap();
        let mut factory = InstructionInfoFactory::new();
        for instruction in instructions(&code, 0x7000_0040) {
            for used in factory.info(&instruction).used_registers() {
                let is_written = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
                let whole = used.register().full_register();
                assert!(!is_written || whole == Register::R11, "{instruction:?} writes {whole:?}");
            }
        }
    }

    #[test]
    fn distances_that_do_not_fit_are_refused() {
        assert!(BLOCK.code(0x7000_0000, 0).is_some());
        assert_eq!(BLOCK.code(1 << 32, 0), None);
        assert_eq!(Block { back: 1 << 40, ..BLOCK }.code(0x7000_0000, 0), None);
        assert_eq!(Block { target: 1 << 40, ..BLOCK }.code(0x7000_0000, 0), None);
    }

    proptest::proptest! {
        #[test]
        fn a_block_is_read_back_from_its_code(at in 0_usize..1 << 30, slot: i32, counter: i32, change in 0..LEN, by in 1..=255_u8) {
            let block = Block { counter, ..BLOCK };
            let mut code = block.code(at, slot).unwrap();
            proptest::prop_assert_eq!(Block::of(&code, at), Some(block));
            code[change] ^= by;
            // A block does not say whose slots it reads.
            let is_slot = (SLOT..SLOT + WORD).contains(&change);
            proptest::prop_assert_eq!(Block::of(&code, at) == Some(block), is_slot);
        }

        #[test]
        fn other_code_is_none(code: [u8; LEN], at: usize) {
            proptest::prop_assert_eq!(Block::of(&code, at), None);
        }
    }

    /// Registers before and after a block.
    #[repr(C)]
    #[derive(Default, Debug)]
    struct Trial {
        /// `rax`, `rcx`, `rdx`, `rsi`, `rdi`, `r8`, `r9`, `r10`.
        registers: [u64; 8],
        block: u64,
        after: [u64; 8],
        /// Number of times that the slow way was taken.
        slow: u64,
        rsp: u64,
        out_rsp: u64,
        red_zone: [u64; 16],
    }

    const _: () = assert!(offset_of!(Trial, red_zone) == 160);

    // Jumps to the block of a trial with its registers, and with numbers in the red zone.
    global_asm!(
        ".pushsection .text",
        ".globl probe_trial, probe_trial_back, probe_trial_cold",
        ".hidden probe_trial, probe_trial_back, probe_trial_cold",
        "probe_trial:",
        "push rbx",
        "mov rbx, rdi",
        "mov [rbx + 144], rsp",
        ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
        "mov qword ptr [rsp - 8 * \\n], \\n",
        ".endr",
        "mov rax, [rbx]",
        "mov rcx, [rbx + 8]",
        "mov rdx, [rbx + 16]",
        "mov rsi, [rbx + 24]",
        "mov rdi, [rbx + 32]",
        "mov r8, [rbx + 40]",
        "mov r9, [rbx + 48]",
        "mov r10, [rbx + 56]",
        "jmp [rbx + 64]",
        "probe_trial_back:",
        "mov [rbx + 72], rax",
        "mov [rbx + 80], rcx",
        "mov [rbx + 88], rdx",
        "mov [rbx + 96], rsi",
        "mov [rbx + 104], rdi",
        "mov [rbx + 112], r8",
        "mov [rbx + 120], r9",
        "mov [rbx + 128], r10",
        "mov [rbx + 152], rsp",
        ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
        "mov rax, [rsp - 8 * \\n]",
        "mov [rbx + 152 + 8 * \\n], rax",
        ".endr",
        "mov rsp, [rbx + 144]",
        "pop rbx",
        "ret",
        "probe_trial_cold:",
        "mov qword ptr [rbx + 136], 1",
        "jmp probe_trial_back",
        ".popsection",
    );

    unsafe extern "C" {
        fn probe_trial(trial: *mut Trial);
        fn probe_trial_back();
        fn probe_trial_cold();
    }

    /// Memory that takes the place of a slot.
    #[repr(align(64))]
    struct Memory([u64; 8]);

    const OF_SLOT: usize = 24;

    #[test]
    #[cfg_attr(miri, ignore = "executes code")]
    fn keeps_registers_and_the_red_zone_and_counts_once() {
        let mut slot_like = Memory([0; 8]);
        let before = slot();
        let (back, target) = (probe_trial_back as *const () as usize, probe_trial_cold as *const () as usize);
        let block = Block { back, target, counter: i32::try_from(OF_SLOT).unwrap() };
        let pages = map_near(&(back.min(target)..back.max(target)), LEN, |bytes, at| {
            bytes.copy_from_slice(&block.code(at, slot_offset().unwrap()).unwrap());
        })
        .unwrap();
        for has_slot in [true, false] {
            for registers in [[0; 8], [u64::MAX; 8], [1, 2, 3, 4, 5, 6, 7, 8]] {
                let mut trial = Trial { registers, block: pages.start as u64, ..Trial::default() };
                let counted = slot_like.0[OF_SLOT / 8];
                set_slot(if has_slot {
                    (&raw mut slot_like).cast::<ThreadSlot>()
                } else {
                    std::ptr::null_mut()
                });
                // SAFETY: the block leads back, and touches the slot's one counter.
                unsafe { probe_trial(&raw mut trial) };
                set_slot(before);
                assert_eq!((trial.after, trial.out_rsp), (registers, trial.rsp), "{has_slot} {trial:?}");
                assert_eq!(trial.slow, u64::from(!has_slot));
                assert_eq!(slot_like.0[OF_SLOT / 8] - counted, u64::from(has_slot));
                assert!((1..=16).eq(trial.red_zone), "{trial:?}");
            }
        }
        // SAFETY: nothing leads there any more.
        unsafe { crate::engine::sites::unmap(&pages) };
        assert!(slot_like.0.iter().enumerate().all(|(at, word)| at == OF_SLOT / 8 || *word == 0));
    }
}
