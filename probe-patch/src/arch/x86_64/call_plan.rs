//! Plans the write at a call site. Pure: it gets the words as values, and touches no text.

use super::call_site::{Five, Split, Words};
use crate::arch::{Instruction, SITE_LEN, SiteAddr, TextWord};
use crate::error::PatchError;

#[cfg(all(test, not(loom)))]
mod model;
#[cfg(test)]
mod truth_table;

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
/// The NOP of a latent site.
const NOP5: Five = Five::new(Instruction::NOP5.bytes());
/// The NOP of five bytes that compilers and linkers write.
const COMPILERS_NOP5: Five = Five::new([0x0f, 0x1f, 0x44, 0x00, 0x00]);

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
    let found = words.five(site);
    let opcode = found.opcode();
    let is_active = matches!(opcode, CALL | JUMP);
    let split = Split::of(site);
    let recognised = match split {
        Split::None => is_active || found == NOP5 || found == COMPILERS_NOP5,
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
        (Wanted::Latent, Split::None) if is_active => NOP5,
        (Wanted::Latent, Split::None) => found,
        (Wanted::Latent, Split::Distance) => found.with_head(SKIP),
        (Wanted::Latent, Split::Opcode) if opcode == JUMP => Five::branch(JUMP, 0),
        (Wanted::Latent, Split::Opcode) if trampolines.has(target(site, found)) => found,
        (Wanted::Latent, Split::Opcode) => match trampolines.near(site) {
            Some(ret) => branch(Opcode::Call, site, ret)?,
            None => return Ok(CallPlan::Provide),
        },
    };
    Ok(if new == found { CallPlan::Unchanged } else { write(site, split, words, new) })
}

#[inline(always)]
fn write(site: SiteAddr, split: Split, words: Words, new: Five) -> CallPlan {
    let after = words.with_five(site, new);
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
fn branch(opcode: Opcode, site: SiteAddr, target: usize) -> Result<Five, PatchError> {
    let distance = target.wrapping_sub(site.0.wrapping_add(SITE_LEN)).cast_signed();
    match i32::try_from(distance) {
        Ok(distance) => Ok(Five::branch(opcode as u8, distance)),
        Err(_) => Err(out_of_reach(site, target)),
    }
}

/// Returns the target of a CALL or JMP.
#[inline(always)]
fn target(site: SiteAddr, found: Five) -> usize {
    site.0.wrapping_add(SITE_LEN).wrapping_add_signed(found.distance() as isize)
}

#[cold]
fn not_a_call(site: SiteAddr, found: Five) -> PatchError {
    PatchError::NotACall { addr: site.0, found: found.bytes().into() }
}

#[cold]
fn other_opcode(site: SiteAddr, expected: Five, found: Five) -> PatchError {
    PatchError::Opcode { addr: site.0, expected: expected.opcode(), found: found.opcode() }
}

#[cold]
fn other_tail(site: SiteAddr, target: usize, expected: Five, found: Five) -> PatchError {
    let ([_, _, expected @ ..], [_, _, found @ ..]) = (expected.bytes(), found.bytes());
    PatchError::Tail { addr: site.0, target, expected: expected.into(), found: found.into() }
}

#[cold]
fn out_of_reach(site: SiteAddr, target: usize) -> PatchError {
    PatchError::OutOfReach { addr: site.0, target }
}
