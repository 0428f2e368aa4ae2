//! One file: to assembly, with sites, to an object.
//!
//! The caller shows the compiler's output, once it is known which object results.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::asm::{self, Family, Function, Request};
use crate::command_line::{self, complaint};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::filter::Filter;
use crate::outcome::{Outcome, Sites};
use crate::report::PlainReason;
use crate::section_names;

/// How a file gets its sites.
pub(crate) struct Placing<'a> {
    /// The compiler with its arguments, without files.
    pub(crate) compiler: &'a Command,
    pub(crate) dialect: &'a Dialect,
    pub(crate) filter: &'a Filter,
    pub(crate) sites: Sites,
    pub(crate) package: &'a str,
    /// The folder of relative file names; empty if the package tells files apart.
    pub(crate) folder: &'a str,
    /// Whether the compiler would make a program of the source at once.
    pub(crate) is_linked: bool,
    /// The target of the compiler's messages; `None` collects them.
    pub(crate) stderr: Option<fn() -> Stdio>,
}

/// An object with sites.
pub(crate) struct Placed {
    pub(crate) functions: Vec<(Function, Outcome)>,
    /// The command that made assembly, and its output.
    pub(crate) compile: Command,
    pub(crate) compiled: Output,
    pub(crate) assembled: Output,
}

impl Placing<'_> {
    /// Makes the object of a source; the reason says why it would be plain.
    pub(crate) fn object(
        &self,
        source: &Path,
        files: &UnitFiles,
    ) -> Result<Result<Placed, PlainReason>, Error> {
        let mut compile = self.to_assembly(self.sites, source, &files.assembly);
        if let Some(stderr) = self.stderr {
            compile.stderr(stderr());
        }
        let compiled = match run(&mut compile) {
            Ok(output) => output,
            Err(message) => return Ok(Err(PlainReason::Assembly(message))),
        };
        let text = fs::read(&files.assembly).map_err(Error::file(&files.assembly, "read"))?;
        let Some(text) = asm::decode(text) else {
            return Ok(Err(PlainReason::Unplaced(
                "the assembly has characters of Unicode's private use".to_owned(),
            )));
        };
        let wants = self.filter.for_unit(&self.dialect.system);
        let request = Request {
            sites: self.sites,
            compiler: self.dialect.family,
            keep_debug: self.keeps_debug(),
            package: self.package,
            folder: self.folder,
            wants: &wants,
            without_hooks: &|| {
                run(&mut self.to_assembly(Sites::None, source, &files.without_hooks)).ok()?;
                asm::decode(fs::read(&files.without_hooks).ok()?)
            },
        };
        let quoted = asm::quoted(&text);
        let placed = match asm::place(&quoted, &request) {
            Ok(placed) => placed,
            Err(unplaced) => return Ok(Err(PlainReason::Unplaced(unplaced.to_string()))),
        };
        drop(quoted);
        drop(text);
        fs::write(&files.placed, asm::encode(placed.text)).map_err(Error::file(&files.placed, "write"))?;
        let functions = placed.functions;
        let mut assemble = self.to_object(files);
        if self.keeps_long_jumps(source) {
            assemble.arg("-mrelax-all");
        }
        let assembled = match run(&mut assemble) {
            Ok(output) => output,
            Err(message) => return Ok(Err(PlainReason::Assembler(message))),
        };
        let object = &files.object;
        let mut bytes = fs::read(object).map_err(Error::file(object, "read"))?;
        match section_names::cut(&mut bytes) {
            Ok(0) => {}
            Ok(_) => {
                // The file may be another name of one in a compiler's cache, so it is made anew.
                fs::remove_file(object).map_err(Error::file(object, "replace"))?;
                fs::write(object, bytes).map_err(Error::file(object, "write"))?;
            }
            Err(why) => return Ok(Err(PlainReason::Unplaced(why.to_owned()))),
        }
        Ok(Ok(Placed { functions, compile, compiled, assembled }))
    }

    fn to_assembly(&self, sites: Sites, source: &Path, assembly: &Path) -> Command {
        let mut command =
            command_line::with_arguments(self.compiler, &command_line::for_compiling(&self.arguments()));
        if !self.keeps_debug() {
            // For the functions' files and lines. Unrequested debug information is removed again.
            command.arg("-g1");
        }
        if self.dialect.family == Family::Gnu {
            // Prints each instruction's pattern, which distinguishes a tail call from a jump
            // through a table.
            command.arg("-dp");
        } else {
            // Comments distinguish code compiled from C from assembly in the source.
            command.arg("-fverbose-asm");
        }
        if sites == Sites::InstrumentFunctions {
            command.args(["-finstrument-functions", "-fno-optimize-sibling-calls"]);
            if self.dialect.family == Family::Gnu {
                // Otherwise, two functions inlined into one may share a call of the exit hook,
                // distinguished at run time.
                command.arg("-fno-crossjumping");
            }
        }
        command.arg("-S").arg("-o").arg(assembly).arg(source);
        command
    }

    fn to_object(&self, files: &UnitFiles) -> Command {
        let mut command =
            command_line::with_arguments(self.compiler, &command_line::for_assembly(&self.arguments()));
        if self.dialect.family == Family::Clang {
            // Compiler flags have no effect here, which is not a mistake.
            command.arg("-Qunused-arguments");
        }
        command.args(["-x", "assembler", "-c", "-o"]).arg(&files.object).arg(&files.placed);
        command
    }

    /// Returns whether clang would shorten no jumps. Without optimisation its driver tells the
    /// assembler so, depending on the version, but not for a file of assembly.
    fn keeps_long_jumps(&self, source: &Path) -> bool {
        let arguments = self.arguments();
        if self.dialect.family != Family::Clang || self.is_linked || command_line::optimises(&arguments) {
            return false;
        }
        let mut explain = command_line::with_arguments(self.compiler, &arguments);
        let explained = explain.args(["-###", "-c"]).arg(source).output();
        explained.is_ok_and(|it| String::from_utf8_lossy(&it.stderr).contains("\"-mrelax-all\""))
    }

    fn keeps_debug(&self) -> bool {
        command_line::wants_debug_info(&self.arguments())
    }

    fn arguments(&self) -> Vec<std::ffi::OsString> {
        self.compiler.get_args().map(OsStr::to_owned).collect()
    }
}

/// The files made from a unit.
#[derive(Debug)]
pub(crate) struct UnitFiles {
    pub(crate) assembly: PathBuf,
    pub(crate) without_hooks: PathBuf,
    pub(crate) placed: PathBuf,
    pub(crate) object: PathBuf,
}

impl UnitFiles {
    pub(crate) fn of(stem: &Path) -> Self {
        Self {
            assembly: stem.with_extension("s"),
            without_hooks: stem.with_extension("plain.s"),
            placed: stem.with_extension("probes.s"),
            object: stem.with_extension("o"),
        }
    }

    pub(crate) fn remove(&self) {
        for file in [&self.assembly, &self.without_hooks, &self.placed] {
            // A file that stays does no harm.
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns the package being built, as cargo names it; empty outside build scripts.
pub(crate) fn package() -> String {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    format!("{} {}", variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"))
}

/// Runs a command to its end; the error is its complaint.
fn run(command: &mut Command) -> Result<Output, String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => Err(complaint(&output.stderr)),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}
