//! What to write at a site. Pure: it is handed the word, and touches nothing.

use super::{Instruction, Refusal, RefusalReason, Rel32, SiteAddr, TextWord};

/// The state of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteState {
    /// A NOP.
    Latent,
    /// A jump to the cold block.
    Active,
}

/// What a plan asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The site is as wanted.
    Unchanged,
    /// Replace the word `expected` by `new`.
    Write {
        /// The word that the plan was made from.
        expected: TextWord,
        /// The word that makes the site as wanted.
        new: TextWord,
    },
}

/// Plans one site.
///
/// | bytes found | wanted `Latent` | wanted `Active` |
/// |---|---|---|
/// | NOP5 | unchanged | write the JMP |
/// | JMP to `target` | write the NOP5 | unchanged |
/// | anything else | refused | refused |
///
/// # Errors
/// A site that lies across two words, a target that is more than 2 GiB away, and bytes that are neither
/// instruction are refused.
#[inline(always)]
pub fn plan(word: TextWord, site: SiteAddr, target: usize, wanted: SiteState) -> Result<Step, Box<Refusal>> {
    if !site.is_patchable() {
        return Err(refuse(site, RefusalReason::Straddles));
    }
    let Some(rel) = Rel32::between(site, target) else {
        return Err(refuse(site, RefusalReason::OutOfReach { target }));
    };
    let jmp = Instruction::jmp(rel);
    let (from, to) = match wanted {
        SiteState::Latent => (jmp, Instruction::NOP5),
        SiteState::Active => (Instruction::NOP5, jmp),
    };
    let found = word.instruction(site);
    if found == from {
        Ok(Step::Write { expected: word, new: word.with_instruction(site, to) })
    } else if found == to {
        Ok(Step::Unchanged)
    } else {
        Err(refuse(site, RefusalReason::Foreign { expected: from.bytes(), found: found.bytes() }))
    }
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "a small result lets the batch's loop stay in registers")]
fn refuse(site: SiteAddr, reason: RefusalReason) -> Box<Refusal> {
    Box::new(Refusal::new(site, reason))
}

#[cfg(test)]
mod tests {
    use super::super::SITE_LEN;
    use super::*;
    use SiteState::{Active, Latent};
    use proptest::prelude::*;

    const SITE: SiteAddr = SiteAddr(0x1003);
    const TARGET: usize = 0x1100;

    fn word(instruction: Instruction) -> TextWord {
        TextWord(0x5555_5555_5555_5555).with_instruction(SITE, instruction)
    }

    fn jmp(target: usize) -> Instruction {
        Instruction::jmp(Rel32::between(SITE, target).unwrap())
    }

    #[test]
    fn walks_the_truth_table() {
        let (nop, jmp) = (word(Instruction::NOP5), word(jmp(TARGET)));
        assert_eq!(plan(nop, SITE, TARGET, Latent), Ok(Step::Unchanged));
        assert_eq!(plan(nop, SITE, TARGET, Active), Ok(Step::Write { expected: nop, new: jmp }));
        assert_eq!(plan(jmp, SITE, TARGET, Latent), Ok(Step::Write { expected: jmp, new: nop }));
        assert_eq!(plan(jmp, SITE, TARGET, Active), Ok(Step::Unchanged));
        for wanted in [Latent, Active] {
            let found = [0xcc, 0x1f, 0x44, 0x00, 0x08];
            let refusal = plan(word(Instruction::from_bytes(found)), SITE, TARGET, wanted).unwrap_err();
            assert_eq!(refusal.site(), SITE.0);
            assert!(matches!(refusal.reason(), RefusalReason::Foreign { found: f, .. } if *f == found));
        }
    }

    #[test]
    fn a_jump_to_somewhere_else_is_foreign() {
        let other = word(jmp(TARGET + 1));
        assert!(plan(other, SITE, TARGET, Latent).is_err());
    }

    #[test]
    fn far_targets_and_straddlers_are_refused() {
        let far = plan(word(Instruction::NOP5), SITE, SITE.0 + (1 << 32), Active).unwrap_err();
        assert!(matches!(far.reason(), RefusalReason::OutOfReach { .. }));
        let straddler = plan(word(Instruction::NOP5), SiteAddr(0x1004), TARGET, Active).unwrap_err();
        assert!(matches!(straddler.reason(), RefusalReason::Straddles));
    }

    proptest! {
        #[test]
        fn writes_nothing_but_the_two_instructions(bits: u64, offset in 0_usize..8, active: bool, target: usize) {
            let site = SiteAddr(0x7000_0000 + offset);
            let wanted = if active { Active } else { Latent };
            if let Ok(Step::Write { expected, new }) = plan(TextWord(bits), site, target, wanted) {
                prop_assert_eq!(expected, TextWord(bits));
                let jmp = Instruction::jmp(Rel32::between(site, target).unwrap());
                prop_assert_eq!(new.instruction(site), if active { jmp } else { Instruction::NOP5 });
                prop_assert_eq!(new.with_instruction(site, expected.instruction(site)), expected);
            }
        }

        #[test]
        fn there_and_back(offset in 0_usize..=3, distance: i32, rest: u64) {
            let site = SiteAddr(0x7000_0000 + offset);
            let target = (site.0 + SITE_LEN).wrapping_add_signed(distance as isize);
            let latent = TextWord(rest).with_instruction(site, Instruction::NOP5);
            let Ok(Step::Write { new, .. }) = plan(latent, site, target, Active) else { panic!("not planned") };
            prop_assert_eq!(plan(new, site, target, Latent), Ok(Step::Write { expected: new, new: latent }));
        }
    }
}
