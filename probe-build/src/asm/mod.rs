//! Places probe sites in the assembly that a compiler prints. Pure: text in, text out.
//!
//! ```text
//! source ──▶ line      each line taken apart
//!        ──▶ section   the section of each line
//!        ──▶ debug     file and line; debug information removed
//!        ──▶ function  the lines of each function
//!        ──▶ exits     EntryReturn: returns and tail calls             (entry; inline: the user's own assembly)
//!        ──▶ hooks     InstrumentFunctions: calls of the hooks         (constants: their arguments; targets, transfer, state; naked)
//!        ──▶ written   functions that the user wrote in assembly: named only
//!        ──▶ definition, emit     the text again, with sites, stubs and definitions
//! ```
//!
//! Either all of a function's lines are understood, or the function stays as the compiler made it
//! and is named. A return or tail call is never guessed. `EntryReturn` changes none of the
//! compiler's lines, except that a conditional tail call becomes a jump around an unconditional
//! one. At entry and exits nothing lives below the stack pointer, so an active site's CALL may
//! write there.

mod constants;
mod debug;
mod directive;
mod exits;
mod function;
mod hooks;
mod inline;
mod instruction;
mod line;
mod name;
mod output;
mod section;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use exits::Family;
pub(crate) use text::{decode, encode, quoted};

use crate::outcome::{Cause, Exclusion, Outcome, Reason};
use crate::sites::Sites;
use core::fmt;
use exits::{Exit, Exits};
use function::{Extent, Extents};
use inline::Written;
use line::{Line, Statement};
use output::{Convention, Definitions, Edits, Identity, Kind};
use section::Sections;
use std::collections::BTreeSet;

/// The parameters for a file.
pub(crate) struct Request<'a> {
    pub sites: Sites,
    pub compiler: Family,
    /// Whether the user asked for debug information. Otherwise it is removed.
    pub keep_debug: bool,
    /// The package of the file.
    pub package: &'a str,
    /// Returns whether a function should have sites.
    pub wants: &'a dyn Fn(&Function) -> Result<(), Exclusion>,
    /// Returns the file's assembly without hooks, if available (`InstrumentFunctions`). Called if a
    /// function may be naked.
    pub without_hooks: &'a dyn Fn() -> Option<String>,
}

/// A function of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub symbol: String,
    /// The path of its probes: the demangled name.
    pub path: String,
    pub file: String,
    /// 0 if unknown.
    pub line: u32,
    pub instructions: usize,
}

impl Function {
    /// Returns whether its file and line are its own. A function that exists only inlined has those
    /// of its call.
    pub(crate) fn has_place(&self) -> bool {
        self.instructions != 0
    }
}

/// A file with sites.
#[derive(Debug)]
pub(crate) struct Placed {
    pub text: String,
    pub functions: Vec<(Function, Outcome)>,
}

/// The reason why a whole file is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unplaced {
    what: String,
    line: usize,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the assembly is not understood: {} (line {})", self.what, self.line)
    }
}

impl std::error::Error for Unplaced {}

/// Places the sites that `request` asks for in a compiler's assembly.
pub(crate) fn place(source: &str, request: &Request<'_>) -> Result<Placed, Unplaced> {
    let lines = line::lines(source);
    // In `place_in`, a place is an index of `lines`, from 1.
    let number = |place: usize| lines.get(place.wrapping_sub(1)).map_or(place, |line| line.number as usize);
    let placed = place_in(&lines, request);
    let mut placed = placed.map_err(|it| Unplaced { line: number(it.line), ..it })?;
    for (_, outcome) in &mut placed.functions {
        if let Outcome::LeftOut(reason) = outcome {
            reason.line = number(reason.line);
        }
    }
    Ok(placed)
}

fn place_in(lines: &[Line<'_>], request: &Request<'_>) -> Result<Placed, Unplaced> {
    check(lines)?;
    let sections = Sections::read(lines);
    let mut edits = Edits::new(lines.len());
    if !request.keep_debug {
        debug::strip(lines, &sections, &mut edits);
    }
    let mut file = File {
        request,
        files: debug::SourceFiles::read(lines),
        extents: Extents::read(lines, &sections),
        in_unwind_table: debug::in_unwind_table(lines, request.keep_debug),
        lines,
        edits,
        definitions: Definitions::default(),
    };
    let mut functions = match request.sites {
        Sites::EntryReturn => file.entries_and_returns(&sections),
        Sites::InstrumentFunctions => file.hooks(&sections)?,
        Sites::None => Vec::new(),
    };
    if request.sites != Sites::None {
        functions.extend(inline::functions(lines).iter().map(|it| file.written(it)));
    }
    // The output needs as much memory as these, so they are freed first.
    drop((file.extents, file.in_unwind_table, sections));
    let text = file.edits.apply(lines, file.definitions.head(), &file.definitions.foot());
    Ok(Placed { text, functions })
}

/// A file during the work.
struct File<'a> {
    request: &'a Request<'a>,
    files: debug::SourceFiles,
    extents: Extents<'a>,
    in_unwind_table: Vec<bool>,
    lines: &'a [Line<'a>],
    edits: Edits,
    definitions: Definitions,
}

impl<'a> File<'a> {
    fn entries_and_returns(&mut self, sections: &Sections<'a>) -> Vec<(Function, Outcome)> {
        let extents = core::mem::take(&mut self.extents.functions);
        let mut skips = 0;
        let functions = extents.iter().map(|extent| {
            let function = self.function(extent);
            let outcome = if let Err(why) = (self.request.wants)(&function) {
                Outcome::Excluded(why)
            } else {
                match exits::find(extent, &self.extents, self.lines, sections, self.request.compiler)
                    .and_then(|exits| fits(&function, exits, self.extents.parts[extent.parts[0]].label))
                {
                    Ok(exits) => self.place(extent, &function, &exits, sections, &mut skips),
                    Err(reason) => Outcome::LeftOut(reason),
                }
            };
            (function, outcome)
        });
        functions.collect()
    }

    fn function(&self, extent: &Extent) -> Function {
        let parts = extent.parts.iter().map(|part| &self.extents.parts[*part]);
        let symbol = self.extents.parts[extent.parts[0]].symbol;
        let all = || parts.clone().flat_map(|part| &part.lines).map(|at| &self.lines[*at]);
        let place = all().find_map(|line| self.files.place(line));
        let instructions = all().filter(|line| match line.statement {
            Statement::Instruction(_) => true,
            Statement::Inline => !line.text.trim_start().starts_with(['#', '\n']),
            _ => false,
        });
        Function {
            symbol: symbol.to_owned(),
            path: name::path(symbol),
            instructions: instructions.count(),
            line: place.as_ref().map_or(0, |place| place.line),
            file: place.map_or_else(|| self.files.main().to_owned(), |place| place.file),
        }
    }

    /// Reports a function that is written in assembly.
    fn written(&self, it: &Written<'_>) -> (Function, Outcome) {
        let function = Function {
            symbol: it.symbol.to_owned(),
            path: name::path(it.symbol),
            instructions: it.instructions,
            line: 0,
            file: self.files.main().to_owned(),
        };
        let outcome = match (self.request.wants)(&function) {
            Err(why) => Outcome::Excluded(why),
            Ok(()) => Outcome::LeftOut(Reason { cause: Cause::Assembly, line: it.label + 1 }),
        };
        (function, outcome)
    }

    /// Returns the package for the probes of a function that other files don't see.
    fn package(&self, symbol: &str) -> String {
        let is_global = self.extents.global.contains(name::without_suffixes(symbol));
        if is_global { String::new() } else { self.request.package.to_owned() }
    }

    /// Returns unwind tables that are valid at an exit's site and at the exit: the registers that
    /// the function has saved hold their original values. Compilers leave the tables pointing at
    /// the slots below the stack pointer from which the registers were restored, and the site's
    /// CALL overwrites the first of these slots.
    fn around_exit(&self, extent: &Extent) -> (String, &'static str) {
        let lines = extent.parts.iter().flat_map(|part| &self.extents.parts[*part].lines);
        let mut saved = BTreeSet::new();
        for at in lines {
            let Statement::Directive { name, arguments } = self.lines[*at].statement else { continue };
            match name {
                ".cfi_offset" | ".cfi_rel_offset" => saved.extend(line::operands(arguments).first().copied()),
                // Registers of a realigned frame: rbx, rbp, r10, r12 to r15.
                ".cfi_escape" => saved.extend(["3", "6", "10", "12", "13", "14", "15"]),
                _ => {}
            }
        }
        if saved.is_empty() {
            return (String::new(), "");
        }
        let mut before = format!("\t.cfi_remember_state{MARK}");
        for register in saved {
            before.extend(["\t.cfi_restore ", register, MARK]);
        }
        (before, concat!("\t.cfi_restore_state", "\t# probe\n"))
    }

    fn place(
        &mut self,
        extent: &Extent,
        function: &Function,
        found: &Exits,
        sections: &Sections<'a>,
        skips: &mut usize,
    ) -> Outcome {
        let package = self.package(&function.symbol);
        let identity = |kind| Identity {
            package: package.clone(),
            path: function.path.clone(),
            file: function.file.clone(),
            line: function.line,
            kind,
            convention: Convention::KeepAll,
        };
        let first = self.extents.begin_at(&extent.parts[..1], found.entry, self.lines);
        let entry = self.definitions.site(&identity(Kind::Entry), sections.of(found.entry - 1), first);
        self.edits.before(found.entry, &entry);
        let (before_exit, after_exit) = self.around_exit(extent);
        for exit in &found.leaving {
            let (Exit::Before(line) | Exit::Conditional(line)) = *exit;
            // In the first part, the entry's site comes before it.
            let first = self.extents.begin_at(&extent.parts[1..], line, self.lines);
            let site = self.definitions.site(&identity(Kind::Exit), sections.of(line), first);
            let (before, after) =
                if self.in_unwind_table[line] { (&*before_exit, after_exit) } else { ("", "") };
            let site = format!("{before}{site}");
            match *exit {
                Exit::Before(line) => {
                    self.edits.before(line, &site);
                    let leaves = |line: &Line<'_>| matches!(line.statement, Statement::Instruction(_));
                    let way = self.lines[line..].iter().position(leaves).unwrap_or(0);
                    self.edits.before(line + way + 1, after);
                }
                Exit::Conditional(line) => {
                    let around = conditional(&self.lines[line], &site, after, *skips);
                    self.edits.replace(line, around);
                    *skips += 1;
                }
            }
        }
        Outcome::Placed {
            entries: 1,
            exits: found.leaving.len(),
            dead_ends: found.dead_ends,
            unknown_hooks: 0,
        }
    }
}

/// The end of lines that are added to unwind tables.
const MARK: &str = "\t# probe\n";

/// Returns a conditional tail call as a jump around a site and an unconditional tail call.
fn conditional(line: &Line<'_>, site: &str, after: &str, number: usize) -> String {
    let Statement::Instruction(it) = &line.statement else { return line.text.to_owned() };
    let Some(opposite) = instruction::opposite(it.mnemonic) else { return line.text.to_owned() };
    let target = it.operands.join(", ");
    format!("\t{opposite}\t.Lprobe_skip_{number}\n{site}\tjmp\t{target}\n{after}.Lprobe_skip_{number}:\n")
}

/// Checks that a definition can count its text in 16 bits.
fn fits(function: &Function, exits: Exits, label: usize) -> Result<Exits, Reason> {
    let bytes = function.path.len() + function.file.len();
    if u16::try_from(bytes).is_ok() {
        Ok(exits)
    } else {
        Err(Reason { cause: Cause::Name(bytes), line: label + 1 })
    }
}

/// Rejects a file that is not in the expected form.
fn check(lines: &[Line<'_>]) -> Result<(), Unplaced> {
    let mut inline = None;
    for (at, line) in lines.iter().enumerate() {
        let refuse = |what: &str| Err(Unplaced { what: what.to_owned(), line: at + 1 });
        match &line.statement {
            Statement::App => inline = Some(at),
            Statement::NoApp => {
                let start = inline.take().unwrap_or(at);
                if let Some(what) = inline::changes_the_language(lines[start..at].iter()) {
                    return refuse(&format!("inline assembly goes over to {what} and does not come back"));
                }
            }
            Statement::Unclear(line::OPEN_COMMENT) => return refuse(line::OPEN_COMMENT),
            Statement::Directive { name, arguments } => {
                if let Some(what) = foreign(name, arguments) {
                    return refuse(what);
                }
            }
            _ => {}
        }
        if line.text.contains("__probe_site") || line.text.contains(".Lprobe_") {
            return refuse("it has probe sites already");
        }
    }
    match inline {
        Some(at) => Err(Unplaced { what: "inline assembly without an end".to_owned(), line: at + 1 }),
        None => Ok(()),
    }
}

/// Returns why a directive is foreign: other syntaxes and processors, and directives that give
/// names a meaning that is not visible here.
fn foreign(directive: &str, arguments: &str) -> Option<&'static str> {
    match directive {
        ".intel_syntax" => Some("Intel syntax"),
        ".att_syntax" if arguments.contains("noprefix") => Some("registers without a prefix"),
        ".code32" | ".code16" | ".code16gcc" => Some("it is not for x86-64"),
        ".arch" | ".arch_extension" | ".cpu" | ".fpu" | ".syntax" | ".thumb" | ".arm" | ".eabi_attribute"
        | ".attribute" | ".option" | ".machine" | ".abiversion" | ".module" | ".nan" | ".variant_pcs" => {
            Some("it is for another processor")
        }
        ".subsections_via_symbols" | ".build_version" | ".def" | ".macosx_version_min" => {
            Some("it is not for an ELF object")
        }
        ".macro" | ".rept" | ".irp" | ".irpc" | ".include" | ".altmacro" | ".if" | ".ifdef" | ".ifndef"
        | ".else" | ".end" | ".line" | ".psize" => Some("directives that compilers do not print"),
        _ => None,
    }
}
