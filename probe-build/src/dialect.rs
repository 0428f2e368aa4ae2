//! The compiler's self-description: whether it is gcc or clang, its target, and the directories of
//! the system's headers.
//!
//! This module runs the compiler with the arguments of the build. The compiler preprocesses an
//! empty file and prints its predefined macros (`-dM`) and its search path (`-v`). So a `-m32` in
//! `CFLAGS`, a wrapper, or a `--target` have the same effect as on the code. There is one query for
//! each extension, because the search path depends on the language. Cost: one run of the compiler's
//! driver and preprocessor.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::asm::Family;
use crate::command_line;
use crate::error::Error;
use crate::report::PlainReason;

/// The facts about the compiler that are needed before it compiles files of one extension.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    /// The compiler family that prints the assembly.
    pub(crate) family: Family,
    /// The system's include directories, as the compiler names them.
    pub(crate) system: Vec<PathBuf>,
}

impl Dialect {
    /// Queries the compiler about files with this extension. The empty file goes to `out_dir`.
    pub(crate) fn query(
        compiler: &Command,
        extension: &str,
        out_dir: &Path,
    ) -> Result<Result<Self, PlainReason>, Error> {
        // Compilers predefine nothing for text that is preprocessed already.
        let extension = match extension {
            "i" => "c",
            "ii" => "cpp",
            other => other,
        };
        let file = out_dir.join("probe-build-empty").with_extension(extension);
        fs::write(&file, "").map_err(Error::file(&file, "write"))?;
        let arguments: Vec<_> = compiler.get_args().map(OsStr::to_owned).collect();
        let mut query = command_line::with_arguments(compiler, &command_line::for_query(&arguments));
        // Directories from the user's environment are not system directories.
        query.env_remove("CPATH").args(["-w", "-E", "-dM", "-v"]).arg(&file);
        let answer = match query.output() {
            Ok(output) if output.status.success() => Ok(output),
            // The compiler is missing, or does not know these flags. If that is a mistake, cc
            // reports it.
            Ok(output) => {
                Err(format!("does not say what it is, but: {}", command_line::complaint(&output.stderr)))
            }
            Err(error) => Err(format!("can't be run: {error}")),
        };
        let name = compiler.get_program().display();
        let compiler = |what: String| PlainReason::Compiler(format!("`{name}` {what}"));
        let answer = match answer {
            Ok(answer) => answer,
            Err(what) => return Ok(Err(compiler(what))),
        };
        let macros = Macros::read(&String::from_utf8_lossy(&answer.stdout));
        if macros.0.is_empty() {
            return Ok(Err(compiler(
                "has no predefined macros, so it is no compiler of C or C++".to_owned(),
            )));
        }
        Ok(macros
            .family()
            .map(|family| Self { family, system: search_path(&String::from_utf8_lossy(&answer.stderr)) }))
    }
}

/// The names of the predefined macros.
struct Macros(Vec<String>);

impl Macros {
    fn read(output: &str) -> Self {
        let defined = output.lines().filter_map(|line| line.strip_prefix("#define "));
        Self(defined.filter_map(|line| line.split([' ', '(']).next()).map(str::to_owned).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|defined| defined == name)
    }

    /// Returns the first of these that is defined.
    fn first<'a>(&self, names: &[(&str, &'a str)]) -> Option<&'a str> {
        names.iter().find(|(name, _)| self.has(name)).map(|(_, what)| *what)
    }

    /// Returns the compiler's family, if its code can be patched.
    fn family(&self) -> Result<Family, PlainReason> {
        let foreign = [
            ("__INTEL_COMPILER", "this is Intel's icc"),
            ("__NVCOMPILER", "this is NVIDIA's compiler"),
            ("__PGI", "this is NVIDIA's compiler"),
            ("__CUDACC__", "this is nvcc"),
            ("__TINYC__", "this is tcc"),
            ("__SUNPRO_C", "this is Oracle's compiler"),
            ("__SUNPRO_CC", "this is Oracle's compiler"),
        ];
        if let Some(name) = self.first(&foreign) {
            return Err(PlainReason::Compiler(name.to_owned()));
        }
        if self.has("__OBJC__") {
            return Err(PlainReason::Language("m".to_owned()));
        }
        if !self.has("__GNUC__") {
            return Err(PlainReason::Compiler("this compiler is neither gcc nor clang".to_owned()));
        }
        self.target()?;
        // Several flags, or the compiler's own configuration, may select these code models, which
        // rule sites out.
        let models =
            [("__code_model_medium__", "-mcmodel=medium"), ("__code_model_large__", "-mcmodel=large")];
        if let Some(flag) = self.first(&models) {
            return Err(PlainReason::Flag(flag.to_owned()));
        }
        Ok(if self.has("__clang__") { Family::Clang } else { Family::Gnu })
    }

    fn target(&self) -> Result<(), PlainReason> {
        let systems = [
            ("__ANDROID__", "Android"),
            ("__linux__", "Linux"),
            ("__APPLE__", "macOS"),
            ("_WIN32", "Windows"),
            ("__FreeBSD__", "FreeBSD"),
        ];
        let processors = [
            ("__x86_64__", "x86-64"),
            ("__i386__", "x86"),
            ("__aarch64__", "AArch64"),
            ("__arm__", "Arm"),
            ("__riscv", "RISC-V"),
        ];
        let system = self.first(&systems).unwrap_or("another system");
        let processor = self.first(&processors).unwrap_or("another processor");
        let is_wide = self.has("__LP64__");
        if (system, processor) == ("Linux", "x86-64") && is_wide && self.has("__ELF__") {
            return Ok(());
        }
        // Windows has no `__LP64__` either: there, `long` is narrow and pointers are not.
        let width = if self.has("__ILP32__") && processor == "x86-64" { " with 32-bit pointers" } else { "" };
        Err(PlainReason::Target(format!("{processor} {system}{width}")))
    }
}

/// Returns the directories between the two lines with which gcc and clang frame them.
fn search_path(output: &str) -> Vec<PathBuf> {
    output
        .lines()
        .skip_while(|line| !line.starts_with("#include <...>"))
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .map(|line| PathBuf::from(line.trim().trim_end_matches(" (framework directory)")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: &str = "#define __linux__ 1\n#define __x86_64__ 1\n#define __LP64__ 1\n#define __ELF__ 1\n";

    fn family(more: &str) -> Result<Family, PlainReason> {
        Macros::read(&format!("{LINUX}{more}")).family()
    }

    #[test]
    fn the_macros_tell_the_family() {
        assert_eq!(family("#define __GNUC__ 12\n"), Ok(Family::Gnu));
        assert_eq!(family("#define __GNUC__ 4\n#define __clang__ 1\n"), Ok(Family::Clang));
        let compiler = |text: &str| Err(PlainReason::Compiler(text.to_owned()));
        assert_eq!(family(""), compiler("this compiler is neither gcc nor clang"));
        assert_eq!(
            family("#define __GNUC__ 4\n#define __INTEL_COMPILER 2021\n"),
            compiler("this is Intel's icc")
        );
        assert_eq!(family("#define __GNUC__ 9\n#define __TINYC__ 927\n"), compiler("this is tcc"));
    }

    #[test]
    fn code_models_and_targets_rule_sites_out() {
        let flag = |text: &str| Err(PlainReason::Flag(text.to_owned()));
        assert_eq!(family("#define __GNUC__ 12\n#define __code_model_large__ 1\n"), flag("-mcmodel=large"));
        assert_eq!(family("#define __GNUC__ 12\n#define __code_model_small__ 1\n"), Ok(Family::Gnu));
        let target = |text: &str| Err(PlainReason::Target(text.to_owned()));
        assert_eq!(family("#define __GNUC__ 4\n#define __ANDROID__ 1\n"), target("x86-64 Android"));
        let x32 = "#define __GNUC__ 12\n#define __linux__ 1\n#define __x86_64__ 1\n#define __ELF__ 1\n#define __ILP32__ 1\n";
        assert_eq!(Macros::read(x32).family(), target("x86-64 Linux with 32-bit pointers"));
        let windows = "#define __GNUC__ 4\n#define __clang__ 1\n#define _WIN32 1\n#define __x86_64__ 1\n";
        assert_eq!(Macros::read(windows).family(), target("x86-64 Windows"));
        let arm = "#define __GNUC__ 12\n#define __linux__ 1\n#define __aarch64__ 1\n#define __LP64__ 1\n";
        assert_eq!(Macros::read(arm).family(), target("AArch64 Linux"));
    }

    #[test]
    fn the_search_path_is_between_its_two_lines() {
        let output = "Using built-in specs.\n#include \"...\" search starts here:\n a\n#include <...> search starts here:\n \
                      /usr/lib/gcc/x86_64-linux-gnu/12/include\n /usr/include\nEnd of search list.\n /not/this\n";
        assert_eq!(
            search_path(output),
            [Path::new("/usr/lib/gcc/x86_64-linux-gnu/12/include"), Path::new("/usr/include")]
        );
        assert_eq!(search_path("nothing"), [] as [&Path; 0]);
    }
}
