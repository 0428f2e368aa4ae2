//! Folders, compilers and runs of the tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use probe_tests::folder::Folder;

/// A compiler of C, and its C++.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    pub c: &'static str,
    pub cxx: &'static str,
}

/// Returns the compilers that there are here.
pub fn compilers() -> Vec<Compiler> {
    let of = |c| Compiler { c, cxx: if c == "gcc" { "g++" } else { "clang++" } };
    let all: Vec<_> = probe_tests::instrumented::compilers().into_iter().map(of).collect();
    if all.len() == 1 {
        println!("skipped for clang: it is not there");
    }
    all
}

/// Returns whether a program is there; if not, says that a test is skipped.
pub fn has(program: &str) -> bool {
    let command = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let is_there = command.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: there is no {program}");
    }
    is_there
}

pub const CC: &str = env!("CARGO_BIN_EXE_probe-cc");
pub const CXX: &str = env!("CARGO_BIN_EXE_probe-cxx");

impl Compiler {
    /// Returns `probe-cc` or `probe-cxx` with this compiler behind it.
    pub fn probed(self, is_cxx: bool) -> Command {
        let mut command = Command::new(if is_cxx { CXX } else { CC });
        self.behind(&mut command);
        command
    }

    pub fn plain(self, is_cxx: bool) -> Command {
        let mut command = Command::new(if is_cxx { self.cxx } else { self.c });
        clean(&mut command);
        command
    }

    /// Sets the variables for a build.
    pub fn behind(self, command: &mut Command) {
        clean(command);
        command.env("PROBE_CC", self.c).env("PROBE_CXX", self.cxx);
    }
}

/// Removes variables that would change compilers, or this program.
pub fn clean(command: &mut Command) {
    for name in [
        "PROBE_CC_FILTER", "PROBE_CC_LOG", "CARGO_PKG_NAME", "CARGO_PKG_VERSION", "PROBES", "CPATH",
        "MAKEFLAGS",
    ] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
}

/// Makes a folder with files.
pub fn folder(name: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(name);
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns all files of a folder, by their paths in it.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            all.extend(files(&path).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)));
        } else {
            all.insert(name, fs::read(path).unwrap());
        }
    }
    all
}

/// Returns the output of a command that ends well.
#[track_caller]
pub fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program with the agent, and returns its rows of `**=count`: probe, kind, sites, hits.
pub fn counted(program: &Path) -> (Output, Vec<String>) {
    let agent = std::env::current_exe().unwrap().with_file_name("libprobe_agent.so");
    let mut command = Command::new(program);
    clean(&mut command);
    // Some write files at their ends.
    command.current_dir(program.parent().unwrap());
    let output = done(command.env("LD_PRELOAD", agent).env("PROBES", "**=count"));
    let report = text(&output.stderr);
    let mut rows: Vec<_> =
        report.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    rows.sort();
    (output, rows)
}
