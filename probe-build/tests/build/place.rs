//! The directories, compilers and sources of the tests.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probe_build::Build;

pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A compiler of C and its counterpart for C++.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compiler {
    Gcc,
    Clang,
}

impl Compiler {
    pub(crate) fn name(self, cpp: bool) -> &'static str {
        match (self, cpp) {
            (Self::Gcc, false) => "gcc",
            (Self::Gcc, true) => "g++",
            (Self::Clang, false) => "clang",
            (Self::Clang, true) => "clang++",
        }
    }

    /// Returns the installed compilers. gcc is required; a message reports a missing clang.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Gcc];
        if is_there("clang++") {
            all.push(Self::Clang);
        } else {
            println!("skipped for clang: there is no `clang++` in PATH");
        }
        all
    }

    /// Returns the compilers of a test of C++, whose headers take seconds to compile. A slice has
    /// this one, or gcc if it is missing.
    pub(crate) fn all_or_one(in_slice: Self) -> Vec<Self> {
        let mut all = Self::all();
        if env::var("PROBE_TEST_WHOLE").is_ok_and(|value| value == "1") {
            return all;
        }
        let at = all.iter().position(|it| *it == in_slice).unwrap_or(0);
        vec![all.swap_remove(at)]
    }
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns an empty directory for one test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("build").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory for the test");
    directory
}

/// Returns the path of a source file of the tests.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources").join(name)
}

/// Writes a source file.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory for the source");
    fs::write(&path, text).expect("the source can be written");
    path
}

/// Returns an optimised build with this compiler, as outside a build script.
pub(crate) fn build(out_dir: &Path, compiler: &str) -> Build {
    let mut build = Build::new();
    build
        .target(TARGET)
        .host(TARGET)
        .opt_level(2)
        .debug(false)
        .out_dir(out_dir)
        .cargo_metadata(false)
        .compiler(compiler)
        .include(source("include"));
    build
}

/// Links objects to a program and runs it.
pub(crate) fn link_and_run(linker: &str, objects: &[PathBuf], program: &Path) -> String {
    let status = Command::new(linker).args(objects).arg("-o").arg(program).status().expect("the linker runs");
    assert!(status.success(), "{linker} {objects:?}: {status}");
    let output = Command::new(program).output().expect("the program runs");
    assert!(output.status.success(), "{}: {output:?}", program.display());
    String::from_utf8(output.stdout).expect("text")
}
