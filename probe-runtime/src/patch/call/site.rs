//! A call site: five bytes at any address, and the one or two aligned words that hold them. Pure.

use super::super::{Instruction, SITE_LEN, SiteAddr, TextWord};

/// How a site's five bytes lie in aligned 8-byte words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Split {
    /// In one word.
    None,
    /// 1|4: the opcode in one word, the distance in the next.
    Opcode,
    /// 2|3, 3|2 and 4|1: the first two bytes in one word, the last one in the next.
    Distance,
}

impl Split {
    #[inline(always)]
    pub(super) const fn of(site: SiteAddr) -> Self {
        match site.0 & 7 {
            0..=3 => Self::None,
            7 => Self::Opcode,
            _ => Self::Distance,
        }
    }
}

/// The word that a site begins in, and the next one, which is of no account if the site lies in the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Words {
    pub(super) first: TextWord,
    pub(super) second: TextWord,
}

const SITE_MASK: u128 = (1 << (8 * SITE_LEN)) - 1;

impl Words {
    #[inline(always)]
    const fn both(self) -> u128 {
        self.first.0 as u128 | (self.second.0 as u128) << 64
    }

    /// The five bytes at the site.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the site's five bytes are the lowest")]
    pub(super) const fn instruction(self, site: SiteAddr) -> Instruction {
        let [bytes @ .., _, _, _] = ((self.both() >> shift(site)) as u64).to_le_bytes();
        Instruction::from_bytes(bytes)
    }

    /// The words with other bytes at the site, and the same ones around it.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each word is a half")]
    pub(super) const fn with_instruction(self, site: SiteAddr, instruction: Instruction) -> Self {
        let [head @ .., last] = instruction.bytes();
        let new = u32::from_le_bytes(head) as u128 | (last as u128) << 32;
        let both = self.both() & !(SITE_MASK << shift(site)) | new << shift(site);
        Self { first: TextWord(both as u64), second: TextWord((both >> 64) as u64) }
    }
}

#[inline(always)]
const fn shift(site: SiteAddr) -> usize {
    (site.0 & 7) * 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_split_is_where_the_next_word_begins() {
        use Split::{Distance, None, Opcode};
        let splits: Vec<_> = (0x1000..0x1008).map(|addr| Split::of(SiteAddr(addr))).collect();
        assert_eq!(splits, [None, None, None, None, Distance, Distance, Distance, Opcode]);
    }

    proptest! {
        #[test]
        fn only_the_site_changes(first: u64, second: u64, offset in 0_usize..8, new: [u8; 5]) {
            let site = SiteAddr(0x4000 + offset);
            let words = Words { first: TextWord(first), second: TextWord(second) };
            let bytes = |words: Words| [words.first.0.to_le_bytes(), words.second.0.to_le_bytes()].concat();
            let after = words.with_instruction(site, Instruction::from_bytes(new));
            prop_assert_eq!(after.instruction(site).bytes(), new);
            let mut expected = bytes(words);
            prop_assert_eq!(&expected[offset..offset + 5], &words.instruction(site).bytes());
            expected[offset..offset + 5].copy_from_slice(&new);
            prop_assert_eq!(bytes(after), expected);
        }
    }
}
