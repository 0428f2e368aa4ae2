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

use super::{Instruction, Mode, Rel32, SITE_LEN, SiteAddr};
use crate::engine::entry::backend::block::LEN as BLOCK;

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
        let block = if active.bytes()[0] == 0xe8 { CALL } else { 0 };
        Self { addr, rel: active.rel().0, block }
    }

    /// Returns the same site, barred from getting a block, since a hit of it does more than count.
    #[cfg(probe_discovers)]
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
    pub(crate) fn under(self, found: Instruction, mode: Mode) -> Instruction {
        let own = [self.counting(), self.active()].into_iter().find(|own| own.rel() == found.rel());
        own.filter(|_| mode != Mode::Latent).unwrap_or_else(|| self.instruction(mode))
    }

    /// Returns whether an instruction is one of the site's own.
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
    #[cfg(probe_discovers)]
    fn some_never_have_one() {
        let site = Site::new(SiteAddr(0x1000), branch(0x1000, 0x2000, true)).without_block();
        assert!(!site.lacks_block() && site.is_call());
        assert_eq!((site.block(), site.counting()), (None, site.active()));
    }
}
