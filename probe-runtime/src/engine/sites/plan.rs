//! Computes the new bytes of a site. Pure: it gets the old bytes as values, and touches no text.

#[cfg(probe_backend = "patched")]
use super::Site;
use super::{Instruction, Refusal, RefusalReason, SiteAddr, TextWord};

/// The state of a site.
///
/// ```
/// use probe_runtime::patch::{Instruction, Rel32, SiteAddr, SitePlan, SiteState, TextWord, plan};
/// let (site, jmp) = (SiteAddr(0x1000), Instruction::jmp(Rel32::NEXT));
/// let latent = TextWord(0).with_instruction(site, Instruction::NOP5);
/// assert_eq!(plan(latent, site, jmp, SiteState::Latent), Ok(SitePlan::Unchanged));
/// assert!(matches!(plan(latent, site, jmp, SiteState::Active), Ok(SitePlan::Write { .. })));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteState {
    /// A NOP.
    Latent,
    /// A jump to the cold block, or a call of the stub.
    Active,
}

/// The wanted effect of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Nothing.
    Latent,
    /// The site leads to its cold block or its stub, since a consumer is to be called.
    Active,
    /// The site counts in the probe's own counter, and does nothing else.
    Counting,
}

#[cfg(probe_backend = "patched")]
impl Mode {
    /// Returns the public state of a site in this mode.
    #[inline(always)]
    pub(crate) const fn state(self) -> SiteState {
        match self {
            Self::Latent => SiteState::Latent,
            Self::Active | Self::Counting => SiteState::Active,
        }
    }
}

/// The result of a plan.
///
/// ```
/// use probe_runtime::patch::{Instruction, Rel32, SiteAddr, SitePlan, SiteState, TextWord, plan};
/// let jmp = Instruction::jmp(Rel32::NEXT);
/// let latent = TextWord(0).with_instruction(SiteAddr(0x1000), Instruction::NOP5);
/// match plan(latent, SiteAddr(0x1000), jmp, SiteState::Active)? {
///     SitePlan::Write { expected, new } => println!("replace {expected:?} by {new:?}"),
///     SitePlan::Unchanged => println!("it is active"),
///     SitePlan::Straddles => println!("it takes a word patch"),
/// }
/// assert_eq!(plan(latent, SiteAddr(0x1006), jmp, SiteState::Active)?, SitePlan::Straddles);
/// # Ok::<(), Box<probe_runtime::Refusal>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SitePlan {
    /// The site is as wanted.
    Unchanged,
    /// Replace the word `expected` by `new`.
    Write {
        /// The word that the plan was made from.
        expected: TextWord,
        /// The word that makes the site as wanted.
        new: TextWord,
    },
    /// The site lies across two words, so one write does not suffice. See [`word`](super::word).
    Straddles,
}

/// Plans one site. `active` is its instruction while it is active.
///
/// | bytes found | wanted `Latent` | wanted `Active` |
/// |---|---|---|
/// | NOP5 | unchanged | write `active` |
/// | `active` | write the NOP5 | unchanged |
/// | anything else | refused | refused |
///
/// # Errors
/// Bytes that are neither instruction are refused.
///
/// ```
/// use probe_runtime::RefusalReason;
/// use probe_runtime::patch::{Instruction, Rel32, SiteAddr, SitePlan, SiteState, TextWord, plan};
///
/// let site = SiteAddr(0x1000);
/// let jmp = Instruction::jmp(Rel32::between(site, 0x2000).expect("near by"));
/// let latent = TextWord(0).with_instruction(site, Instruction::NOP5);
/// let active = latent.with_instruction(site, jmp);
/// let planned = plan(latent, site, jmp, SiteState::Active);
/// assert_eq!(planned, Ok(SitePlan::Write { expected: latent, new: active }));
///
/// let breakpoint = latent.with_instruction(site, Instruction::from_bytes([0xcc, 0x1f, 0x44, 0x00, 0x08]));
/// let refusal = plan(breakpoint, site, jmp, SiteState::Active).unwrap_err();
/// assert!(matches!(refusal.reason(), RefusalReason::Foreign { .. }), "{refusal}");
/// ```
#[inline(always)]
pub fn plan(
    word: TextWord,
    site: SiteAddr,
    active: Instruction,
    wanted: SiteState,
) -> Result<SitePlan, Box<Refusal>> {
    if !site.is_patchable() {
        return Ok(SitePlan::Straddles);
    }
    let (from, to) = match wanted {
        SiteState::Latent => (active, Instruction::NOP5),
        SiteState::Active => (Instruction::NOP5, active),
    };
    let found = word.instruction(site);
    if found == from {
        Ok(SitePlan::Write { expected: word, new: word.with_instruction(site, to) })
    } else if found == to {
        Ok(SitePlan::Unchanged)
    } else {
        Err(refuse(site, from, found))
    }
}

/// Returns the instruction that has to replace `found`; `None` if the site is as wanted. The site
/// may lie at any address.
///
/// | found | wanted `Latent` | wanted `Active` | wanted `Counting` |
/// |---|---|---|---|
/// | NOP5 | – | JMP cold, or CALL | JMP block |
/// | JMP cold, or CALL | NOP5 | – | JMP block |
/// | JMP block | NOP5 | JMP cold, or CALL | – |
/// | anything else | refused | refused | refused |
///
/// # Errors
/// Same as [`plan`].
#[cfg(probe_backend = "patched")]
#[inline(always)]
pub(super) fn replacement(
    found: Instruction,
    site: Site,
    wanted: Mode,
) -> Result<Option<Instruction>, Box<Refusal>> {
    let to = site.instruction(wanted);
    if found == to {
        Ok(None)
    } else if site.owns(found) {
        Ok(Some(to))
    } else {
        let expected =
            if wanted == Mode::Latent { site.under(found, Mode::Active) } else { Instruction::NOP5 };
        Err(refuse(site.addr, expected, found))
    }
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "a small result lets the batch's loop stay in registers")]
fn refuse(site: SiteAddr, expected: Instruction, found: Instruction) -> Box<Refusal> {
    let reason = RefusalReason::Foreign { expected: expected.bytes(), found: found.bytes() };
    Box::new(Refusal::new(site, reason))
}

#[cfg(test)]
mod tests {
    use super::super::{Rel32, SITE_LEN};
    use super::*;
    use SiteState::{Active, Latent};
    use proptest::prelude::*;

    const SITE: SiteAddr = SiteAddr(0x1003);

    fn word(instruction: Instruction) -> TextWord {
        TextWord(0x5555_5555_5555_5555).with_instruction(SITE, instruction)
    }

    fn both(site: SiteAddr, target: usize) -> [Instruction; 2] {
        let rel = Rel32::between(site, target).unwrap();
        [Instruction::jmp(rel), Instruction::call(rel)]
    }

    #[test]
    fn walks_the_truth_table() {
        for active in both(SITE, 0x1100) {
            let (nop, on) = (word(Instruction::NOP5), word(active));
            assert_eq!(plan(nop, SITE, active, Latent), Ok(SitePlan::Unchanged));
            assert_eq!(plan(nop, SITE, active, Active), Ok(SitePlan::Write { expected: nop, new: on }));
            assert_eq!(plan(on, SITE, active, Latent), Ok(SitePlan::Write { expected: on, new: nop }));
            assert_eq!(plan(on, SITE, active, Active), Ok(SitePlan::Unchanged));
            for wanted in [Latent, Active] {
                let found = [0xcc, 0x1f, 0x44, 0x00, 0x08];
                let refusal = plan(word(Instruction::from_bytes(found)), SITE, active, wanted).unwrap_err();
                assert_eq!(refusal.site(), SITE.0);
                assert!(matches!(refusal.reason(), RefusalReason::Foreign { found: f, .. } if *f == found));
            }
        }
    }

    #[test]
    fn another_jump_is_foreign() {
        let [jmp, call] = both(SITE, 0x1100);
        let [elsewhere, _] = both(SITE, 0x1101);
        for other in [elsewhere, call] {
            assert!(plan(word(other), SITE, jmp, Latent).is_err());
        }
    }

    #[test]
    fn split_sites_take_more_than_a_write() {
        let site = SiteAddr(0x1004);
        let [jmp, _] = both(site, 0x1100);
        assert_eq!(plan(word(Instruction::NOP5), site, jmp, Active), Ok(SitePlan::Straddles));
    }

    #[cfg(probe_backend = "patched")]
    #[test]
    fn walks_the_truth_table_of_three_modes() {
        use Mode::{Counting, Latent};
        const BLOCK: usize = 0x8000;
        // This range includes sites across two words.
        for (addr, at) in (0x1000..0x1008).flat_map(|addr| [(addr, 0), (addr, 1)]) {
            let addr = SiteAddr(addr);
            let active = both(addr, 0x1100)[at];
            let [block, _] = both(addr, BLOCK);
            let bare = Site::new(addr, active);
            let mut site = bare;
            assert!(site.set_block(BLOCK));
            let own = [(Latent, Instruction::NOP5), (Mode::Active, active), (Counting, block)];
            for (wanted, to) in own {
                for (_, found) in own {
                    assert_eq!(replacement(found, site, wanted), Ok((found != to).then_some(to)));
                }
                // A site without a block counts through its active instruction.
                let to = if wanted == Counting { active } else { to };
                let found = Instruction::NOP5;
                assert_eq!(replacement(found, bare, wanted), Ok((found != to).then_some(to)));
                assert!(replacement(block, bare, wanted).is_err());
                let mut bytes = block.bytes();
                bytes[0] = 0xcc;
                let refusal = replacement(Instruction::from_bytes(bytes), site, wanted).unwrap_err();
                let under = if wanted == Latent { block } else { Instruction::NOP5 };
                let reason = RefusalReason::Foreign { expected: under.bytes(), found: bytes };
                assert_eq!(refusal.reason(), &reason);
            }
        }
    }

    // `probe-patch`'s model of instruction fetch tries all mixes of these three, in any order.
    #[cfg(probe_backend = "patched")]
    proptest! {
        #[test]
        fn any_site_holds_one_of_three_instructions(
            addr in 0x7000_0000_usize..0x7000_1000,
            cold in -(1_isize << 30)..1 << 30,
            block in -(1_isize << 30)..1 << 30,
            is_call: bool,
            has_block: bool,
            bytes: [u8; 5],
        ) {
            const LINE: usize = crate::engine::entry::backend::block::LEN;
            let addr = SiteAddr(addr);
            let (cold, block) = (addr.0.wrapping_add_signed(cold), addr.0.wrapping_add_signed(block) & !(LINE - 1));
            prop_assume!(block != addr.0 & !(LINE - 1));
            let branch = |target, is_call| Instruction::branch(Rel32::between(addr, target).unwrap(), is_call);
            let mut site = Site::new(addr, branch(cold, is_call));
            if has_block {
                prop_assert!(site.set_block(block));
            }
            let counting = if has_block { branch(block, false) } else { branch(cold, is_call) };
            let own = [Instruction::NOP5, branch(cold, is_call), counting];
            let modes = [Mode::Latent, Mode::Active, Mode::Counting];
            prop_assert_eq!(modes.map(|mode| site.instruction(mode)), own);
            for (wanted, to) in modes.into_iter().zip(own) {
                for found in own {
                    prop_assert_eq!(replacement(found, site, wanted), Ok((found != to).then_some(to)));
                }
                let foreign = Instruction::from_bytes(bytes);
                prop_assert_eq!(replacement(foreign, site, wanted).is_ok(), own.contains(&foreign));
            }
        }
    }

    proptest! {
        #[test]
        fn writes_nothing_but_the_two_instructions(bits: u64, offset in 0_usize..8, active: bool, bytes: [u8; 5]) {
            let site = SiteAddr(0x7000_0000 + offset);
            let (wanted, on) = (if active { Active } else { Latent }, Instruction::from_bytes(bytes));
            if let Ok(SitePlan::Write { expected, new }) = plan(TextWord(bits), site, on, wanted) {
                prop_assert_eq!(expected, TextWord(bits));
                prop_assert_eq!(new.instruction(site), if active { on } else { Instruction::NOP5 });
                prop_assert_eq!(new.with_instruction(site, expected.instruction(site)), expected);
            }
        }

        #[test]
        fn there_and_back(offset in 0_usize..=3, distance: i32, rest: u64) {
            let site = SiteAddr(0x7000_0000 + offset);
            for active in both(site, (site.0 + SITE_LEN).wrapping_add_signed(distance as isize)) {
                let latent = TextWord(rest).with_instruction(site, Instruction::NOP5);
                let Ok(SitePlan::Write { new, .. }) = plan(latent, site, active, Active) else { panic!("not planned") };
                prop_assert_eq!(plan(new, site, active, Latent), Ok(SitePlan::Write { expected: new, new: latent }));
            }
        }
    }
}
