//! A call site: five bytes at any address, and the one or two aligned words that hold them. Pure.

use std::fmt;
use std::ops::Range;

use crate::arch::{SITE_LEN, SiteAddr, TextWord};
use crate::bytes::Bytes;

/// Returns the addresses of a site's bytes.
pub(crate) fn site_range(site: SiteAddr) -> Range<usize> {
    site.0..site.0.saturating_add(SITE_LEN)
}

/// How a site's five bytes lie in aligned 8-byte words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Split {
    /// In one word.
    None,
    /// 1|4: the opcode in one word, the distance in the next.
    Opcode,
    /// 2|3, 3|2 and 4|1: the first two bytes in one word, the last one in the next.
    Distance,
}

impl Split {
    #[inline(always)]
    pub(crate) const fn of(site: SiteAddr) -> Self {
        match site.0 & 7 {
            0..=3 => Self::None,
            7 => Self::Opcode,
            _ => Self::Distance,
        }
    }
}

/// The word that a site begins in, and the next one, whose value does not matter if the site lies
/// in the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Words {
    pub(crate) first: TextWord,
    pub(crate) second: TextWord,
}

const SITE_MASK: u128 = (1 << (8 * SITE_LEN)) - 1;

impl Words {
    /// Reads a site's words by `read`. It reads the second one only if the site continues in it,
    /// since that word might not be mapped.
    #[inline(always)]
    pub(crate) fn read(site: SiteAddr, read: impl Fn(usize) -> TextWord) -> Self {
        let first = read(site.word());
        let second = match Split::of(site) {
            Split::None => TextWord(0),
            Split::Opcode | Split::Distance => read(site.word().wrapping_add(8)),
        };
        Self { first, second }
    }

    /// Returns the instruction at a site.
    pub(crate) fn instruction(self, site: SiteAddr) -> Bytes {
        self.five(site).bytes().into()
    }

    #[inline(always)]
    const fn both(self) -> u128 {
        self.first.0 as u128 | (self.second.0 as u128) << 64
    }

    #[inline(always)]
    pub(crate) const fn five(self, site: SiteAddr) -> Five {
        Five((self.both() >> shift(site) & SITE_MASK) as u64)
    }

    /// Returns the words with other bytes at the site, and the same bytes around it.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each word is a half")]
    pub(crate) const fn with_five(self, site: SiteAddr, five: Five) -> Self {
        let both = self.both() & !(SITE_MASK << shift(site)) | (five.0 as u128) << shift(site);
        Self { first: TextWord(both as u64), second: TextWord((both >> 64) as u64) }
    }
}

/// The bytes of a site as a number, the first in the lowest place. They stay in registers: passing
/// them through memory would cost more than all the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Five(u64);

impl Five {
    pub(crate) const fn new(bytes: [u8; SITE_LEN]) -> Self {
        let [head @ .., last] = bytes;
        Self(u32::from_le_bytes(head) as u64 | (last as u64) << 32)
    }

    /// Returns a CALL or JMP.
    #[inline(always)]
    pub(crate) const fn branch(opcode: u8, distance: i32) -> Self {
        Self(opcode as u64 | (distance.cast_unsigned() as u64) << 8)
    }

    pub(crate) const fn bytes(self) -> [u8; SITE_LEN] {
        let [bytes @ .., _, _, _] = self.0.to_le_bytes();
        bytes
    }

    #[inline(always)]
    pub(crate) const fn opcode(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Returns the distance of a CALL or JMP, from its end to its target.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "four bytes, above which there is nothing")]
    pub(crate) const fn distance(self) -> i32 {
        ((self.0 >> 8) as u32).cast_signed()
    }

    /// Returns the first two bytes, the first in the lowest place.
    #[inline(always)]
    pub(crate) const fn head(self) -> u64 {
        self.0 & 0xffff
    }

    /// Returns the last three bytes, the first in the lowest place.
    #[inline(always)]
    pub(crate) const fn tail(self) -> u64 {
        self.0 >> 16
    }

    /// Returns the same last three bytes after other first ones.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn with_head(self, head: u64) -> Self {
        Self(self.0 & !0xffff | head)
    }
}

impl fmt::Debug for Five {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.bytes())
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

    #[test]
    fn a_number_is_its_bytes() {
        let call = Five::branch(0xe8, -2);
        assert_eq!(call.bytes(), [0xe8, 0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(call, Five::new(call.bytes()));
        assert_eq!((call.opcode(), call.distance()), (0xe8, -2));
        assert_eq!((call.head(), call.tail()), (0xfee8, 0xff_ffff));
        assert_eq!(call.with_head(0x03eb).bytes(), [0xeb, 0x03, 0xff, 0xff, 0xff]);
        assert_eq!(format!("{call:?}"), "[e8, fe, ff, ff, ff]");
    }

    proptest! {
        #[test]
        fn only_the_site_changes(first: u64, second: u64, offset in 0_usize..8, new: [u8; 5]) {
            let site = SiteAddr(0x4000 + offset);
            let words = Words { first: TextWord(first), second: TextWord(second) };
            let bytes = |words: Words| [words.first.0.to_le_bytes(), words.second.0.to_le_bytes()].concat();
            let after = words.with_five(site, Five::new(new));
            prop_assert_eq!(after.five(site).bytes(), new);
            let mut expected = bytes(words);
            prop_assert_eq!(&expected[offset..offset + 5], &words.five(site).bytes());
            expected[offset..offset + 5].copy_from_slice(&new);
            prop_assert_eq!(bytes(after), expected);
        }
    }
}
