//! A site, and what it can be made to hold.
//!
//! ```text
//!  Latent     0f 1f 44 00 08   NOP5
//!  Active     e9 xx xx xx xx   JMP cold          e8 xx xx xx xx   CALL stub
//!  Counting   e9 yy yy yy yy   JMP block         (as `Active` where there is no block)
//! ```
//! All three are whole instructions of five bytes, so any of them may replace any other by one write of the aligned word: a
//! thread is before a site, or behind it. Pure.
//!
//! Cost: 16 bytes. A block begins at a multiple of 64, so the lowest bits of its distance are free for two flags.

use super::{Instruction, Mode, Rel32, SITE_LEN, SiteAddr};
use crate::arch::backend::block::LEN as BLOCK;

/// One site: its address, and its instructions while it is active.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) addr: SiteAddr,
    /// The distance of the active JMP or CALL.
    rel: i32,
    /// From the line of 64 bytes that the site begins in to its block; 0 if it has none. And the flags.
    block: i32,
}

const _: () = assert!(size_of::<Site>() == 16);

/// The active instruction is a CALL.
const CALL: i32 = 1;
/// The site has no block, ever.
const PLAIN: i32 = 2;

impl Site {
    /// A site with its JMP or CALL.
    #[inline]
    pub(crate) const fn new(addr: SiteAddr, active: Instruction) -> Self {
        let block = if active.bytes()[0] == 0xe8 { CALL } else { 0 };
        Self { addr, rel: active.rel().0, block }
    }

    /// The same site, which never gets a block: a hit is more than this site's having been passed.
    #[cfg(probe_discovers)]
    pub(crate) const fn without_block(self) -> Self {
        Self { block: self.block | PLAIN, ..self }
    }

    /// Where its active instruction leads to.
    pub(crate) const fn target(self) -> usize {
        self.addr.0.wrapping_add(SITE_LEN).wrapping_add_signed(self.rel as isize)
    }

    /// Whether its active instruction is a CALL.
    #[inline(always)]
    pub(crate) const fn is_call(self) -> bool {
        self.block & CALL != 0
    }

    /// Whether it could have a block and has none.
    #[inline]
    pub(crate) const fn lacks_block(self) -> bool {
        self.block & !CALL == 0
    }

    /// The address of its block.
    #[inline(always)]
    pub(crate) const fn block(self) -> Option<usize> {
        let offset = self.block & !(CALL | PLAIN);
        if offset == 0 {
            None
        } else {
            Some((self.addr.0 & !(BLOCK - 1)).wrapping_add_signed(offset as isize))
        }
    }

    /// Gives it a block; `false` if that is out of reach.
    ///
    /// # Panics
    /// If it is to have none, or the address is none of a block.
    pub(crate) fn set_block(&mut self, block: usize) -> bool {
        assert!(self.lacks_block() && block.is_multiple_of(BLOCK));
        let offset = block.wrapping_sub(self.addr.0 & !(BLOCK - 1)).cast_signed();
        let near = i32::try_from(offset).ok().filter(|_| Rel32::between(self.addr, block).is_some());
        near.inspect(|offset| self.block |= offset).is_some()
    }

    /// Its instruction while it is active.
    #[inline(always)]
    pub(crate) const fn active(self) -> Instruction {
        Instruction::branch(Rel32(self.rel), self.is_call())
    }

    /// Its instruction while it only counts.
    #[inline(always)]
    pub(crate) const fn counting(self) -> Instruction {
        let offset = self.block & !(CALL | PLAIN);
        if offset == 0 {
            return self.active();
        }
        // From the end of the instruction, and not from the line that it begins in.
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "less than 69")]
        let within = (self.addr.0 & (BLOCK - 1)) as i32 + SITE_LEN as i32;
        Instruction::branch(Rel32(offset.wrapping_sub(within)), false)
    }

    /// Its instruction in this mode.
    #[inline(always)]
    pub(crate) const fn instruction(self, mode: Mode) -> Instruction {
        match mode {
            Mode::Latent => Instruction::NOP5,
            Mode::Active => self.active(),
            Mode::Counting => self.counting(),
        }
    }

    /// Whether an instruction is one of its own that is not the NOP.
    #[inline(always)]
    pub(crate) fn is_on(self, found: Instruction) -> bool {
        found == self.active() || found == self.counting()
    }

    /// Which of its instructions stood where a foreign one is, if it was left in this mode. A breakpoint
    /// leaves all bytes but the first, and says so itself.
    #[cold]
    pub(crate) fn under(self, found: Instruction, mode: Mode) -> Instruction {
        let own = [self.counting(), self.active()].into_iter().find(|own| own.rel() == found.rel());
        own.filter(|_| mode != Mode::Latent).unwrap_or_else(|| self.instruction(mode))
    }

    /// Whether an instruction is one of its own.
    #[inline(always)]
    pub(crate) fn owns(self, found: Instruction) -> bool {
        found == Instruction::NOP5 || self.is_on(found)
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
            // Its own line is the site's, and never a block.
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
    #[cfg(probe_discovers)]
    fn some_never_have_one() {
        let site = Site::new(SiteAddr(0x1000), branch(0x1000, 0x2000, true)).without_block();
        assert!(!site.lacks_block() && site.is_call());
        assert_eq!((site.block(), site.counting()), (None, site.active()));
    }
}
