//! The instructions at a site, and the aligned word that holds them.
//!
//! Pure: it only computes on bytes. See AMD64 Architecture Programmer's Manual vol. 3, `NOP` and
//! `JMP`.

use std::fmt;

/// Length of a site's instruction, in bytes.
///
/// ```
/// use probe_patch::{Instruction, SITE_LEN};
/// assert_eq!(Instruction::NOP5.bytes().len(), SITE_LEN);
/// ```
pub const SITE_LEN: usize = 5;

/// The instruction at a site: five bytes, the first in the lowest place. A number, so that
/// comparing and replacing it takes an instruction each.
///
/// ```
/// use probe_patch::{Instruction, Rel32, SiteAddr};
/// // From the end of the instruction, 0x1008, it is 0x100 bytes to the target.
/// let rel = Rel32::between(SiteAddr(0x1003), 0x1108).expect("near by");
/// assert_eq!(Instruction::jmp(rel).bytes(), [0xe9, 0x00, 0x01, 0x00, 0x00]);
/// assert_eq!(Instruction::call(rel).bytes(), [0xe8, 0x00, 0x01, 0x00, 0x00]);
/// assert_eq!(Instruction::from_bytes([0x0f, 0x1f, 0x44, 0x00, 0x08]), Instruction::NOP5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Instruction(pub(super) u64);

impl Instruction {
    /// The NOP of a latent site: `nopl 8(%rax,%rax,1)`. The displacement tells it from every
    /// compiler's padding.
    pub const NOP5: Self = Self::from_bytes([0x0f, 0x1f, 0x44, 0x00, 0x08]);

    /// Returns the instruction with these bytes.
    #[inline]
    pub const fn from_bytes(bytes: [u8; SITE_LEN]) -> Self {
        let [head @ .., last] = bytes;
        Self(u32::from_le_bytes(head) as u64 | (last as u64) << 32)
    }

    /// Returns `jmp rel32`.
    #[inline]
    pub const fn jmp(rel: Rel32) -> Self {
        Self(0xe9 | (rel.0.cast_unsigned() as u64) << 8)
    }

    /// Returns `call rel32`.
    #[inline]
    pub const fn call(rel: Rel32) -> Self {
        Self(0xe8 | (rel.0.cast_unsigned() as u64) << 8)
    }

    /// Returns `call rel32` if `is_call`, and `jmp rel32` otherwise.
    #[inline(always)]
    pub const fn branch(rel: Rel32, is_call: bool) -> Self {
        Self((0xe9 - is_call as u64) | (rel.0.cast_unsigned() as u64) << 8)
    }

    /// Returns whether this is `call rel32`.
    #[inline]
    pub const fn is_call(self) -> bool {
        self.0 & 0xff == 0xe8
    }

    /// Returns whether a breakpoint, `int3`, is in the first byte.
    #[inline]
    pub const fn is_breakpoint(self) -> bool {
        self.0 & 0xff == 0xcc
    }

    /// Returns the last four bytes as a distance.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "what is cut off is zero")]
    pub const fn rel(self) -> Rel32 {
        Rel32(((self.0 >> 8) as u32).cast_signed())
    }

    /// Returns the instruction's bytes.
    #[inline]
    pub const fn bytes(self) -> [u8; SITE_LEN] {
        let [bytes @ .., _, _, _] = self.0.to_le_bytes();
        bytes
    }
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// The address of a site's first byte.
///
/// ```
/// use probe_patch::SiteAddr;
/// let site = SiteAddr(0x1003);
/// assert_eq!(site.word(), 0x1000);
/// assert!(site.is_patchable());
/// // One byte further on, the last of the five bytes lies in the next word.
/// assert!(!SiteAddr(0x1004).is_patchable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteAddr(pub usize);

impl fmt::Debug for SiteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for SiteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl SiteAddr {
    /// Returns the aligned 8-byte word that the site begins in.
    #[inline]
    pub const fn word(self) -> usize {
        self.0 & !7
    }

    /// Returns whether all five bytes lie in that word, so that one aligned write replaces them.
    #[inline]
    pub const fn is_patchable(self) -> bool {
        self.0 & 7 <= 8 - SITE_LEN
    }

    #[inline]
    const fn shift(self) -> usize {
        (self.0 & 7) * 8
    }
}

/// The distance of a JMP or CALL, from the end of its instruction.
///
/// ```
/// use probe_patch::{Rel32, SiteAddr};
/// let site = SiteAddr(0x1000);
/// assert_eq!(Rel32::between(site, 0x1005), Some(Rel32::NEXT));
/// assert_eq!(Rel32::between(site, 0x1_0000_0000), None); // 4 GiB away
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rel32(pub i32);

impl Rel32 {
    /// The distance to the next instruction.
    pub const NEXT: Self = Self(0);

    /// Returns the distance from `site` to `target`; `None` if it is more than 2 GiB.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "compared afterwards")]
    pub const fn between(site: SiteAddr, target: usize) -> Option<Self> {
        let distance = target.wrapping_sub(site.0.wrapping_add(SITE_LEN)).cast_signed();
        let short = distance as i32;
        if short as isize == distance { Some(Self(short)) } else { None }
    }
}

/// The eight bytes of an aligned word of text.
///
/// ```
/// use probe_patch::{Instruction, SiteAddr, TextWord};
/// let site = SiteAddr(0x1002);
/// let word = TextWord(u64::from_le_bytes([0x90; 8])).with_instruction(site, Instruction::NOP5);
/// assert_eq!(word.0.to_le_bytes(), [0x90, 0x90, 0x0f, 0x1f, 0x44, 0x00, 0x08, 0x90]);
/// assert_eq!(word.instruction(site), Instruction::NOP5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TextWord(pub u64);

impl fmt::Debug for TextWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.0.to_le_bytes())
    }
}

const SITE_MASK: u64 = (1 << (8 * SITE_LEN)) - 1;

impl TextWord {
    /// Returns the instruction at `site`, which must be patchable.
    #[inline]
    pub const fn instruction(self, site: SiteAddr) -> Instruction {
        Instruction(self.0 >> site.shift() & SITE_MASK)
    }

    /// Returns the word with another instruction at `site`, and its other bytes unchanged.
    #[inline]
    #[must_use]
    pub const fn with_instruction(self, site: SiteAddr, instruction: Instruction) -> Self {
        Self(self.0 & !(SITE_MASK << site.shift()) | instruction.0 << site.shift())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jump_distance_counts_from_the_end() {
        let site = SiteAddr(0x1000);
        let jmp = |target| Instruction::jmp(Rel32::between(site, target).unwrap()).bytes();
        assert_eq!(jmp(0x1005), [0xe9, 0, 0, 0, 0]);
        assert_eq!(jmp(0x1000), [0xe9, 0xfb, 0xff, 0xff, 0xff]);
        assert_eq!(jmp(0x1234_1005), [0xe9, 0, 0, 0x34, 0x12]);
        assert_eq!(
            Instruction::call(Rel32::between(site, 0xfff).unwrap()).bytes(),
            [0xe8, 0xfa, 0xff, 0xff, 0xff]
        );
        assert_eq!(Instruction::jmp(Rel32::NEXT).bytes(), [0xe9, 0, 0, 0, 0]);
    }

    #[test]
    fn reach_ends_at_two_gibibytes() {
        let site = SiteAddr(0x1_0000_0000);
        let next = site.0 + SITE_LEN;
        assert!(Rel32::between(site, next + 0x7fff_ffff).is_some());
        assert!(Rel32::between(site, next + 0x8000_0000).is_none());
        assert!(Rel32::between(site, next - 0x8000_0000).is_some());
        assert!(Rel32::between(site, next - 0x8000_0001).is_none());
    }

    proptest! {
        #[test]
        fn only_the_site_changes(word: u64, offset in 0_usize..=3, bytes: [u8; 5]) {
            let site = SiteAddr(0x4000 + offset);
            prop_assert!(site.is_patchable());
            let after = TextWord(word).with_instruction(site, Instruction::from_bytes(bytes));
            prop_assert_eq!(after.instruction(site).bytes(), bytes);
            for (at, (old, new)) in word.to_le_bytes().into_iter().zip(after.0.to_le_bytes()).enumerate() {
                if !(offset..offset + 5).contains(&at) {
                    prop_assert_eq!(old, new);
                }
            }
        }

        #[test]
        fn patchable_means_one_word(addr in 0_usize..1 << 47) {
            let site = SiteAddr(addr);
            prop_assert_eq!(site.is_patchable(), addr / 8 == (addr + 4) / 8);
        }
    }
}
