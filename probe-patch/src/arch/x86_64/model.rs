//! The model's view of x86-64: the effect of the bytes at a site. It checks an instruction of five
//! bytes in one aligned word, such as a probe's site: any number of switches between a NOP and JMPs
//! or CALLs, with no sync between them, ever. `probe-runtime` checks that its plans write these
//! three only.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::arch::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
use crate::engine::bytes::Bytes;
use crate::engine::model::{History, LINE, ModelStep, fetched};

/// The effect of five fetched bytes at a call site.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Effect {
    /// Calls.
    Call(usize),
    /// Jumps somewhere else.
    Jump(usize),
    /// Continues behind the five bytes.
    Skip,
    /// Traps, and waits for the end of the patch.
    Trap,
    /// Anything else: undefined behaviour.
    Wild,
}

/// Decodes five bytes.
pub(crate) fn effect(addr: usize, bytes: [u8; 5]) -> Effect {
    let target = || {
        let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        (addr + 5).wrapping_add_signed(isize::try_from(distance).expect("64 bits"))
    };
    match bytes {
        [0xe8, ..] => Effect::Call(target()),
        [0xe9, ..] => Effect::Jump(target()),
        // A short jump skips the bytes behind it, whatever they are.
        [0xeb, 0x03, ..] | [0x0f, 0x1f, 0x44, 0x00, _] => Effect::Skip,
        [0xcc, ..] => Effect::Trap,
        _ => Effect::Wild,
    }
}

#[test]
fn the_bytes_of_each_instruction_have_its_effect() {
    assert_eq!(effect(0x1000, [0xe8, 0, 0, 0, 0]), Effect::Call(0x1005));
    assert_eq!(effect(0x1000, [0xe9, 0xfb, 0xff, 0xff, 0xff]), Effect::Jump(0x1000));
    assert_eq!(effect(0x1000, [0xeb, 0x03, 1, 2, 3]), Effect::Skip);
    assert_eq!(effect(0x1000, [0xeb, 0x04, 1, 2, 3]), Effect::Wild);
    assert_eq!(effect(0x1000, [0x0f, 0x1f, 0x44, 0x00, 0x08]), Effect::Skip);
    assert_eq!(effect(0x1000, [0x0f, 0x1f, 0x44, 0x01, 0x08]), Effect::Wild);
    assert_eq!(effect(0x1000, [0xcc, 1, 2, 3, 4]), Effect::Trap);
}

const COLD: usize = LINE + 0x1_2345;
const BLOCK: usize = LINE + 0x7456_7800;

fn site(offset: usize) -> SiteAddr {
    SiteAddr(LINE + offset)
}

/// Returns the instructions that may stand at a site: a NOP, a JMP or CALL to the cold block, and a
/// JMP to a counting block.
fn own(site: SiteAddr, is_call: bool) -> [Instruction; 3] {
    let to = |target, is_call| Instruction::branch(Rel32::between(site, target).unwrap(), is_call);
    [Instruction::NOP5, to(COLD, is_call), to(BLOCK, false)]
}

/// Returns the possible effects of executing the site, at any time.
fn effects(site: SiteAddr, written: &[Instruction], granule: usize) -> HashSet<Effect> {
    let mut history = History::of(site.0, Instruction::NOP5.bytes().into(), &[]);
    for instruction in written {
        let now = TextWord(history.now().word(site.word()));
        let to = now.with_instruction(site, *instruction).0;
        history.push(ModelStep::Write { word: site.word(), mask: u64::MAX, to });
    }
    let decode = |bytes: Bytes| effect(site.0, bytes[..].try_into().expect("five bytes"));
    fetched(&history, site.0, SITE_LEN, granule).into_iter().map(decode).collect()
}

fn right(is_call: bool) -> [Effect; 3] {
    let active = if is_call { Effect::Call(COLD) } else { Effect::Jump(COLD) };
    [Effect::Skip, active, Effect::Jump(BLOCK)]
}

proptest! {
    #[test]
    fn no_mix_is_a_fourth_instruction(
        offset in 0_usize..=3,
        is_call: bool,
        modes in prop::collection::vec(0_usize..3, 0..9),
    ) {
        let site = site(offset);
        let written: Vec<_> = modes.into_iter().map(|mode| own(site, is_call)[mode]).collect();
        for effect in effects(site, &written, 8) {
            prop_assert!(right(is_call).contains(&effect), "{:?}", effect);
        }
    }
}

#[test]
fn a_write_that_is_not_whole_would_be_one() {
    let site = site(2);
    let torn = effects(site, &own(site, false)[1..], 1);
    assert!(torn.iter().any(|effect| !right(false).contains(effect)));
}
