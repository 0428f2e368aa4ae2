//! What to write at a call site. Pure: it is handed the words, and touches nothing.

use super::super::{Instruction, PatchError, Rel32, SiteAddr, TextWord};
use super::site::{Split, Words};

/// What an active site is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opcode {
    Call = 0xe8,
    Jump = 0xe9,
}

/// What a site is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    Active(Opcode, usize),
    Latent,
}

/// What a plan asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The site is as wanted.
    Unchanged,
    /// Replace the aligned word at `addr`, if it is `expected`, by `new`.
    Write { addr: usize, expected: TextWord, new: TextWord },
    /// There is no trampoline within reach of the site: provide one, and plan again.
    Provide,
}

/// The lone `ret`s that deactivated calls may lead to.
pub(super) trait Trampolines {
    /// Whether this is the address of one.
    fn has(&self, addr: usize) -> bool;
    /// One that a call at `site` reaches.
    fn near(&self, site: SiteAddr) -> Option<usize>;
}

const CALL: u8 = Opcode::Call as u8;
const JUMP: u8 = Opcode::Jump as u8;
/// `jmp short`, over the three bytes that follow it.
const SKIP: [u8; 2] = [0xeb, 3];
/// The NOP of five bytes that compilers and linkers write.
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Plans one site.
///
/// `x` is the opcode asked for, `t` its target; `x'` the other opcode, `t'` any other target, `ret` a trampoline. *Tail* is
/// the last three bytes of five.
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
/// Those, and [`PatchError::OutOfReach`] for a target that is more than 2 GiB away.
#[inline(always)]
pub(super) fn plan(
    site: SiteAddr,
    words: Words,
    wanted: Wanted,
    trampolines: &impl Trampolines,
) -> Result<Step, PatchError> {
    let found = words.instruction(site).bytes();
    let [opcode, low, tail @ ..] = found;
    let is_active = matches!(opcode, CALL | JUMP);
    let split = Split::of(site);
    let recognised = match split {
        Split::None => is_active || is_nop(found),
        Split::Opcode => is_active,
        Split::Distance => is_active || [opcode, low] == SKIP,
    };
    if !recognised {
        return Err(not_a_call(site, found));
    }
    let new = match (wanted, split) {
        (Wanted::Active(wanted, target), _) => {
            let new = instruction(wanted, site, target)?;
            match split {
                Split::Opcode if new[0] != opcode => return Err(other_opcode(site, new[0], opcode)),
                Split::Distance if new[2..] != tail => return Err(other_tail(site, target, new, tail)),
                _ => new,
            }
        }
        (Wanted::Latent, Split::None) if is_active => Instruction::NOP5.bytes(),
        (Wanted::Latent, Split::None) => found,
        (Wanted::Latent, Split::Distance) => [SKIP[0], SKIP[1], found[2], found[3], found[4]],
        (Wanted::Latent, Split::Opcode) if opcode == JUMP => [JUMP, 0, 0, 0, 0],
        (Wanted::Latent, Split::Opcode) if trampolines.has(target(site, found)) => found,
        (Wanted::Latent, Split::Opcode) => match trampolines.near(site) {
            Some(ret) => instruction(Opcode::Call, site, ret)?,
            None => return Ok(Step::Provide),
        },
    };
    Ok(if new == found { Step::Unchanged } else { write(site, split, words, new) })
}

/// The write of the one word that changes.
#[inline(always)]
fn write(site: SiteAddr, split: Split, words: Words, new: [u8; 5]) -> Step {
    let after = words.with_instruction(site, Instruction::from_bytes(new));
    match split {
        Split::None | Split::Distance => {
            Step::Write { addr: site.word(), expected: words.first, new: after.first }
        }
        Split::Opcode => {
            Step::Write { addr: site.word().wrapping_add(8), expected: words.second, new: after.second }
        }
    }
}

#[inline(always)]
fn instruction(opcode: Opcode, site: SiteAddr, target: usize) -> Result<[u8; 5], PatchError> {
    match Rel32::between(site, target) {
        Some(rel) => {
            let mut bytes = Instruction::jmp(rel).bytes();
            bytes[0] = opcode as u8;
            Ok(bytes)
        }
        None => Err(out_of_reach(site, target)),
    }
}

/// Where a CALL or JMP leads.
#[inline(always)]
fn target(site: SiteAddr, [_, distance @ ..]: [u8; 5]) -> usize {
    let distance = i32::from_le_bytes(distance);
    site.0.wrapping_add(5).wrapping_add_signed(distance as isize)
}

#[inline(always)]
fn is_nop(found: [u8; 5]) -> bool {
    found == Instruction::NOP5.bytes() || found == NOP5
}

#[cold]
fn not_a_call(site: SiteAddr, found: [u8; 5]) -> PatchError {
    PatchError::NotACall { addr: site.0, found: found.into() }
}

#[cold]
fn other_opcode(site: SiteAddr, expected: u8, found: u8) -> PatchError {
    PatchError::Opcode { addr: site.0, expected, found }
}

#[cold]
fn other_tail(site: SiteAddr, target: usize, [_, _, expected @ ..]: [u8; 5], found: [u8; 3]) -> PatchError {
    PatchError::Tail { addr: site.0, target, expected: expected.into(), found: found.into() }
}

#[cold]
fn out_of_reach(site: SiteAddr, target: usize) -> PatchError {
    PatchError::OutOfReach { addr: site.0, target }
}
