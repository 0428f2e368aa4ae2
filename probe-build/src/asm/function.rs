//! Finds the lines of each function.
//!
//! ```text
//!     .type f, @function
//! f:  …                          a part, until `.size f`, as far as it is in f's section
//!     .section .rodata           a jump table, within
//!     .text
//!     …
//!     .section .text.unlikely
//! f.cold: …                      another part of f
//!     .size f.cold, .-f.cold
//! ```
//!
//! The parts' directives interleave: `.size f` may come after all of `f.cold`. So each section has
//! its own open part.

use super::line::{Line, Statement, operands, unquoted};
use super::name::whole_of;
use super::section::{Section, Sections};
use super::statement::{HOOK, is_alignment, is_data, is_tail_call};
use crate::outcome::Cause;
use std::collections::{HashMap, HashSet};

/// The lines of one symbol.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub symbol: &'a str,
    /// The line of its label.
    pub label: usize,
    /// All of its lines, beginning with its label's.
    pub lines: Vec<usize>,
    /// The problem with its extent, and its place.
    pub flaw: Option<(Cause, usize)>,
    /// Whether an instruction or inline assembly was seen.
    has_code: bool,
}

/// A function: its parts, the one with its entry first.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub parts: Vec<usize>,
    /// Whether its start is in this file.
    pub has_start: bool,
}

/// The functions of a file.
pub(super) struct Extents<'a> {
    pub parts: Vec<Part<'a>>,
    pub functions: Vec<Extent>,
    /// The part of each label within a function.
    pub labels: HashMap<&'a str, usize>,
    /// Aliases of symbols: `.set alias, symbol`.
    pub aliases: HashMap<&'a str, &'a str>,
    /// Symbols of resolvers of an `ifunc`.
    pub indirect: HashSet<&'a str>,
    /// Symbols that are visible to other files.
    pub global: HashSet<&'a str>,
    /// Whether each function's name is beside its label, as in clang's comments. clang may print no
    /// comments.
    pub all_announced: bool,
}

impl<'a> Extents<'a> {
    pub(super) fn read(lines: &[Line<'a>], sections: &Sections<'a>) -> Self {
        let symbols = SymbolTable::read(lines);
        let mut reader = FunctionReader { parts: Vec::new(), open: HashMap::new(), labels: HashMap::new() };
        for (at, line) in lines.iter().enumerate() {
            reader.line(at, line, sections.of(at), &symbols);
        }
        for part in reader.open.into_values() {
            let at = reader.parts[part].label;
            reader.parts[part].flaw.get_or_insert((Cause::NoEnd, at));
        }
        let functions = group(&reader.parts, &symbols.called);
        let SymbolTable { aliases, indirect, global, .. } = symbols;
        let mut labels = functions.iter().map(|extent| &lines[reader.parts[extent.parts[0]].label]);
        let all_announced = labels.all(|label| label.comment.starts_with('@'));
        Self {
            parts: reader.parts,
            functions,
            labels: reader.labels,
            aliases,
            indirect,
            global,
            all_announced,
        }
    }

    /// Returns whether code before a line may be the first instruction of one of these parts.
    /// Inline assembly and calls of hooks may produce no bytes.
    pub(super) fn begin_at(&self, parts: &[usize], line: usize, lines: &[Line<'_>]) -> bool {
        let makes_bytes = |at: &&usize| match &lines[**at].statement {
            Statement::Instruction(it) => it.operands.iter().all(|operand| !operand.contains(HOOK)),
            Statement::Directive { name, .. } => is_data(name) && !is_alignment(name),
            _ => false,
        };
        let holds = |at: usize| {
            parts.iter().map(|part| &self.parts[*part]).find(|part| part.lines.binary_search(&at).is_ok())
        };
        let Some(part) = holds(line).or_else(|| holds(line.checked_sub(1)?)) else { return false };
        part.lines.iter().find(makes_bytes).is_none_or(|first| *first >= line)
    }

    /// Resolves a symbol through all of its aliases.
    pub(super) fn resolve<'s>(&self, mut symbol: &'s str) -> &'s str
    where
        'a: 's,
    {
        // A cycle of aliases is not valid assembly; no chain is longer than their number.
        for _ in 0..=self.aliases.len() {
            match self.aliases.get(symbol) {
                Some(next) => symbol = next,
                None => break,
            }
        }
        symbol
    }
}

/// The symbols as the directives describe them.
#[derive(Default)]
struct SymbolTable<'a> {
    functions: HashSet<&'a str>,
    indirect: HashSet<&'a str>,
    aliases: HashMap<&'a str, &'a str>,
    /// The targets of calls and tail calls.
    called: HashSet<&'a str>,
    global: HashSet<&'a str>,
}

impl<'a> SymbolTable<'a> {
    fn read(lines: &[Line<'a>]) -> Self {
        let mut all = Self::default();
        for line in lines {
            match &line.statement {
                Statement::Directive { name, arguments } => all.directive(name, arguments),
                Statement::Instruction(it)
                    if it.mnemonic.starts_with("call") || is_tail_call(line.comment) =>
                {
                    let target = it.operands.first().map_or("", |target| target.trim_end_matches("@PLT"));
                    if whole_of(target).is_some() {
                        all.called.insert(unquoted(target));
                    }
                }
                _ => {}
            }
        }
        all
    }

    /// Returns whether a label begins a function, or a part of one, which has no type in clang's
    /// output.
    fn is_code(&self, label: &str) -> bool {
        let is_known = |symbol: &str| self.functions.contains(symbol) || self.indirect.contains(symbol);
        is_known(label) || whole_of(label).is_some_and(is_known)
    }

    fn directive(&mut self, name: &str, arguments: &'a str) {
        match name {
            ".globl" | ".global" | ".weak" => {
                self.global.extend(operands(arguments).into_iter().map(unquoted));
            }
            ".type" => {
                let [symbol, kind] = operands(arguments)[..] else { return };
                match kind.trim_start_matches(['@', '%', '#']).trim_matches('"') {
                    "function" | "STT_FUNC" => self.functions.insert(unquoted(symbol)),
                    "gnu_indirect_function" | "STT_GNU_IFUNC" => self.indirect.insert(unquoted(symbol)),
                    _ => false,
                };
            }
            ".set" | ".equ" => {
                if let [alias, value] = operands(arguments)[..] {
                    self.aliases.insert(unquoted(alias), unquoted(value));
                }
            }
            "=" => {
                if let Some((alias, value)) = arguments.split_once('=') {
                    self.aliases.insert(unquoted(alias.trim()), unquoted(value.trim()));
                }
            }
            _ => {}
        }
    }
}

struct FunctionReader<'a> {
    parts: Vec<Part<'a>>,
    open: HashMap<Section, usize>,
    labels: HashMap<&'a str, usize>,
}

impl<'a> FunctionReader<'a> {
    fn line(&mut self, at: usize, line: &Line<'a>, section: Section, symbols: &SymbolTable<'a>) {
        for label in &line.labels {
            if symbols.is_code(label) {
                self.begin(label, at, section);
            }
            if let Some(part) = self.open.get(&section) {
                self.labels.insert(label, *part);
            }
        }
        if let Some(part) = self.open.get(&section) {
            let part = &mut self.parts[*part];
            if part.lines.last() != Some(&at) {
                part.lines.push(at);
            }
            // A second name of the same function precedes all of its code.
            part.has_code |= !matches!(line.statement, Statement::Empty | Statement::Directive { .. });
        }
        if let Statement::Directive { name: ".size", arguments } = line.statement {
            let symbol = operands(arguments).first().copied().map_or("", unquoted);
            self.open.retain(|_, part| self.parts[*part].symbol != symbol);
        }
    }

    fn begin(&mut self, symbol: &'a str, at: usize, section: Section) {
        let new = self.parts.len();
        if let Some(open) = self.open.get(&section) {
            let open = &mut self.parts[*open];
            if !open.has_code {
                return;
            }
            open.flaw.get_or_insert((Cause::Nested, at));
        }
        let flaw = self.open.contains_key(&section).then_some((Cause::Nested, at));
        self.open.insert(section, new);
        self.parts.push(Part { symbol, label: at, lines: vec![at], flaw, has_code: false });
    }
}

/// Joins cold parts with their functions. A cold part that is called is a separate function: the
/// compiler outlined it.
fn group(parts: &[Part<'_>], called: &HashSet<&str>) -> Vec<Extent> {
    let cold = |part: &Part<'_>| {
        if called.contains(part.symbol) { None } else { whole_of(part.symbol).map(str::to_owned) }
    };
    let mut functions = Vec::new();
    let mut by_symbol = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        if cold(part).is_none() {
            by_symbol.insert(part.symbol.to_owned(), functions.len());
            functions.push(Extent { parts: vec![number], has_start: true });
        }
    }
    for (number, part) in parts.iter().enumerate() {
        let Some(whole) = cold(part) else { continue };
        match by_symbol.get(&whole) {
            Some(function) => functions[*function].parts.push(number),
            None => functions.push(Extent { parts: vec![number], has_start: false }),
        }
    }
    functions
}
