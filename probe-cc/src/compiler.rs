//! The real compiler: the one that a variable names, or the first one in `PATH` that is not this
//! program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::Setup;

/// The language of a compiler's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `probe-cc`.
    C,
    /// `probe-cxx`.
    Cxx,
}

impl Language {
    /// Returns the variable that names the real compiler.
    fn variable(self) -> &'static str {
        match self {
            Self::C => "PROBE_CC",
            Self::Cxx => "PROBE_CXX",
        }
    }

    fn compilers(self) -> [&'static str; 3] {
        match self {
            Self::C => ["cc", "gcc", "clang"],
            Self::Cxx => ["c++", "g++", "clang++"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cxx => "C++",
        }
    }
}

/// Is set for the compiler, so that this program knows if the compiler runs it again.
const INSIDE: &str = "PROBE_CC_INSIDE";

/// Returns the real compiler. A variable may have arguments, too, as in `ccache gcc`.
pub(crate) fn find(language: Language) -> Result<Command, Setup> {
    let variable = language.variable();
    if let Some(inside) = env::var_os(INSIDE) {
        return Err(Setup::Again { compiler: inside.to_string_lossy().into_owned(), variable });
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let this = identities();
    let is_this = |file: &Path| identity(file).is_some_and(|it| this.contains(&it));
    let mut command = if let Some(value) = env::var_os(variable).filter(|it| !it.is_empty()) {
        let value = value.into_string().map_err(|_| Setup::NotText(variable))?;
        let mut words = value.split_whitespace();
        let Some(program) = words.next() else { return Err(Setup::Empty(variable)) };
        for word in value.split_whitespace() {
            if located(word, &path).is_some_and(|file| is_this(&file)) {
                return Err(Setup::Itself { variable, value });
            }
        }
        if located(program, &path).is_none() {
            return Err(Setup::Missing { variable, program: program.to_owned() });
        }
        let mut command = Command::new(program);
        command.args(words);
        command
    } else {
        let all = language.compilers();
        let found = all.iter().find_map(|name| files(name, &path).find(|file| !is_this(file)));
        Command::new(found.ok_or(Setup::None { language: language.name(), all, variable })?)
    };
    let program = command.get_program().to_owned();
    command.env(INSIDE, program);
    Ok(command)
}

/// Returns the same command once more.
pub(crate) fn again(compiler: &Command) -> Command {
    let mut again = Command::new(compiler.get_program());
    again.args(compiler.get_args());
    again.envs(compiler.get_envs().filter_map(|(name, value)| Some((name, value?))));
    again
}

/// Returns the executable files of this name, in the order of `PATH`.
fn files<'a>(name: &'a str, path: &'a OsStr) -> impl Iterator<Item = PathBuf> + 'a {
    let is_executable =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0);
    env::split_paths(path).map(move |folder| folder.join(name)).filter(is_executable)
}

/// Returns the file that a shell would run.
fn located(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        Some(program.into()).filter(|it: &PathBuf| it.is_file())
    } else {
        files(program, path).next()
    }
}

/// Device and inode, also through links.
fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|it| (it.dev(), it.ino()))
}

/// Returns the identities of this program and of its sibling for the other language.
fn identities() -> Vec<(u64, u64)> {
    let Ok(this) = env::current_exe() else { return Vec::new() };
    let siblings = ["probe-cc", "probe-cxx"].map(|name| this.with_file_name(name));
    [this].iter().chain(&siblings).filter_map(|file| identity(file)).collect()
}

/// Returns the language by the name under which this program was started: that of a link to it may
/// end in `++`.
pub(crate) fn language(own: &OsString, language: Language) -> Language {
    if own.as_encoded_bytes().ends_with(b"++") { Language::Cxx } else { language }
}
