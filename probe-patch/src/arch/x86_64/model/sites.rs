//! An instruction of five bytes in one aligned word, such as a probe's site: any number of switches
//! between a NOP and JMPs or CALLs, with no sync between them, ever. `probe-runtime` checks that
//! its plans write these three only.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{Effect, effect};
use crate::arch::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
use crate::bytes::Bytes;
use crate::model::{History, LINE, ModelStep, fetched};

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
