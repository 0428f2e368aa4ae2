//! Computes the new bytes of a site. Pure: it gets the old bytes as values, and touches no text.

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
/// # Ok::<(), Box<probe_runtime::patch::Refusal>>(())
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
/// use probe_runtime::patch::{
///     Instruction, RefusalReason, Rel32, SiteAddr, SitePlan, SiteState, TextWord, plan,
/// };
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

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "a small result lets the batch's loop stay in registers")]
pub(super) fn refuse(site: SiteAddr, expected: Instruction, found: Instruction) -> Box<Refusal> {
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
