//! What has become of each file and each function.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::asm;
use crate::{Outcome, PlainReason};

/// What a build has done: nothing is left out silently.
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

    /// The files, in the order in which they were given.
    pub fn files(&self) -> &[FileReport] {
        &self.files
    }

    /// The functions of all files that were understood.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionReport> {
        self.files.iter().flat_map(FileReport::functions)
    }

    /// How many functions have sites.
    pub fn placed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Placed { .. }))
    }

    /// How many functions the settings exclude.
    pub fn excluded(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Excluded(_)))
    }

    /// How many functions were to have sites and have none.
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

/// What has become of one file.
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

    /// The source, as it was given.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The object that was made of it.
    pub fn object(&self) -> &Path {
        &self.object
    }

    /// Why the object is what cc alone would have made; `None` if sites were placed.
    pub fn plain(&self) -> Option<&PlainReason> {
        self.plain.as_ref()
    }

    /// The functions of the object, in its order. None if the object is plain.
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

/// What has become of one function.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    function: asm::Function,
    outcome: Outcome,
}

impl FunctionReport {
    /// What selectors call it: the symbol of a C function, the demangled name of a C++ function
    /// without parameters.
    pub fn path(&self) -> &str {
        &self.function.path
    }

    /// Its symbol in the object.
    pub fn symbol(&self) -> &str {
        &self.function.symbol
    }

    /// The file that defines it, as the compiler says it. Empty if it does not.
    pub fn file(&self) -> &str {
        &self.function.file
    }

    /// The line where it starts; 0 if the compiler does not say it.
    pub fn line(&self) -> u32 {
        self.function.line
    }

    /// What has become of it.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}
