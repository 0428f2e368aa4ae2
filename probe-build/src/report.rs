//! The outcomes of all files and functions, and why a file was compiled as cc would.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::asm;
use crate::outcome::Outcome;

/// The outcomes of a build. It names every function that was left out.
///
/// Its `Display` is a table with a line for each file, and one for each function that was left out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    files: Vec<FileReport>,
}

impl Report {
    pub(crate) fn new(files: Vec<FileReport>) -> Self {
        Self { files }
    }

    /// Returns the files, in the order in which they were given.
    pub fn files(&self) -> &[FileReport] {
        &self.files
    }

    /// Returns the functions of all files that were not compiled plainly.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionReport> {
        self.files.iter().flat_map(FileReport::functions)
    }

    /// Returns the number of functions with sites.
    pub fn placed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Placed { .. }))
    }

    /// Returns the number of functions that the settings exclude.
    pub fn excluded(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Excluded(_)))
    }

    /// Returns the number of functions that should have sites but have none.
    pub fn left_out(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::LeftOut(_)))
    }

    fn count(&self, is_such: impl Fn(&Outcome) -> bool) -> usize {
        self.functions().filter(|function| is_such(function.outcome())).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.iter().try_for_each(|file| file.fmt(f))
    }
}

/// The outcome of one file.
#[derive(Clone, Debug)]
pub struct FileReport {
    source: PathBuf,
    object: PathBuf,
    plain: Option<PlainReason>,
    functions: Vec<FunctionReport>,
}

impl FileReport {
    pub(crate) fn plain_object(source: PathBuf, object: PathBuf, reason: PlainReason) -> Self {
        Self { source, object, plain: Some(reason), functions: Vec::new() }
    }

    pub(crate) fn placed(source: PathBuf, object: PathBuf, functions: Vec<(asm::Function, Outcome)>) -> Self {
        let functions =
            functions.into_iter().map(|(function, outcome)| FunctionReport { function, outcome }).collect();
        Self { source, object, plain: None, functions }
    }

    /// Returns the source, as it was given.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Returns the object.
    pub fn object(&self) -> &Path {
        &self.object
    }

    /// Returns why the object is the one that cc alone would make; `None` if sites were placed.
    pub fn plain(&self) -> Option<&PlainReason> {
        self.plain.as_ref()
    }

    /// Returns the functions of the object, in its order. Empty if the object is plain.
    pub fn functions(&self) -> &[FunctionReport] {
        &self.functions
    }
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.display();
        if let Some(reason) = &self.plain {
            return writeln!(f, "{source}: plain, {reason}");
        }
        let count = |is_such: fn(&Outcome) -> bool| {
            self.functions.iter().filter(|function| is_such(&function.outcome)).count()
        };
        writeln!(
            f,
            "{source}: {} functions with sites, {} excluded, {} left out",
            count(|outcome| matches!(outcome, Outcome::Placed { .. })),
            count(|outcome| matches!(outcome, Outcome::Excluded(_))),
            count(|outcome| matches!(outcome, Outcome::LeftOut(_))),
        )?;
        for FunctionReport { function, outcome } in &self.functions {
            if let Outcome::LeftOut(reason) = outcome {
                writeln!(f, "  {}: {reason}", function.path)?;
            }
        }
        Ok(())
    }
}

/// The outcome of one function.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    function: asm::Function,
    outcome: Outcome,
}

impl FunctionReport {
    /// Returns the path that selectors use: the symbol of a C function, or the demangled name of a
    /// C++ function without parameters.
    pub fn path(&self) -> &str {
        &self.function.path
    }

    /// Returns its symbol in the object.
    pub fn symbol(&self) -> &str {
        &self.function.symbol
    }

    /// Returns the file that defines it, as the compiler names it. Empty if the compiler does not
    /// name it.
    pub fn file(&self) -> &str {
        &self.function.file
    }

    /// Returns the line where it starts; 0 if the compiler does not say it.
    pub fn line(&self) -> u32 {
        self.function.line
    }

    /// Returns its outcome.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

/// Why a file has no sites.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlainReason {
    /// The build requested [`Sites::None`](crate::Sites::None).
    Asked,
    /// The program is built without probes: `--cfg probe_off`, or this crate's feature `off`.
    Off,
    /// The program is built with `--cfg probe_portable`: nothing is patched.
    Portable,
    /// Code for the compiler's target is not patched. The text names the target.
    Target(String),
    /// Not C or C++: the file name's extension.
    Language(String),
    /// The compiler is neither gcc nor clang, or does not identify itself. The text names it.
    Compiler(String),
    /// A flag that prevents sites.
    Flag(String),
    /// The command line does not make an object from a source, or more than that. The text says
    /// which part of it.
    Command(String),
    /// The compiler makes an object from the file, but no assembly. The text is its message.
    Assembly(String),
    /// The assembly contains something that is not understood well enough to change it. The text
    /// says what, and where.
    Unplaced(String),
    /// The assembler rejects the assembly with the sites. The text is its message.
    Assembler(String),
}

impl PlainReason {
    /// Returns whether this deserves a warning: not for a request of the user, and not for files
    /// that are not C or C++.
    pub(crate) fn is_worth_a_warning(&self) -> bool {
        match self {
            Self::Asked | Self::Off => false,
            Self::Language(extension) => !matches!(extension.as_str(), "s" | "S" | "asm" | "sx"),
            _ => true,
        }
    }

    /// Returns whether this is the same for all files of a build, and is printed once.
    pub(crate) fn is_of_the_build(&self) -> bool {
        matches!(self, Self::Portable | Self::Target(_) | Self::Compiler(_) | Self::Flag(_))
    }
}

impl fmt::Display for PlainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("no sites were asked for"),
            Self::Off => f.write_str("probes are off (--cfg probe_off, or the feature `off` of probe-build)"),
            Self::Portable => f.write_str("code is not patched under --cfg probe_portable"),
            Self::Target(target) => {
                write!(f, "code is not patched on this target ({target}), only on x86-64 Linux")
            }
            Self::Language(extension) => write!(f, "not C or C++ (.{extension})"),
            Self::Compiler(compiler) => write!(f, "{compiler}; sites are placed with gcc and clang"),
            Self::Flag(flag) => write!(f, "sites are not placed with {flag}"),
            Self::Assembly(message) => write!(f, "the compiler makes no assembly of it: {message}"),
            Self::Command(what) => f.write_str(what),
            Self::Unplaced(message) => write!(f, "{message}"),
            Self::Assembler(message) => write!(f, "the assembler refuses its sites: {message}"),
        }
    }
}
