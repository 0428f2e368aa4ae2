//! For `probe-cc`, which stands in for a compiler: objects with sites from a command line of a
//! build that knows nothing of sites. No public interface.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::asm::Family;
pub use crate::command_line::invocation::{Form, Invocation, Other};
use crate::command_line::{self, invocation};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::filter::Exclusions;
pub use crate::filter::Filter;
use crate::outcome::Sites;
use crate::placing::{Placing, UnitFiles, package};
use crate::report::{FileReport, PlainReason};

/// Globs of functions and files. A function of a system header has no sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globs {
    /// If there are any, only these.
    pub functions: Vec<String>,
    /// If there are any, only functions in these.
    pub files: Vec<String>,
    /// Not these.
    pub no_functions: Vec<String>,
    /// Not functions in these.
    pub no_files: Vec<String>,
}

impl Globs {
    /// Checks the globs.
    ///
    /// # Errors
    /// The glob and its mistake.
    pub fn compile(self) -> Result<Filter, Error> {
        let exclusions = Exclusions {
            functions: self.no_functions,
            files: self.no_files,
            only_functions: self.functions,
            only_files: self.files,
            ..Exclusions::default()
        };
        exclusions.compile()
    }
}

/// An object with sites.
#[derive(Debug)]
pub struct Object {
    /// The outcome of its functions.
    pub report: FileReport,
    /// The compiler's output.
    pub stdout: Vec<u8>,
    /// The compiler's messages, unless it has shown them.
    pub stderr: Vec<u8>,
}

/// Makes the objects of one command line.
pub struct Driver<'a> {
    /// The compiler, with arguments that are always the same.
    pub compiler: &'a Command,
    /// The command line.
    pub invocation: &'a Invocation,
    /// Which functions get sites.
    pub filter: &'a Filter,
    /// An empty folder for files of the way to an object.
    pub scratch: &'a Path,
    /// The folder in which the compiler runs.
    pub folder: &'a Path,
    /// Whether the compiler shows its messages as they come, as on a terminal.
    pub shows: bool,
    dialects: HashMap<String, Result<Dialect, PlainReason>>,
}

impl<'a> Driver<'a> {
    /// Returns a driver that has asked the compiler nothing yet.
    pub fn new(
        compiler: &'a Command,
        invocation: &'a Invocation,
        filter: &'a Filter,
        scratch: &'a Path,
        folder: &'a Path,
    ) -> Self {
        Self { compiler, invocation, filter, scratch, folder, shows: false, dialects: HashMap::new() }
    }

    /// Makes the object of the source with this number; the reason says why it has to be the
    /// compiler's own.
    ///
    /// # Errors
    /// A file of the way can't be written or read.
    pub fn object(&mut self, number: usize, object: &Path) -> Result<Result<Object, PlainReason>, Error> {
        let source = &self.invocation.sources[number];
        let mut compiler = self.with(&self.invocation.flags);
        let dialect = match self.dialect(self.invocation.extension(source))? {
            Ok(dialect) => dialect,
            Err(reason) => return Ok(Err(reason)),
        };
        compiler.args(invocation::dependencies(&self.invocation.flags, object, dialect.family));
        let linked = matches!(self.invocation.form, Form::Linked(..));
        if linked && dialect.family == Family::Clang {
            // Flags of the linker are not used here.
            compiler.arg("-Qunused-arguments");
        }
        let package = package();
        // Cargo's packages tell files apart.
        let folder = if package.trim().is_empty() { self.folder.to_string_lossy() } else { "".into() };
        let placing = Placing {
            compiler: &compiler,
            dialect: &dialect,
            filter: self.filter,
            sites: Sites::EntryReturn,
            package: &package,
            folder: &folder,
            is_linked: linked,
            stderr: self.shows.then_some(Stdio::inherit as fn() -> Stdio),
        };
        let stem = self.scratch.join(number.to_string());
        let files = UnitFiles { object: object.to_owned(), ..UnitFiles::of(&stem) };
        Ok(placing.object(source, &files)?.map(|placed| {
            let mut object = Object {
                report: FileReport::placed(source.clone(), files.object, placed.functions),
                stdout: placed.compiled.stdout,
                stderr: placed.compiled.stderr,
            };
            object.stdout.extend(placed.assembled.stdout);
            if dialect.family == Family::Gnu {
                // As gcc itself shows them. clang's own assembler reads no text of its compiler.
                object.stderr.extend(placed.assembled.stderr);
            }
            object
        }))
    }

    /// Returns the command that links these objects in place of the sources.
    pub fn linking(&self, args: &[OsString], places: &[usize], objects: &[PathBuf]) -> Command {
        let is_clang = |it: &Result<Dialect, _>| it.as_ref().is_ok_and(|it| it.family == Family::Clang);
        let family = if self.dialects.values().any(is_clang) { Family::Clang } else { Family::Gnu };
        self.with(&invocation::linking(args, places, objects, family))
    }

    /// Returns the compiler with these arguments behind its own.
    fn with(&self, args: &[OsString]) -> Command {
        let own: Vec<_> = self.compiler.get_args().map(OsStr::to_owned).collect();
        command_line::with_arguments(self.compiler, &[&own, args].concat())
    }

    fn dialect(&mut self, extension: &str) -> Result<Result<Dialect, PlainReason>, Error> {
        if let Some(known) = self.dialects.get(extension) {
            return Ok(known.clone());
        }
        let compiler = self.with(&command_line::without_language(&self.invocation.flags));
        let dialect = Dialect::query(&compiler, extension, self.scratch)?;
        self.dialects.insert(extension.to_owned(), dialect.clone());
        Ok(dialect)
    }
}

/// Returns why nothing gets sites, whatever the command line is: variables by which the compiler
/// writes further files.
pub fn environment_obstacle() -> Option<PlainReason> {
    let variables =
        ["DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CC_PRINT_OPTIONS", "CCC_OVERRIDE_OPTIONS"];
    let set = variables.into_iter().find(|name| env::var_os(name).is_some());
    set.map(|name| PlainReason::Command(format!("the variable {name}")))
}
