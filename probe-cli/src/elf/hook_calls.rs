//! Calls of the hooks of `-finstrument-functions` in a file's code, and where they lead.
//!
//! ```text
//! relocations, symbols ▸ words and functions that are the hooks ▸ entries of linkage tables that
//! jump through these words ▸ calls and jumps to any of them
//! ```
//! The search tells an instruction by its first bytes and its target, without decoding the code
//! before it.

use std::fmt;
use std::ops::Range;

use super::dynamic::Dynamic;
use super::functions::named;
use super::image::{Image, ObjectType, Problem};
use super::notes::Runtime;
use crate::text::count;

/// The hooks.
const HOOKS: [&str; 2] = ["__cyg_profile_func_enter", "__cyg_profile_func_exit"];

/// Bytes of code that are read at once.
const CHUNK: u64 = 1 << 20;

/// The calls of hooks in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HookCalls {
    /// How many there are, jumps included.
    pub calls: u64,
    /// The hooks that they lead to.
    pub hooks: Hooks,
}

/// The hooks that a file's calls lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hooks {
    /// Those of another object, which an agent can replace.
    Others,
    /// Those of another object, in a program of another C library than glibc.
    OtherLibrary,
    /// The file's own.
    Own,
    /// The file's own, in a program that is linked statically.
    Static,
    /// The runtime's, which the file has.
    Runtime,
}

impl fmt::Display for HookCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the hooks of -finstrument-functions; ", count(self.calls, "call"))?;
        f.write_str(match self.hooks {
            Hooks::Others => "`probectl run` or `attach` makes them probes",
            Hooks::OtherLibrary => {
                "its C library is not glibc, which the agent needs, so they can't become probes"
            }
            Hooks::Own => "it has hooks of its own, which get these calls, so they can't become probes",
            Hooks::Static => {
                "it is linked statically, so no agent can be loaded, and they can't become probes"
            }
            Hooks::Runtime => "its own runtime makes them probes while it runs",
        })
    }
}

impl HookCalls {
    /// Counts a file's calls; `None` if there are none.
    ///
    /// # Errors
    /// The system's.
    pub fn of(image: &Image) -> Result<Option<Self>, Problem> {
        let dynamic = Dynamic::read(image, 0)?;
        let words =
            HOOKS.map(|name| dynamic.import_words(name)).into_iter().collect::<Result<Vec<_>, _>>()?;
        let words = words.concat();
        let mut code = Vec::new();
        for name in HOOKS {
            let own = if words.is_empty() { named(image, name)? } else { None };
            code.extend(dynamic.function(name)?.map(|(addr, _)| addr).or(own));
        }
        if words.is_empty() && code.is_empty() {
            return Ok(None);
        }
        let hooks = if code.is_empty() {
            let interpreter = image.interpreter()?;
            let is_other = interpreter.is_some_and(|it| !it.to_string_lossy().contains("ld-linux"));
            if is_other { Hooks::OtherLibrary } else { Hooks::Others }
        } else if Runtime::of(image)?.is_some() {
            Hooks::Runtime
        } else if image.object_type() == ObjectType::Executable && image.dynamic.is_none() {
            Hooks::Static
        } else {
            // An executable for any address that needs no loader is static, too.
            let is_alone = image.interpreter()?.is_none() && !dynamic.needs_others();
            if is_alone { Hooks::Static } else { Hooks::Own }
        };
        // Entries of linkage tables, and jumps of functions (`-fno-plt`).
        let mut jumps = Vec::new();
        each_reference(image, &words, &mut |reference| {
            if let [_, 0xff, 0x25] = reference.opcode {
                jumps.push(reference.at - 2);
            }
        })?;
        // An entry may begin with an `endbr64`, and its jump with a prefix.
        code.extend(jumps.iter().flat_map(|at| [0, 1, 4, 5].map(|before| at.saturating_sub(before))));
        let mut calls = 0;
        let mut entries = Vec::new();
        each_reference(image, &code, &mut |reference| match reference.opcode {
            [_, _, 0xe8 | 0xe9] | [_, 0x0f, 0x80..=0x8f] => {
                calls += 1;
                entries.push(reference.target);
            }
            _ => (),
        })?;
        each_reference(image, &words, &mut |reference| match reference.opcode {
            [_, 0xff, 0x15] => calls += 1,
            [_, 0xff, 0x25] => {
                let jump = reference.at - 2;
                let is_entry = entries.iter().any(|entry| (*entry..=*entry + 5).contains(&jump));
                // The linker aligns entries that nothing calls, too.
                calls += u64::from(!is_entry && jump % 16 > 5);
            }
            _ => (),
        })?;
        Ok((calls != 0).then_some(Self { calls, hooks }))
    }
}

/// A distance of four bytes in code, relative to its end.
struct Reference {
    at: u64,
    /// The three bytes before.
    opcode: [u8; 3],
    target: u64,
}

/// Calls `found` for each distance in code that leads to one of these addresses.
fn each_reference(image: &Image, targets: &[u64], found: &mut impl FnMut(Reference)) -> Result<(), Problem> {
    let mut targets = targets.to_vec();
    targets.sort_unstable();
    targets.dedup();
    let (Some(first), Some(last)) = (targets.first().copied(), targets.last().copied()) else {
        return Ok(());
    };
    let mut code = Vec::new();
    for Range { start, end } in image.code_ranges() {
        let mut at = start;
        while at < end {
            // An instruction may begin in one chunk and end in the next.
            let until = end.min(at.saturating_add(CHUNK));
            let Ok(len) = usize::try_from(until - at) else { break };
            if !image.read_into(at, len, &mut code)? {
                break;
            }
            for (offset, bytes) in (at..).zip(code.windows(7)) {
                let [a, b, c, distance @ ..] = bytes else { continue };
                let Ok(distance) = <[u8; 4]>::try_from(distance).map(i32::from_le_bytes) else { continue };
                let target = offset.wrapping_add(7).wrapping_add_signed(distance.into());
                if (first..=last).contains(&target) && targets.binary_search(&target).is_ok() {
                    found(Reference { at: offset + 3, opcode: [*a, *b, *c], target });
                }
            }
            at = if until == end { end } else { until - 6 };
        }
    }
    Ok(())
}
