//! The instructions of a block, and the state that it keeps.

// Safety: relies on functions of this module that are entered and left only by the jumps they
// state.
#![expect(unsafe_code, reason = "see above")]

use std::arch::global_asm;
use std::mem::offset_of;

use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::super::{set_slot, slot};
use super::*;
use crate::dispatch::ThreadSlot;
use crate::patch::map_near;

const BLOCK: Block = Block { back: 0x40_1005, target: 0x40_2000, counter: 0x1234_5678 };

/// Returns the instructions up to the first `int3`.
fn instructions(code: &[u8], at: usize) -> Vec<iced_x86::Instruction> {
    let decoder = Decoder::with_ip(64, code, at as u64, DecoderOptions::NONE);
    decoder.into_iter().take_while(|it| it.mnemonic() != Mnemonic::Int3).collect()
}

#[test]
fn says_what_the_documentation_says() {
    use Mnemonic::{Add, Inc, Jmp, Jrcxz, Lahf, Lea, Mov, Pop, Push, Sahf, Seto};
    let at = 0x7000_0040;
    let code = BLOCK.code(at, -0x68).unwrap();
    let found = instructions(&code, at);
    let wanted =
        [Lea, Push, Push, Lahf, Seto, Mov, Jrcxz, Inc, Add, Sahf, Pop, Pop, Lea, Jmp, Pop, Pop, Lea, Jmp];
    assert_eq!(found.iter().map(iced_x86::Instruction::mnemonic).collect::<Vec<_>>(), wanted);
    let of = |mnemonic| found.iter().filter(move |it| it.mnemonic() == mnemonic);
    let slot = of(Mov).next().unwrap();
    assert_eq!((slot.memory_segment(), slot.memory_base()), (Register::FS, Register::None));
    assert_eq!(slot.memory_displacement64().cast_signed(), -0x68);
    let inc = of(Inc).next().unwrap();
    assert_eq!((inc.memory_base(), inc.memory_displacement64()), (Register::RCX, 0x1234_5678));
    let leads: Vec<_> = of(Jmp).map(iced_x86::Instruction::near_branch_target).collect();
    assert_eq!(leads, [0x40_1005, 0x40_2000]);
    let way_out = of(Jrcxz).next().unwrap().near_branch_target();
    assert_eq!(way_out, of(Jmp).next().unwrap().next_ip());
}

#[test]
fn touches_two_registers_and_no_flags_before_it_knows_the_way() {
    let code = BLOCK.code(0x7000_0040, 8).unwrap();
    let mut factory = InstructionInfoFactory::new();
    let mut is_decided = false;
    for instruction in instructions(&code, 0x7000_0040) {
        is_decided |= instruction.flow_control() == FlowControl::ConditionalBranch;
        assert!(is_decided || instruction.rflags_modified() == 0, "{instruction:?}");
        for used in factory.info(&instruction).used_registers() {
            let is_written = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            let whole = used.register().full_register();
            let own = [Register::RAX, Register::RCX, Register::RSP];
            assert!(!is_written || own.contains(&whole), "{instruction:?} writes {whole:?}");
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
        let is_slot = (16..20).contains(&change);
        proptest::prop_assert_eq!(Block::of(&code, at) == Some(block), is_slot);
    }

    #[test]
    fn other_code_is_none(code: [u8; LEN], at: usize) {
        proptest::prop_assert_eq!(Block::of(&code, at), None);
    }
}

/// Registers and flags before and after a block.
#[repr(C)]
#[derive(Default, Debug)]
struct Trial {
    flags: u64,
    rax: u64,
    rcx: u64,
    block: u64,
    out_flags: u64,
    out_rax: u64,
    out_rcx: u64,
    /// Number of times that the slow way was taken.
    slow: u64,
    rsp: u64,
    out_rsp: u64,
    red_zone: [u64; 16],
}

const _: () = assert!(offset_of!(Trial, red_zone) == 80);

// Jumps to the block of a trial with its flags and registers, and with numbers in the red zone.
global_asm!(
    ".pushsection .text",
    ".globl probe_trial, probe_trial_back, probe_trial_cold",
    ".hidden probe_trial, probe_trial_back, probe_trial_cold",
    "probe_trial:",
    "push rbx",
    "mov rbx, rdi",
    "mov [rbx + 64], rsp",
    "push [rbx]",
    "popfq",
    ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
    "mov qword ptr [rsp - 8 * \\n], \\n",
    ".endr",
    "mov rax, [rbx + 8]",
    "mov rcx, [rbx + 16]",
    "jmp [rbx + 24]",
    "probe_trial_back:",
    "mov [rbx + 40], rax",
    "mov [rbx + 48], rcx",
    "mov [rbx + 72], rsp",
    ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
    "mov rax, [rsp - 8 * \\n]",
    "mov [rbx + 72 + 8 * \\n], rax",
    ".endr",
    "mov rsp, [rbx + 64]",
    "pushfq",
    "pop [rbx + 32]",
    "pop rbx",
    "ret",
    "probe_trial_cold:",
    "mov qword ptr [rbx + 56], 1",
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

/// CF PF AF ZF SF OF.
const STATUS: [u64; 6] = [1, 1 << 2, 1 << 4, 1 << 6, 1 << 7, 1 << 11];
const COUNTER: usize = 24;

#[test]
#[cfg_attr(miri, ignore = "executes code")]
fn keeps_flags_registers_and_the_red_zone_and_counts_once() {
    if !is_supported() {
        return;
    }
    let mut slot_like = Memory([0; 8]);
    let before = slot();
    let (back, target) = (probe_trial_back as *const () as usize, probe_trial_cold as *const () as usize);
    let block = Block { back, target, counter: i32::try_from(COUNTER).unwrap() };
    let pages = map_near(&(back.min(target)..back.max(target)), LEN, |bytes, at| {
        bytes.copy_from_slice(&block.code(at, slot_offset().unwrap()).unwrap());
    })
    .unwrap();
    let all = [true, false].into_iter().flat_map(|has_slot| (0..64_u64).map(move |it| (has_slot, it)));
    for (has_slot, combination) in all {
        let status = (0..6).filter(|at| combination >> at & 1 == 1).map(|at| STATUS[at]).sum::<u64>();
        for (rax, rcx) in [(0, 0), (u64::MAX, 1), (0x7f00, u64::MAX), (combination << 40 | 0xff7f, 0x80)] {
            let block = pages.start as u64;
            let mut trial = Trial { flags: 2 | status, rax, rcx, block, ..Trial::default() };
            let counted = slot_like.0[COUNTER / 8];
            set_slot(if has_slot { (&raw mut slot_like).cast::<ThreadSlot>() } else { std::ptr::null_mut() });
            // SAFETY: the block leads back, and touches the slot's one counter.
            unsafe { probe_trial(&raw mut trial) };
            set_slot(before);
            let seen = STATUS.iter().sum::<u64>() & trial.out_flags;
            assert_eq!(seen, status, "{has_slot} {trial:?}");
            assert_eq!((trial.out_rax, trial.out_rcx, trial.out_rsp), (rax, rcx, trial.rsp));
            assert_eq!(trial.slow, u64::from(!has_slot));
            assert_eq!(slot_like.0[COUNTER / 8] - counted, u64::from(has_slot));
            assert!((1..=16).eq(trial.red_zone), "{trial:?}");
        }
    }
    // SAFETY: nothing leads there any more.
    unsafe { crate::patch::unmap(&pages) };
    assert!(slot_like.0.iter().enumerate().all(|(at, word)| at == COUNTER / 8 || *word == 0));
}
