//! A probe's site: any number of switches between its three instructions, with no sync between
//! them, ever.

use std::collections::HashSet;

use proptest::prelude::*;

use super::super::plan::replacement;
use super::super::{Bytes, Instruction, Mode, Rel32, SITE_LEN, Site, SiteAddr, TextWord};
use super::{Effect, History, LINE, Step, effect, fetched};

const COLD: usize = LINE + 0x1_2345;
const BLOCK: usize = LINE + 0x7456_7800;

fn site(offset: usize, is_call: bool) -> Site {
    let addr = SiteAddr(LINE + offset);
    let rel = Rel32::between(addr, COLD).unwrap();
    let mut site = Site::new(addr, if is_call { Instruction::call(rel) } else { Instruction::jmp(rel) });
    assert!(site.set_block(BLOCK));
    site
}

/// What executing the site may do, at any time.
fn effects(site: Site, modes: &[Mode], granule: usize) -> HashSet<Effect> {
    let word = site.addr.word();
    let mut history = History::of(site.addr.0, Instruction::NOP5.bytes().into(), &[]);
    for mode in modes {
        let now = TextWord(history.now().word(word));
        if let Some(new) = replacement(now.instruction(site.addr), site, *mode).unwrap() {
            let to = now.with_instruction(site.addr, new).0;
            history.push(Step::Write { word, mask: u64::MAX, to });
        }
    }
    let addr = site.addr.0;
    let decode = |bytes: Bytes| effect(addr, bytes[..].try_into().expect("five bytes"));
    fetched(&history, addr, SITE_LEN, granule).into_iter().map(decode).collect()
}

fn own(site: Site) -> [Effect; 3] {
    let active = if site.is_call() { Effect::Call(COLD) } else { Effect::Jump(COLD) };
    [Effect::Skip, active, Effect::Jump(BLOCK)]
}

proptest! {
    #[test]
    fn no_mix_is_a_fourth_instruction(
        offset in 0_usize..=3,
        is_call: bool,
        modes in prop::collection::vec(prop_oneof![Just(Mode::Latent), Just(Mode::Active), Just(Mode::Counting)], 0..9),
    ) {
        let site = site(offset, is_call);
        for effect in effects(site, &modes, 8) {
            prop_assert!(own(site).contains(&effect), "{:?}", effect);
        }
    }
}

#[test]
fn a_write_that_is_not_whole_would_be_one() {
    let site = site(2, false);
    let torn = effects(site, &[Mode::Active, Mode::Counting], 1);
    assert!(torn.iter().any(|effect| !own(site).contains(effect)));
}
