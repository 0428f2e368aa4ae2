//! A call site: five bytes at any address, and the one or two aligned words that hold them. Plans
//! the write that switches it. Pure: it gets the words as values, and touches no text.

use std::ops::Range;

use super::instruction::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
use crate::engine::error::PatchError;

#[cfg(all(test, not(loom)))]
mod model;

/// Returns whether a CALL at a site reaches an address.
#[inline]
pub(crate) fn reaches(site: SiteAddr, addr: usize) -> bool {
    Rel32::between(site, addr).is_some()
}

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

    #[inline(always)]
    const fn both(self) -> u128 {
        self.first.0 as u128 | (self.second.0 as u128) << 64
    }

    /// Returns the instruction at the site.
    #[inline(always)]
    pub(crate) const fn instruction(self, site: SiteAddr) -> Instruction {
        Instruction((self.both() >> shift(site) & SITE_MASK) as u64)
    }

    /// Returns the words with another instruction at the site, and the same bytes around it.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each word is a half")]
    const fn with_instruction(self, site: SiteAddr, new: Instruction) -> Self {
        let both = self.both() & !(SITE_MASK << shift(site)) | (new.0 as u128) << shift(site);
        Self { first: TextWord(both as u64), second: TextWord((both >> 64) as u64) }
    }
}

// The bytes stay in a register: passing them through memory would cost more than all the rest.
impl Instruction {
    #[inline(always)]
    const fn opcode(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Returns the first two bytes, the first in the lowest place.
    #[inline(always)]
    const fn head(self) -> u64 {
        self.0 & 0xffff
    }

    /// Returns the last three bytes, the first in the lowest place.
    #[inline(always)]
    const fn tail(self) -> u64 {
        self.0 >> 16
    }

    /// Returns the same last three bytes after other first ones.
    #[inline(always)]
    #[must_use]
    const fn with_head(self, head: u64) -> Self {
        Self(self.0 & !0xffff | head)
    }
}

#[inline(always)]
const fn shift(site: SiteAddr) -> usize {
    (site.0 & 7) * 8
}

/// The instruction of an active site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opcode {
    Call = 0xe8,
    Jump = 0xe9,
}

/// The wanted state of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Active(Opcode, usize),
    Latent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallPlan {
    /// The site is as wanted.
    Unchanged,
    /// Replace the aligned word at `addr`, if it is `expected`, by `new`.
    Write { addr: usize, expected: TextWord, new: TextWord },
    /// There is no trampoline within reach of the site: provide one, and plan again.
    Provide,
}

/// The lone `ret`s that deactivated calls may call.
pub(crate) trait Trampolines {
    /// Returns whether a lone `ret` is at this address.
    fn has(&self, addr: usize) -> bool;
    /// Returns a `ret` that a CALL at `site` reaches.
    fn near(&self, site: SiteAddr) -> Option<usize>;
}

const CALL: u8 = Opcode::Call as u8;
const JUMP: u8 = Opcode::Jump as u8;
/// `jmp short`, over the three bytes that follow it: `eb 03`.
const SKIP: u64 = 0x03eb;
/// The NOP of five bytes that compilers and linkers write.
const COMPILERS_NOP5: Instruction = Instruction::from_bytes([0x0f, 0x1f, 0x44, 0x00, 0x00]);

/// Plans one site.
///
/// `x` is the opcode asked for, `t` its target; `x'` the other opcode, `t'` any other target, `ret`
/// a trampoline. *Tail* is the last three bytes of five.
///
/// | split | found | activate `x t` | deactivate |
/// |---|---|---|---|
/// | none | `x t` | unchanged | NOP5 |
/// | none | `x t'`, `x' t`, `x' t'` | `x t` | NOP5 |
/// | none | NOP5, ours or a compiler's | `x t` | unchanged |
/// | 1\|4 | `x t` | unchanged | CALL `ret`, JMP +0 |
/// | 1\|4 | `x t'` | `x t` | CALL `ret`, JMP +0 |
/// | 1\|4 | CALL `ret`, JMP +0, opcode `x` | `x t` | unchanged |
/// | 1\|4 | opcode `x'`, latent or not | [`PatchError::Opcode`] | as for `x` |
/// | 2\|3, 3\|2, 4\|1 | `x t` | unchanged | `eb 03`, tail as it is |
/// | 2\|3, 3\|2, 4\|1 | `x t'`, `x' t`, `x' t'` with the tail of `t` | `x t` | `eb 03`, tail as it is |
/// | 2\|3, 3\|2, 4\|1 | `x t'`, `x' t'` with another tail | [`PatchError::Tail`] | `eb 03`, tail as it is |
/// | 2\|3, 3\|2, 4\|1 | `eb 03`, the tail of `t` | `x t` | unchanged |
/// | 2\|3, 3\|2, 4\|1 | `eb 03`, another tail | [`PatchError::Tail`] | unchanged |
/// | any | anything else | [`PatchError::NotACall`] | [`PatchError::NotACall`] |
///
/// # Errors
/// The errors in the table, and [`PatchError::OutOfReach`] for a target that is more than 2 GiB
/// away.
#[inline(always)]
pub(crate) fn call_plan(
    site: SiteAddr,
    words: Words,
    wanted: Wanted,
    trampolines: &impl Trampolines,
) -> Result<CallPlan, PatchError> {
    let found = words.instruction(site);
    let opcode = found.opcode();
    let is_active = matches!(opcode, CALL | JUMP);
    let split = Split::of(site);
    let recognised = match split {
        Split::None => is_active || found == Instruction::NOP5 || found == COMPILERS_NOP5,
        Split::Opcode => is_active,
        Split::Distance => is_active || found.head() == SKIP,
    };
    if !recognised {
        return Err(not_a_call(site, found));
    }
    let new = match (wanted, split) {
        (Wanted::Active(wanted, target), _) => {
            let new = branch(wanted, site, target)?;
            match split {
                Split::Opcode if new.opcode() != opcode => return Err(other_opcode(site, new, found)),
                Split::Distance if new.tail() != found.tail() => {
                    return Err(other_tail(site, target, new, found));
                }
                _ => new,
            }
        }
        (Wanted::Latent, Split::None) if is_active => Instruction::NOP5,
        (Wanted::Latent, Split::None) => found,
        (Wanted::Latent, Split::Distance) => found.with_head(SKIP),
        (Wanted::Latent, Split::Opcode) if opcode == JUMP => Instruction::jmp(Rel32::NEXT),
        (Wanted::Latent, Split::Opcode) if trampolines.has(target(site, found)) => found,
        (Wanted::Latent, Split::Opcode) => match trampolines.near(site) {
            Some(ret) => branch(Opcode::Call, site, ret)?,
            None => return Ok(CallPlan::Provide),
        },
    };
    Ok(if new == found { CallPlan::Unchanged } else { write(site, split, words, new) })
}

#[inline(always)]
fn write(site: SiteAddr, split: Split, words: Words, new: Instruction) -> CallPlan {
    let after = words.with_instruction(site, new);
    match split {
        Split::None | Split::Distance => {
            CallPlan::Write { addr: site.word(), expected: words.first, new: after.first }
        }
        Split::Opcode => {
            CallPlan::Write { addr: site.word().wrapping_add(8), expected: words.second, new: after.second }
        }
    }
}

#[inline(always)]
fn branch(opcode: Opcode, site: SiteAddr, target: usize) -> Result<Instruction, PatchError> {
    match Rel32::between(site, target) {
        Some(rel) => Ok(Instruction::branch(rel, opcode == Opcode::Call)),
        None => Err(out_of_reach(site, target)),
    }
}

/// Returns the target of a CALL or JMP.
#[inline(always)]
fn target(site: SiteAddr, found: Instruction) -> usize {
    site.0.wrapping_add(SITE_LEN).wrapping_add_signed(found.rel().0 as isize)
}

#[cold]
fn not_a_call(site: SiteAddr, found: Instruction) -> PatchError {
    PatchError::NotACall { addr: site.0, found: found.bytes().into() }
}

#[cold]
fn other_opcode(site: SiteAddr, expected: Instruction, found: Instruction) -> PatchError {
    PatchError::Opcode { addr: site.0, expected: expected.opcode(), found: found.opcode() }
}

#[cold]
fn other_tail(site: SiteAddr, target: usize, expected: Instruction, found: Instruction) -> PatchError {
    let ([_, _, expected @ ..], [_, _, found @ ..]) = (expected.bytes(), found.bytes());
    PatchError::Tail { addr: site.0, target, expected: expected.into(), found: found.into() }
}

#[cold]
fn out_of_reach(site: SiteAddr, target: usize) -> PatchError {
    PatchError::OutOfReach { addr: site.0, target }
}

#[cfg(test)]
mod tests {
    mod truth_table;

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
        let call = Instruction::branch(Rel32(-2), true);
        assert_eq!(call.bytes(), [0xe8, 0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(call, Instruction::from_bytes(call.bytes()));
        assert_eq!((call.opcode(), call.rel()), (0xe8, Rel32(-2)));
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
            let after = words.with_instruction(site, Instruction::from_bytes(new));
            prop_assert_eq!(after.instruction(site).bytes(), new);
            let mut expected = bytes(words);
            prop_assert_eq!(&expected[offset..offset + 5], &words.instruction(site).bytes());
            expected[offset..offset + 5].copy_from_slice(&new);
            prop_assert_eq!(bytes(after), expected);
        }
    }
}
