//! A file during the work: the request, the lines that were read, and the edits.

use super::debug::{SourceFiles, SourceLine};
use super::function::{Extent, Extents};
use super::line::{Line, Statement};
use super::name;
use super::output::{Definitions, Edits};
use crate::outcome::{Cause, Exclusion, Reason, Sites};
use core::fmt;

/// The compiler family that printed the assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// gcc, called with `-dp`: the name of its pattern follows each instruction.
    Gnu,
    /// clang: `TAILCALL` follows tail calls.
    Clang,
}

/// The parameters for a file.
pub(crate) struct Request<'a> {
    pub sites: Sites,
    pub compiler: Family,
    /// Whether the user asked for debug information. Otherwise it is removed.
    pub keep_debug: bool,
    /// The package of the file.
    pub package: &'a str,
    /// The folder of relative file names; empty if the package tells files apart.
    pub folder: &'a str,
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
    /// Checks that a definition can count the function's text in 16 bits. `line` is where the
    /// function begins.
    pub(super) fn check_len(&self, line: usize) -> Result<(), Reason> {
        let bytes = self.path.len() + self.file.len();
        u16::try_from(bytes).map(drop).map_err(|_| Reason { cause: Cause::Name(bytes), line: line + 1 })
    }

    /// Returns whether its file and line are its own. A function that exists only inlined has those
    /// of its call.
    pub(crate) fn has_place(&self) -> bool {
        self.instructions != 0
    }
}

/// The reason why a whole file is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unplaced {
    pub(super) what: String,
    /// The line, from 1.
    pub(super) line: usize,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the assembly is not understood: {} (line {})", self.what, self.line)
    }
}

impl std::error::Error for Unplaced {}

/// A file during the work.
pub(super) struct File<'a> {
    pub request: &'a Request<'a>,
    pub files: SourceFiles,
    pub extents: Extents<'a>,
    pub in_unwind_table: Vec<bool>,
    pub lines: &'a [Line<'a>],
    pub edits: Edits,
    pub definitions: Definitions,
}

impl File<'_> {
    /// Describes the function of these lines.
    pub(super) fn function(&self, extent: &Extent) -> Function {
        let parts = extent.parts.iter().map(|part| &self.extents.parts[*part]);
        let symbol = self.extents.parts[extent.parts[0]].symbol;
        let all = || parts.clone().flat_map(|part| &part.lines).map(|at| &self.lines[*at]);
        let instructions = all().filter(|line| match line.statement {
            Statement::Instruction(_) => true,
            Statement::Inline => !line.text.trim_start().starts_with(['#', '\n']),
            _ => false,
        });
        self.described(symbol, all().find_map(|line| self.files.place(line)), instructions.count())
    }

    /// Describes a function whose place is known, or else somewhere in the main file.
    pub(super) fn described(&self, symbol: &str, place: Option<SourceLine>, instructions: usize) -> Function {
        Function {
            symbol: symbol.to_owned(),
            path: name::path(symbol),
            instructions,
            line: place.as_ref().map_or(0, |place| place.line),
            file: place.map_or_else(|| self.files.main().to_owned(), |place| place.file),
        }
    }

    /// Returns the package for the probes of a function that other files don't see.
    pub(super) fn package(&self, function: &Function) -> String {
        let Request { package, folder, .. } = self.request;
        if self.extents.global.contains(name::without_suffixes(&function.symbol)) {
            String::new()
        } else if function.file.starts_with('/') {
            (*package).to_owned()
        } else {
            format!("{package}{folder}")
        }
    }
}
