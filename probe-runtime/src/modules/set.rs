//! The functions of all modules, with the definitions of their probes.
//!
//! Life: made once, and never freed: hits may be under way at any time.
//! Cost: some 700 bytes a function.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::call_site::ModuleSite;
use crate::engine::dispatch::{ReadAs, ReadFrom, Reading};
use crate::engine::entry::backend::registers::StoredRegister;
use crate::engine::entry::backend::wrapper::{argument_in_register, argument_on_stack, result};
use crate::engine::error::Error;
use probe_core::abi::{Convention, Definition, Kind};
use probe_hooks::signatures::{Kind as ValueKind, Place, entry_places};
use probe_lang::modules::{
    CType, Function, GIVES_NOTE, MODULE_NOTE, RESULT, TAKES_IF_NOTE, TAKES_NOTE, parse,
};

/// The modules of this crate, and their texts.
pub(super) const BUILT_IN: [(&str, &str); 3] = [
    ("lock", include_str!("../../modules/lock.probes")),
    ("io", include_str!("../../modules/io.probes")),
    ("memory", include_str!("../../modules/memory.probes")),
];

/// A function, and its probes.
pub(super) struct ModuleFunction {
    pub(super) text: Function,
    pub(super) entry: ModuleSite,
    pub(super) exit: ModuleSite,
    /// The number of words of its arguments on the stack.
    pub(super) words: u32,
    /// The definitions' text, which is theirs for good. Kept here since they may have copied it.
    _definitions_text: &'static str,
}

impl ModuleFunction {
    /// Returns its call sites that have probes.
    pub(super) fn sites(&'static self) -> impl Iterator<Item = &'static ModuleSite> {
        [&self.entry].into_iter().chain(self.text.has_exit.then_some(&self.exit))
    }

    /// Returns whether any of its probes is active.
    pub(super) fn is_active(&self) -> bool {
        self.entry.is_active() || self.exit.is_active()
    }
}

/// All functions.
pub(super) struct ModuleSet {
    pub(super) functions: Vec<ModuleFunction>,
    /// All names of functions, each with its function's number.
    pub(super) symbols: Vec<(CString, usize)>,
    by_name: HashMap<Vec<u8>, usize>,
}

static SET: OnceLock<ModuleSet> = OnceLock::new();

impl ModuleSet {
    /// Returns the set, once it was made.
    pub(super) fn get() -> Option<&'static Self> {
        SET.get()
    }

    /// Makes the set, unless there is one.
    pub(super) fn make(files: &[PathBuf]) -> Result<(), Error> {
        if SET.get().is_some() {
            return Ok(());
        }
        let malformed = |problem: String| Error::Module { problem };
        let mut texts = Vec::new();
        for (name, text) in BUILT_IN {
            texts.push((format!("{name}.probes"), text.to_owned()));
        }
        for file in files {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).map_err(|error| malformed(format!("{name}: {error}")))?;
            texts.push((name, text));
        }
        let (mut functions, mut paths) = (Vec::<ModuleFunction>::new(), HashMap::new());
        let (mut symbols, mut by_name) = (Vec::new(), HashMap::new());
        for (file, text) in texts {
            for function in parse(&file, &text).map_err(|error| malformed(error.to_string()))? {
                let Function { path, line, .. } = &function;
                if let Some(other) = paths.insert(path.clone(), file.clone()) {
                    return Err(malformed(format!("{file}, line {line}: {other} has a `{path}`, too")));
                }
                for name in &function.symbols {
                    // A word leads to one wrapper.
                    if let Some(other) = by_name.insert(name.clone().into_bytes(), symbols.len()) {
                        let (_, other): &(CString, usize) = &symbols[other];
                        let other = functions.get(*other).map_or(path, |it| &it.text.path);
                        return Err(malformed(format!("{file}, line {line}: `{name}` is `{other}` already")));
                    }
                    symbols.push((CString::new(&**name).unwrap_or_default(), functions.len()));
                }
                functions.push(made(function, functions.len(), &file));
            }
        }
        let _ = SET.set(Self { functions, symbols, by_name });
        Ok(())
    }

    /// Returns the number of this name.
    pub(super) fn number_of(&self, symbol: &[u8]) -> Option<usize> {
        self.by_name.get(symbol).copied()
    }
}

fn made(text: Function, number: usize, file: &str) -> ModuleFunction {
    let is_floating = text.result.is_some_and(CType::is_floating)
        || text.is_variadic
        || text.parameters.iter().any(|(_, ty)| ty.is_floating());
    let convention = if is_floating { Convention::Hidden } else { Convention::Wrapped };
    let note = |name: &str, value: &str| format!("{name}={value}\n");
    let mut notes = note(MODULE_NOTE, text.module());
    if let Some((field, condition)) = &text.takes {
        notes += &note(TAKES_NOTE, field);
        notes.extend(condition.iter().map(|it| note(TAKES_IF_NOTE, it.text().trim())));
    }
    notes.extend(text.gives.iter().map(|field| note(GIVES_NOTE, field)));
    let whole: &'static str = [&*text.path, file, &*notes].concat().leak();
    let definition =
        |kind| Definition::discovered(kind, convention, whole, &text.path, file, &notes, text.line);
    let definitions: &'static [Definition; 2] =
        Box::leak(Box::new([definition(Kind::Entry), definition(Kind::Exit)]));
    let (words, arguments) = arguments(&text.parameters);
    let mut at_exit: Vec<_> = arguments.iter().filter(|(_, it)| is_kept(it)).cloned().collect();
    if let Some(ty) = text.result {
        let from = result(ty.is_floating()).map_or(ReadFrom::Nowhere, ReadFrom::Register);
        at_exit.insert(0, (RESULT.to_owned(), Reading { kind: read_as(ty), from }));
    }
    let [entry, exit] = definitions;
    ModuleFunction {
        text,
        entry: ModuleSite::new(number, entry, arguments.leak()),
        exit: ModuleSite::new(number, exit, at_exit.leak()),
        words,
        _definitions_text: whole,
    }
}

/// Returns whether a value is still there when the function has returned.
fn is_kept(reading: &Reading) -> bool {
    matches!(reading.from, ReadFrom::Stack(_))
}

/// Returns the number of words on the stack, and how arguments are read.
fn arguments(parameters: &[(String, CType)]) -> (u32, Vec<(String, Reading)>) {
    let kind = |(_, ty): &(String, CType)| {
        if ty.is_floating() { ValueKind::Float(8) } else { ValueKind::Unsigned(8) }
    };
    let kinds: Vec<_> = parameters.iter().map(kind).collect();
    let places = entry_places(&kinds).unwrap_or_default();
    let words = places.iter().filter(|place| matches!(place, Place::Memory { .. })).count();
    let arguments = parameters
        .iter()
        .zip(places)
        .map(|((name, ty), place)| (name.clone(), Reading { kind: read_as(*ty), from: in_wrapper(place) }));
    (u32::try_from(words).unwrap_or(u32::MAX), arguments.collect())
}

/// Returns where a wrapper has an argument that was in this place at its entry. It keeps registers
/// for integers in its frame, and leaves the others as they are.
fn in_wrapper(place: Place) -> ReadFrom {
    let stack = |offset| StoredRegister::of(7).map(|base| ReadFrom::memory(base, offset));
    let from = match place {
        Place::Register(number) => argument_in_register(number)
            .and_then(stack)
            .or_else(|| StoredRegister::of(number).map(ReadFrom::Register)),
        Place::Memory { offset, .. } => stack(argument_on_stack(offset)),
        Place::Absent => None,
    };
    from.unwrap_or(ReadFrom::Nowhere)
}

fn read_as(ty: CType) -> ReadAs {
    match ty {
        CType::Unsigned(bytes) => ReadAs::Unsigned(bytes),
        CType::Signed(bytes) => ReadAs::Signed(bytes),
        CType::Bool => ReadAs::Bool,
        CType::Float => ReadAs::Single,
        CType::Double => ReadAs::Double,
        CType::Text => ReadAs::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_of_this_crate_is_read() {
        for (name, text) in BUILT_IN {
            let functions = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert!(functions.iter().all(|it| it.module() == name), "{name}");
            let mut symbols: Vec<_> = functions.iter().flat_map(|it| &it.symbols).collect();
            symbols.sort_unstable();
            symbols.dedup();
            let all = functions.iter().map(|it| it.symbols.len()).sum::<usize>();
            assert_eq!(symbols.len(), all, "{name}");
        }
    }

    #[test]
    fn arguments_beyond_the_registers_are_words_on_the_stack() {
        let of = |types: &[CType]| {
            let parameters: Vec<_> = types.iter().map(|ty| ("a".to_owned(), *ty)).collect();
            let (words, arguments) = arguments(&parameters);
            (words, arguments.into_iter().map(|(_, reading)| reading.from).collect::<Vec<_>>())
        };
        let stack = ReadFrom::Stack;
        let (words, places) = of(&[CType::Unsigned(8); 8]);
        assert_eq!((words, places[0], places[5]), (2, stack(48), stack(8)));
        assert_eq!(places[6..], [stack(80), stack(88)]);
        let (words, places) = of(&[[CType::Double; 9].as_slice(), &[CType::Text]].concat());
        assert_eq!((words, places[8], places[9]), (1, stack(80), stack(48)));
    }
}
