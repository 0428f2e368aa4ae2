//! Places probe sites in the assembly that a compiler prints. Pure: text in, text out.
//!
//! ```text
//! source ──▶ text, line     each line taken apart (statement: what it does)
//!        ──▶ section        the section of each line
//!        ──▶ function       the lines of each function (name: its probes' path)
//!        ──▶ debug          files and lines; debug information removed
//!        ──▶ entry_return   EntryReturn: sites at entries and exits (exits: where; inline: the user's assembly)
//!        ──▶ hooks          InstrumentFunctions: sites for the hooks' calls (constants: their arguments)
//!        ──▶ output         the text again, with sites, stubs and definitions
//! ```
//!
//! Either all of a function's lines are understood, or the function stays as the compiler made it
//! and is named. A return or tail call is never guessed. `EntryReturn` changes none of the
//! compiler's lines, except that a conditional tail call becomes a jump around an unconditional
//! one. At entry and exits nothing lives below the stack pointer, so an active site's CALL may
//! write there.

mod constants;
mod debug;
mod entry_return;
mod exits;
mod file;
mod function;
mod hooks;
mod inline;
mod line;
mod name;
mod output;
mod section;
mod statement;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use file::{Family, Function, Request, Unplaced};
pub(crate) use text::{decode, encode, quoted};

use crate::outcome::{Cause, Outcome, Reason, Sites};
use file::File;
use function::Extents;
use inline::Written;
use line::{Line, Statement};
use output::{Definitions, Edits};
use section::Sections;

/// A file with sites.
#[derive(Debug)]
pub(crate) struct Placed {
    pub text: String,
    pub functions: Vec<(Function, Outcome)>,
}

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
        functions.extend(inline::functions(lines).iter().map(|it| written(&file, it)));
    }
    // The output needs as much memory as these, so they are freed first.
    drop((file.extents, file.in_unwind_table, sections));
    let text = file.edits.apply(lines, file.definitions.head(), &file.definitions.foot());
    Ok(Placed { text, functions })
}

/// Reports a function that is written in assembly.
fn written(file: &File<'_>, it: &Written<'_>) -> (Function, Outcome) {
    let function = file.described(it.symbol, None, it.instructions);
    let outcome = match (file.request.wants)(&function) {
        Err(why) => Outcome::Excluded(why),
        Ok(()) => Outcome::LeftOut(Reason { cause: Cause::Assembly, line: it.label + 1 }),
    };
    (function, outcome)
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
