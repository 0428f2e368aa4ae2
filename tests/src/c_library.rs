//! Compiling C and C++ at test time, with hand-placed probes (`probe.h`), by whichever compilers
//! are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A C and a C++ compiler of one make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Make {
    /// The C compiler.
    pub c: &'static str,
    /// The C++ compiler.
    pub cpp: &'static str,
}

/// Both makes that `probe.h` knows.
const MAKES: [Make; 2] = [Make { c: "gcc", cpp: "g++" }, Make { c: "clang", cpp: "clang++" }];

/// The makes that are installed, both compilers of each.
///
/// # Panics
/// If there is none: nothing would be tested.
#[must_use]
pub fn makes() -> Vec<Make> {
    let is_there = |compiler: &str| Command::new(compiler).arg("--version").output().is_ok();
    let makes: Vec<_> = MAKES.into_iter().filter(|make| is_there(make.c) && is_there(make.cpp)).collect();
    assert!(!makes.is_empty(), "there is neither gcc nor clang in PATH");
    makes
}

/// A file of `tests/c_api`.
#[must_use]
pub fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c_api").join(file)
}

/// The result of a compiler run.
#[derive(Debug)]
pub struct Said {
    /// Whether it succeeded.
    pub is_done: bool,
    /// Warnings and errors.
    pub messages: String,
}

/// Runs a compiler with the folder of `probe.h` on its include path.
///
/// # Panics
/// If it can't be run.
#[must_use]
pub fn run(compiler: &str, flags: &[&str], sources: &[&Path], out: &Path) -> Said {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probe-build/include");
    let mut command = Command::new(compiler);
    command.arg("-I").arg(include).args(flags).args(sources).arg("-o").arg(out);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    Said { is_done: output.status.success(), messages: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Compiles; warnings of `-Wall` and beyond are errors.
///
/// # Panics
/// If that fails, with what the compiler said.
pub fn compile(compiler: &str, flags: &[&str], sources: &[&Path], out: &Path) {
    let mut all = vec!["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
    all.extend(flags);
    let said = run(compiler, &all, sources, out);
    assert!(said.is_done, "{compiler} {flags:?}:\n{}", said.messages);
}

/// Compiles files of `tests/c_api` to a shared library, with this provider.
///
/// # Panics
/// If that fails, with what the compiler said.
pub fn shared_library(compiler: &str, provider: &str, flags: &[&str], files: &[&str], out: &Path) {
    let provider = format!("-DPROBE_PROVIDER=\"{provider}\"");
    let mut all = vec!["-shared", "-fPIC", "-w", &provider];
    all.extend(flags);
    let sources: Vec<PathBuf> = files.iter().map(|file| source(file)).collect();
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    compile(compiler, &all, &sources, out);
}
