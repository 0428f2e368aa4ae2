//! Calls of the hooks of `-finstrument-functions` in a file's code, and where they lead.
//!
//! ```text
//! relocations, symbols ▸ words and functions that are the hooks ▸ entries of linkage tables that
//! jump through these words ▸ references to any of them ▸ the functions around those, decoded
//! ```
//! `probe_hooks` has what the runtime does, too: it looks for the same calls in a running program.
//!
//! Memory: some parts of the text and one function at a time, the extents of all functions, and the
//! calls that were found.

use std::ops::Range;

use probe_core::Kind;
use probe_hooks::{
    Extents, Form, HookTargets, HookUse, Jump, ObjectFile, RegisterValue, Target, hook_uses, jumps,
    tell_apart,
};

use super::dynamic::{Dynamic, Pointer, Pointers};
use super::functions::named;
use super::image::{Image, ObjectType, Problem};
use super::notes::Runtime;
use super::pages::usize_of;

/// The hooks.
const HOOKS: [(&str, Kind); 2] =
    [("__cyg_profile_func_enter", Kind::Entry), ("__cyg_profile_func_exit", Kind::Exit)];

/// Bytes of code that are read at once.
const PART_LEN: u64 = 1 << 20;
/// Bytes that two parts share: more than an instruction and than an entry of a linkage table.
const OVERLAP_LEN: u64 = 32;

/// The calls of hooks in a file.
pub struct HookCalls<'a> {
    /// The hooks that they lead to.
    pub hooks: Hooks,
    /// Whether one function is both hooks, so that the order of calls tells entries from exits.
    pub are_one: bool,
    /// The calls and jumps, those of one function together. Addresses are the file's.
    pub functions: Vec<Vec<HookUse>>,
    /// Jumps to hooks that tell their function for sure.
    pub tail_jumps: Vec<TailJump>,
    /// How many places may lead to a hook, in code whose functions are not known or not understood.
    pub unclear: u64,
    pointers: Pointers<'a>,
}

/// A jump to a hook.
pub struct TailJump {
    /// Which hook.
    pub kind: Kind,
    /// The jump.
    pub jump: Jump,
    /// The beginnings of the code that it is in.
    pub starts: Vec<u64>,
}

/// The fate of those that an agent reaches.
const BY_AGENT: &str = "`probectl run` or `attach` makes them probes";

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

impl Hooks {
    /// Returns what makes probes of the calls.
    pub const fn fate(self) -> &'static str {
        match self {
            Hooks::Others => BY_AGENT,
            Hooks::OtherLibrary => {
                "its C library is not glibc, which the agent needs; `probectl count --ptrace` counts them, and \
                 `coldpatch` makes them NOPs before"
            }
            Hooks::Own => {
                "it has hooks of its own, which get these calls; `probectl count --ptrace` counts them, and \
                 `coldpatch` makes them probes instead"
            }
            Hooks::Static => {
                "it is linked statically, so no agent can be loaded; `probectl count --ptrace` counts them, and \
                 `coldpatch` makes them NOPs before"
            }
            Hooks::Runtime => "its own runtime makes them probes while it runs",
        }
    }

    /// Returns what makes probes of the sleds of a file whose [hosts](Self::of_host) these are.
    pub const fn fate_of_sleds(self) -> &'static str {
        match self {
            Hooks::Others | Hooks::Own | Hooks::Runtime => BY_AGENT,
            Hooks::OtherLibrary => {
                "its C library is not glibc, which the agent needs, so they can't become probes"
            }
            Hooks::Static => {
                "it is linked statically, so no agent can be loaded, and they can't become probes"
            }
        }
    }

    /// Returns the ways to the hooks in a file, and whose hooks they are; `None` if it has none.
    ///
    /// # Errors
    /// The system's.
    pub fn of(image: &Image) -> Result<Option<Self>, Problem> {
        Ok(targets(image, &Dynamic::read(image, 0)?)?.map(|(hooks, _)| hooks))
    }

    /// Returns whose hooks a file would reach that has none: an agent's, if it can have one.
    ///
    /// # Errors
    /// The system's.
    pub fn of_host(image: &Image) -> Result<Self, Problem> {
        if is_static(image, &Dynamic::read(image, 0)?)? { Ok(Self::Static) } else { library(image) }
    }
}

/// Returns whether the hooks are those of an agent, by the file's C library.
fn library(image: &Image) -> Result<Hooks, Problem> {
    let interpreter = image.interpreter()?;
    let is_other = interpreter.is_some_and(|it| !it.to_string_lossy().contains("ld-linux"));
    Ok(if is_other { Hooks::OtherLibrary } else { Hooks::Others })
}

fn is_static(image: &Image, dynamic: &Dynamic<'_>) -> Result<bool, Problem> {
    let is_fixed = image.object_type() == ObjectType::Executable && image.dynamic.is_none();
    // An executable for any address that needs no loader is static, too.
    Ok(is_fixed || image.interpreter()?.is_none() && !dynamic.needs_others() && image.has_entry())
}

/// Returns whose hooks a file's code reaches, and by which words and functions.
fn targets(image: &Image, dynamic: &Dynamic<'_>) -> Result<Option<(Hooks, HookTargets)>, Problem> {
    let (mut words, mut own) = (Vec::new(), Vec::new());
    for (name, kind) in HOOKS {
        let mut of_name = dynamic.words(name, false)?;
        let addr = if of_name.is_empty() { named(image, name)? } else { None };
        let addr = dynamic.function(name)?.map(|(addr, _)| addr).or(addr);
        if addr.is_some() {
            of_name.extend(dynamic.words(name, true)?);
        }
        words.extend(of_name.into_iter().map(|addr| (usize_of(addr), kind)));
        own.extend(addr.map(|addr| (usize_of(addr), kind)));
    }
    if words.is_empty() && own.is_empty() {
        return Ok(None);
    }
    let hooks = if own.is_empty() {
        library(image)?
    } else if Runtime::of(image)?.is_some() {
        Hooks::Runtime
    } else if is_static(image, dynamic)? {
        Hooks::Static
    } else {
        Hooks::Own
    };
    Ok(Some((hooks, HookTargets::new(words, own))))
}

impl<'a> HookCalls<'a> {
    /// Finds a file's calls; `None` if there are none. `object` is the same file, with the symbols
    /// that it may have elsewhere.
    ///
    /// # Errors
    /// The system's.
    pub fn of(image: &'a Image, object: &ObjectFile) -> Result<Option<Self>, Problem> {
        let dynamic = Dynamic::read(image, 0)?;
        let Some((hooks, mut targets)) = targets(image, &dynamic)? else { return Ok(None) };
        each_part(image, &mut |code, base| targets.add_entries(code, base))?;
        let mut found = Vec::new();
        each_part(image, &mut |code, base| found.extend(targets.references(code, base)))?;
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return Ok(None);
        }
        let (mut functions, mut tail_jumps, mut clear) = (Vec::new(), Vec::new(), Vec::new());
        let are_whole = object.extents().is_some_and(Extents::are_whole);
        let around = object.extents().into_iter().flat_map(|it| it.around(found.iter().map(|at| *at as u64)));
        for fragments in around {
            let Some(mut uses) = hook_uses(&fragments, |target| targets.hook(target)) else { continue };
            clear.extend(fragments.iter().map(|it| it.addr..it.addr + it.code.len()));
            // An entry of a linkage table tells nothing.
            uses.retain(|it| !(it.functions.is_empty() && targets.hook(Target::Direct(it.at)).is_some()));
            if uses.is_empty() {
                continue;
            }
            if targets.are_one() {
                tell_apart(&fragments, &mut uses);
            }
            if are_whole && uses.iter().any(|it| it.form == Form::Jump) {
                let starts: Vec<_> = fragments.iter().map(|it| it.addr as u64).collect();
                tail_jumps.extend(jumps(&fragments).into_iter().filter_map(|jump| {
                    let kind = if targets.are_one() { Kind::Exit } else { targets.hook(jump.target)? };
                    Some(TailJump { kind, jump, starts: starts.clone() })
                }));
            }
            functions.push(uses);
        }
        let unclear = unclear(image, &targets, &found, clear)?;
        if functions.is_empty() && unclear == 0 {
            return Ok(None);
        }
        let values = functions.iter().flatten().flat_map(|it| &it.functions);
        let pointers = values
            .filter_map(|value| if let RegisterValue::Pointer(at) = value { Some(*at as u64) } else { None });
        let pointers = pointers.clone().min().unwrap_or(0)..pointers.max().map_or(0, |last| last + 1);
        Ok(Some(Self {
            hooks,
            are_one: targets.are_one(),
            functions,
            tail_jumps,
            unclear,
            pointers: dynamic.pointers(&pointers)?,
        }))
    }

    /// Returns how many calls there are, jumps included.
    pub fn count(&self) -> u64 {
        self.functions.iter().map(|uses| uses.len() as u64).sum::<u64>() + self.unclear
    }

    /// Returns the function that a register's value is the address of, as far as the file tells.
    ///
    /// # Errors
    /// The system's.
    pub fn function(&self, value: RegisterValue) -> Result<Option<Pointer>, Problem> {
        match value {
            RegisterValue::Address(addr) => Ok(Some(Pointer::Here(addr as u64))),
            RegisterValue::Pointer(at) => self.pointers.at(at as u64),
        }
    }
}

/// Returns how many references may be calls of hooks or jumps to them, but for those in linkage
/// tables and in code that is clear.
fn unclear(
    image: &Image,
    targets: &HookTargets,
    found: &[usize],
    mut clear: Vec<Range<usize>>,
) -> Result<u64, Problem> {
    clear.sort_unstable_by_key(|range| range.start);
    let mut unclear = 0;
    for at in found {
        let before = clear.partition_point(|range| range.start <= *at).checked_sub(1);
        if before.is_some_and(|before| clear[before].contains(at)) {
            continue;
        }
        let opcode = image.bytes::<2>(*at as u64 - 2)?;
        unclear += u64::from(match opcode {
            Some([_, 0xe8 | 0xe9] | [0x0f, 0x80..=0x8f] | [0xff, 0x15]) => true,
            Some([0xff, 0x25]) => targets.hook(Target::Direct(*at - 2)).is_none(),
            _ => false,
        });
    }
    Ok(unclear)
}

/// Calls `each` with the parts of a file's code and their addresses.
fn each_part(image: &Image, each: &mut impl FnMut(&[u8], usize)) -> Result<(), Problem> {
    let mut code = Vec::new();
    for Range { start, end } in image.code_ranges() {
        let mut at = start;
        while at < end {
            let until = end.min(at.saturating_add(PART_LEN));
            if !image.read_into(at, usize_of(until - at), &mut code)? {
                break;
            }
            each(&code, usize_of(at));
            at = if until == end { end } else { until - OVERLAP_LEN };
        }
    }
    Ok(())
}
