//! A site and its instructions.
//!
//! ```text
//!  Latent     0f 1f 44 00 08   NOP5
//!  Active     e9 xx xx xx xx   JMP cold          e8 xx xx xx xx   CALL stub
//!  Counting   e9 yy yy yy yy   JMP block         (as `Active` where there is no block)
//! ```
//! Each of these is one whole instruction of five bytes. So one write of the aligned word replaces
//! any of them by any other, and a thread is either before the site or behind it. This module is
//! pure.
//!
//! Cost: 16 bytes a site. A block begins at a multiple of 64, so the lowest bits of its distance
//! are free for two flags.

use crate::engine::entry::backend::block::LEN as BLOCK;
use crate::engine::sites::plan::refuse;
use crate::engine::sites::{Instruction, Mode, Refusal, Rel32, SITE_LEN, SiteAddr, SiteState};

/// One site: its address, and its instructions while it is active.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) addr: SiteAddr,
    /// The distance of the active JMP or CALL.
    rel: i32,
    /// The distance from the site's own 64-byte line to its block, or 0 without one; and the flags.
    block: i32,
}

const _: () = assert!(size_of::<Site>() == 16);

/// Flag: the active instruction is a CALL.
const CALL: i32 = 1;
/// Flag: the site never gets a block.
const PLAIN: i32 = 2;

impl Site {
    /// Returns a site with this JMP or CALL as its active instruction.
    #[inline]
    pub(crate) const fn new(addr: SiteAddr, active: Instruction) -> Self {
        let block = if active.is_call() { CALL } else { 0 };
        Self { addr, rel: active.rel().0, block }
    }

    /// Returns the same site, barred from getting a block, since a hit of it does more than count.
    pub(crate) const fn without_block(self) -> Self {
        Self { block: self.block | PLAIN, ..self }
    }

    /// Returns the target of the active instruction.
    pub(crate) const fn target(self) -> usize {
        self.addr.0.wrapping_add(SITE_LEN).wrapping_add_signed(self.rel as isize)
    }

    /// Returns whether the active instruction is a CALL.
    #[inline(always)]
    pub(crate) const fn is_call(self) -> bool {
        self.block & CALL != 0
    }

    /// Returns whether the site may have a block and has none.
    #[inline]
    pub(crate) const fn lacks_block(self) -> bool {
        self.block & !CALL == 0
    }

    /// Returns the address of the site's block.
    #[inline(always)]
    pub(crate) const fn block(self) -> Option<usize> {
        let offset = self.block & !(CALL | PLAIN);
        if offset == 0 {
            None
        } else {
            Some((self.addr.0 & !(BLOCK - 1)).wrapping_add_signed(offset as isize))
        }
    }

    /// Sets the site's block. Returns `false` if the block is out of reach.
    ///
    /// # Panics
    /// If the site has a block, if it may not get one, or if the address is not aligned to a block.
    pub(crate) fn set_block(&mut self, block: usize) -> bool {
        assert!(self.lacks_block() && block.is_multiple_of(BLOCK));
        let offset = block.wrapping_sub(self.addr.0 & !(BLOCK - 1)).cast_signed();
        let near = i32::try_from(offset).ok().filter(|_| Rel32::between(self.addr, block).is_some());
        near.inspect(|offset| self.block |= offset).is_some()
    }

    #[inline(always)]
    pub(crate) const fn active(self) -> Instruction {
        Instruction::branch(Rel32(self.rel), self.is_call())
    }

    #[inline(always)]
    pub(crate) const fn counting(self) -> Instruction {
        let offset = self.block & !(CALL | PLAIN);
        if offset == 0 {
            return self.active();
        }
        // The distance counts from the end of the instruction, not from the start of its line.
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "less than 69")]
        let within = (self.addr.0 & (BLOCK - 1)) as i32 + SITE_LEN as i32;
        Instruction::branch(Rel32(offset.wrapping_sub(within)), false)
    }

    /// Returns the site's instruction in this mode.
    #[inline(always)]
    pub(crate) const fn instruction(self, mode: Mode) -> Instruction {
        match mode {
            Mode::Latent => Instruction::NOP5,
            Mode::Active => self.active(),
            Mode::Counting => self.counting(),
        }
    }

    /// Returns whether an instruction is one of the site's own, other than the NOP.
    #[inline(always)]
    pub(crate) fn is_on(self, found: Instruction) -> bool {
        found == self.active() || found == self.counting()
    }

    /// Returns the site's instruction that a foreign one has probably replaced, if the site was
    /// left in this mode. A breakpoint changes only the first byte, so the others identify the
    /// instruction.
    #[cold]
    pub(crate) fn overwritten(self, found: Instruction, mode: Mode) -> Instruction {
        let own = [self.counting(), self.active()].into_iter().find(|own| own.rel() == found.rel());
        own.filter(|_| mode != Mode::Latent).unwrap_or_else(|| self.instruction(mode))
    }

    /// Returns whether an instruction is one of the site's own.
    #[inline(always)]
    pub(crate) fn owns(self, found: Instruction) -> bool {
        found == Instruction::NOP5 || self.is_on(found)
    }
}

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
/// Same as [`plan`](crate::engine::sites::plan()).
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
            if wanted == Mode::Latent { site.overwritten(found, Mode::Active) } else { Instruction::NOP5 };
        Err(refuse(site.addr, expected, found))
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.addr, self.active())?;
        self.block().map_or(Ok(()), |block| write!(f, " or {block:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sites::RefusalReason;
    use proptest::prelude::*;

    fn branch(addr: usize, target: usize, is_call: bool) -> Instruction {
        let rel = Rel32::between(SiteAddr(addr), target).unwrap();
        if is_call { Instruction::call(rel) } else { Instruction::jmp(rel) }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_found_again(
            addr in 1_usize << 33..1 << 46,
            target in -(1_isize << 30)..1 << 30,
            block in -(1_isize << 31)..1 << 31,
            is_call: bool,
        ) {
            let active = branch(addr, addr.wrapping_add_signed(target), is_call);
            let mut site = Site::new(SiteAddr(addr), active);
            prop_assert_eq!((site.active(), site.target()), (active, addr.wrapping_add_signed(target)));
            prop_assert_eq!((site.block(), site.counting()), (None, active));
            let block = addr.wrapping_add_signed(block) & !(BLOCK - 1);
            // The first line is the site's own, so no block lies there.
            prop_assume!(block != addr & !(BLOCK - 1));
            if site.set_block(block) {
                prop_assert_eq!((site.block(), site.lacks_block()), (Some(block), false));
                prop_assert_eq!(site.counting(), branch(addr, block, false));
            } else {
                prop_assert!(block.abs_diff(addr) > (1 << 31) - 2 * BLOCK);
                prop_assert_eq!((site.block(), site.lacks_block()), (None, true));
            }
            prop_assert_eq!((site.active(), site.is_call()), (active, is_call));
            for own in [Mode::Latent, Mode::Active, Mode::Counting] {
                prop_assert!(site.owns(site.instruction(own)));
                prop_assert_eq!(site.is_on(site.instruction(own)), own != Mode::Latent);
            }
        }
    }

    #[test]
    fn some_never_have_one() {
        let site = Site::new(SiteAddr(0x1000), branch(0x1000, 0x2000, true)).without_block();
        assert!(!site.lacks_block() && site.is_call());
        assert_eq!((site.block(), site.counting()), (None, site.active()));
    }

    #[test]
    fn walks_the_truth_table_of_three_modes() {
        use Mode::{Counting, Latent};
        const BLOCK: usize = 0x8000;
        // This range includes sites across two words.
        for (addr, is_call) in (0x1000..0x1008).flat_map(|addr| [(addr, false), (addr, true)]) {
            let (active, block) = (branch(addr, 0x1100, is_call), branch(addr, BLOCK, false));
            let bare = Site::new(SiteAddr(addr), active);
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
}
