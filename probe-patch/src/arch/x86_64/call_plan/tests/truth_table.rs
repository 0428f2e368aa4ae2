//! Tests of the plan: its whole truth table, and its properties.

use proptest::prelude::*;

use super::super::{CallPlan, Opcode, Split, Trampolines, Wanted, Words, call_plan};
use crate::arch::{Instruction, Rel32, SiteAddr, TextWord};
use crate::engine::error::PatchError;

const WORD: usize = 0x7000_1000;
/// Leaves the tails of `TARGET` and `NEAR` alike at every offset, and that of `FAR` not.
const TARGET: usize = WORD + 0x1_2340;
const NEAR: usize = TARGET + 0x20;
const FAR: usize = TARGET + 0x400;
const RET: usize = WORD - 0x80_0000;

struct Fixed(&'static [usize]);

impl Trampolines for Fixed {
    fn has(&self, addr: usize) -> bool {
        self.0.contains(&addr)
    }

    fn near(&self, site: SiteAddr) -> Option<usize> {
        self.0.iter().copied().find(|&ret| Rel32::between(site, ret).is_some())
    }
}

fn jmp(site: SiteAddr, target: usize) -> [u8; 5] {
    Instruction::jmp(Rel32::between(site, target).unwrap()).bytes()
}

/// Returns the same bytes with other first ones.
fn begin(mut bytes: [u8; 5], first: &[u8]) -> [u8; 5] {
    bytes[..first.len()].copy_from_slice(first);
    bytes
}

/// Returns the bytes at a site that a name of the table stands for.
fn bytes(name: &str, site: SiteAddr) -> [u8; 5] {
    let (form, target) = name.split_once(' ').unwrap_or((name, ""));
    let target = match target {
        "target" => TARGET,
        "near" => NEAR,
        "far" => FAR,
        "ret" => RET,
        _ => site.0 + 5,
    };
    let jmp = jmp(site, target);
    match form {
        "call" => begin(jmp, &[0xe8]),
        "jmp" => jmp,
        "skip" => begin(jmp, &[0xeb, 0x03]),
        "nop" => [0x0f, 0x1f, 0x44, 0x00, 0x08],
        "compiler's-nop" => [0x0f, 0x1f, 0x44, 0x00, 0x00],
        "int3" => begin(jmp, &[0xcc]),
        "rubbish" => [0x48, 0x89, 0xe5, 0x41, 0x57],
        _ => panic!("{name}"),
    }
}

/// The bytes found, and the outcomes of activating `call target`, activating `jmp target`, and
/// deactivating. `=`: unchanged.
type Row = (&'static str, [&'static str; 3]);

const REFUSED: [&str; 3] = ["NotACall"; 3];

const NONE: &[Row] = &[
    ("call target", ["=", "jmp target", "nop"]),
    ("call near", ["call target", "jmp target", "nop"]),
    ("call far", ["call target", "jmp target", "nop"]),
    ("call ret", ["call target", "jmp target", "nop"]),
    ("call next", ["call target", "jmp target", "nop"]),
    ("jmp target", ["call target", "=", "nop"]),
    ("jmp near", ["call target", "jmp target", "nop"]),
    ("jmp far", ["call target", "jmp target", "nop"]),
    ("jmp ret", ["call target", "jmp target", "nop"]),
    ("jmp next", ["call target", "jmp target", "nop"]),
    ("nop", ["call target", "jmp target", "="]),
    ("compiler's-nop", ["call target", "jmp target", "="]),
    ("skip target", REFUSED),
    ("skip far", REFUSED),
    ("int3 target", REFUSED),
    ("rubbish", REFUSED),
];

const OPCODE: &[Row] = &[
    ("call target", ["=", "Opcode", "call ret"]),
    ("call near", ["call target", "Opcode", "call ret"]),
    ("call far", ["call target", "Opcode", "call ret"]),
    ("call ret", ["call target", "Opcode", "="]),
    ("call next", ["call target", "Opcode", "call ret"]),
    ("jmp target", ["Opcode", "=", "jmp next"]),
    ("jmp near", ["Opcode", "jmp target", "jmp next"]),
    ("jmp far", ["Opcode", "jmp target", "jmp next"]),
    ("jmp ret", ["Opcode", "jmp target", "jmp next"]),
    ("jmp next", ["Opcode", "jmp target", "="]),
    ("nop", REFUSED),
    ("compiler's-nop", REFUSED),
    ("skip target", REFUSED),
    ("skip far", REFUSED),
    ("int3 target", REFUSED),
    ("rubbish", REFUSED),
];

const DISTANCE: &[Row] = &[
    ("call target", ["=", "jmp target", "skip target"]),
    ("call near", ["call target", "jmp target", "skip target"]),
    ("call far", ["Tail", "Tail", "skip far"]),
    ("call ret", ["Tail", "Tail", "skip ret"]),
    ("call next", ["Tail", "Tail", "skip next"]),
    ("jmp target", ["call target", "=", "skip target"]),
    ("jmp near", ["call target", "jmp target", "skip target"]),
    ("jmp far", ["Tail", "Tail", "skip far"]),
    ("jmp ret", ["Tail", "Tail", "skip ret"]),
    ("jmp next", ["Tail", "Tail", "skip next"]),
    ("nop", REFUSED),
    ("compiler's-nop", REFUSED),
    ("skip target", ["call target", "jmp target", "="]),
    ("skip far", ["Tail", "Tail", "="]),
    ("int3 target", REFUSED),
    ("rubbish", REFUSED),
];

const OPERATIONS: [Wanted; 3] =
    [Wanted::Active(Opcode::Call, TARGET), Wanted::Active(Opcode::Jump, TARGET), Wanted::Latent];

/// Returns words with an instruction amid arbitrary bytes.
fn around(site: SiteAddr, instruction: [u8; 5]) -> Words {
    let rubbish = Words { first: TextWord(0x1122_3344_5566_7788), second: TextWord(0x99aa_bbcc_ddee_ff00) };
    rubbish.with_instruction(site, Instruction::from_bytes(instruction))
}

/// Returns the words after a step, which may change one of them.
fn after(site: SiteAddr, words: Words, step: CallPlan) -> Words {
    match step {
        CallPlan::Unchanged => words,
        CallPlan::Provide => panic!("there is a trampoline"),
        CallPlan::Write { addr, expected, new } if addr == site.0 & !7 => {
            assert_eq!(expected, words.first);
            Words { first: new, ..words }
        }
        CallPlan::Write { addr, expected, new } => {
            assert_eq!(addr, (site.0 & !7) + 8);
            assert_eq!(expected, words.second);
            Words { second: new, ..words }
        }
    }
}

#[test]
fn walks_the_truth_table() {
    let mut walked = 0;
    for offset in 0..8 {
        let site = SiteAddr(WORD + offset);
        let rows = match offset {
            0..=3 => NONE,
            7 => OPCODE,
            _ => DISTANCE,
        };
        for (name, outcomes) in rows {
            let found = bytes(name, site);
            let words = around(site, found);
            for (wanted, outcome) in OPERATIONS.into_iter().zip(outcomes) {
                let planned = call_plan(site, words, wanted, &Fixed(&[RET]));
                match *outcome {
                    "=" => {
                        assert_eq!(
                            planned.unwrap(),
                            CallPlan::Unchanged,
                            "offset {offset}, {name}, {wanted:x?}"
                        );
                    }
                    "NotACall" | "Tail" | "Opcode" => check(outcome, &planned.unwrap_err(), site, found),
                    new => {
                        let step = planned.unwrap();
                        assert_ne!(step, CallPlan::Unchanged, "offset {offset}, {name}, {wanted:x?}");
                        let is_new = after(site, words, step) == around(site, bytes(new, site));
                        assert!(is_new, "offset {offset}, {name}, {wanted:x?}: {step:x?}");
                    }
                }
                walked += 1;
            }
        }
    }
    assert_eq!(walked, 8 * 16 * 3);
}

/// Asserts that an error is the one in the table, with the right fields.
fn check(outcome: &str, error: &PatchError, site: SiteAddr, bytes: [u8; 5]) {
    match error {
        PatchError::NotACall { addr, found } if outcome == "NotACall" => {
            assert_eq!((*addr, &**found), (site.0, &bytes[..]));
        }
        PatchError::Tail { addr, target, expected, found } if outcome == "Tail" => {
            assert_eq!((*addr, *target), (site.0, TARGET));
            assert_eq!((&**expected, &**found), (&jmp(site, TARGET)[2..], &bytes[2..]));
        }
        PatchError::Opcode { addr, expected, found } if outcome == "Opcode" => {
            assert_eq!((*addr, *found, *expected), (site.0, bytes[0], bytes[0] ^ 1));
        }
        other => panic!("{outcome}: {other}"),
    }
}

#[test]
fn without_a_trampoline_one_is_asked_for() {
    let site = SiteAddr(WORD + 7);
    let far: &[usize] = &[WORD + (1 << 40)];
    for trampolines in [Fixed(&[]), Fixed(far)] {
        let call = around(site, bytes("call target", site));
        assert_eq!(call_plan(site, call, Wanted::Latent, &trampolines).unwrap(), CallPlan::Provide);
        // A JMP needs none.
        let jump = around(site, bytes("jmp target", site));
        let step = call_plan(site, jump, Wanted::Latent, &trampolines).unwrap();
        assert_eq!(after(site, jump, step), around(site, bytes("jmp next", site)));
    }
}

#[test]
fn far_targets_are_refused() {
    for offset in 0..8 {
        let site = SiteAddr(WORD + offset);
        let words = around(site, bytes("call target", site));
        for (target, is_far) in [(site.0 + 5 + 0x7fff_ffff, false), (site.0 + 5 + 0x8000_0000, true)] {
            let planned = call_plan(site, words, Wanted::Active(Opcode::Call, target), &Fixed(&[]));
            let refused = matches!(planned, Err(PatchError::OutOfReach { addr, target: far })
                if addr == site.0 && far == target);
            assert_eq!(refused, is_far, "{planned:?}");
        }
    }
}

proptest! {
    #[test]
    fn writes_one_word_of_the_site_and_no_neighbour(
        first: u64,
        second: u64,
        offset in 0_usize..8,
        opcode in prop::sample::select(&[0xe8_u8, 0xe9, 0xeb, 0x0f, 0xcc][..]),
        operation in 0_usize..3,
        distance: i32,
    ) {
        let site = SiteAddr(WORD + offset);
        let target = (site.0 + 5).wrapping_add_signed(distance as isize);
        let words = Words { first: TextWord(first), second: TextWord(second) };
        let first: &[u8] = if opcode == 0xeb { &[opcode, 3] } else { &[opcode] };
        let bytes = begin(words.instruction(site).bytes(), first);
        let words = words.with_instruction(site, Instruction::from_bytes(bytes));
        let wanted = match operation {
            0 => Wanted::Active(Opcode::Call, target),
            1 => Wanted::Active(Opcode::Jump, target),
            _ => Wanted::Latent,
        };
        if let Ok(step) = call_plan(site, words, wanted, &Fixed(&[RET])) {
            let now = after(site, words, step);
            // Outside the site, all bytes are as before.
            prop_assert_eq!(now.with_instruction(site, words.instruction(site)), words);
            match Split::of(site) {
                Split::None | Split::Distance => prop_assert_eq!(now.second, words.second),
                Split::Opcode => prop_assert_eq!(now.first, words.first),
            }
            // The site is as wanted.
            prop_assert_eq!(call_plan(site, now, wanted, &Fixed(&[RET])).unwrap(), CallPlan::Unchanged);
        }
    }

    #[test]
    fn there_and_back(first: u64, second: u64, offset in 0_usize..8, distance: i32, is_jump: bool) {
        let site = SiteAddr(WORD + offset);
        let target = (site.0 + 5).wrapping_add_signed(distance as isize);
        let opcode = if is_jump { Opcode::Jump } else { Opcode::Call };
        let bytes = begin(jmp(site, target), &[opcode as u8]);
        let active = Words { first: TextWord(first), second: TextWord(second) }
            .with_instruction(site, Instruction::from_bytes(bytes));
        let latent = after(site, active, call_plan(site, active, Wanted::Latent, &Fixed(&[RET])).unwrap());
        let again = call_plan(site, latent, Wanted::Active(opcode, target), &Fixed(&[RET])).unwrap();
        prop_assert_eq!(after(site, latent, again), active);
    }
}
