//! The environment of a program into which the library is preloaded.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

/// The dynamic linker's variable.
pub const LIST: &str = "LD_PRELOAD";
/// The agent's variable.
const AGENT: &str = "PROBE_AGENT";
/// The library's variable.
const WORDS: &str = "PROBE_PRELOAD";

/// The library, and its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preload {
    /// Its absolute path.
    pub library: PathBuf,
    /// Leaves the program's children alone.
    pub only: bool,
    /// Serves a program that has no probes at its start.
    pub plugins: bool,
}

impl Preload {
    /// Changes the environment of a command.
    pub fn add_to(&self, command: &mut Command) {
        let words = [(self.only, "only"), (self.plugins, "plugins")];
        let words: Vec<_> =
            words.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| word).collect();
        if words.is_empty() {
            command.env_remove(WORDS);
        } else {
            command.env(WORDS, words.join(","));
        }
        command.env(LIST, list(env::var_os(LIST), self.library.as_os_str()));
        ask_for_agent(command);
    }
}

/// Lets a command serve its socket, unless the variable says whether it shall.
pub fn ask_for_agent(command: &mut Command) {
    if env::var_os(AGENT).is_none() {
        command.env(AGENT, "1");
    }
}

/// Adds a library to a list, if it is not there. It comes last: other libraries, such as those of
/// sanitizers, must be the first.
fn list(before: Option<OsString>, library: &OsStr) -> OsString {
    let mut list = before.unwrap_or_default();
    let mut entries = list.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    if entries.any(|entry| entry == library.as_bytes()) {
        return list;
    }
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_come_first() {
        let list = |before: &str| list(Some(before.into()), "/lib/a.so".as_ref()).into_string().unwrap();
        assert_eq!(super::list(None, "/lib/a.so".as_ref()), "/lib/a.so");
        assert_eq!(list(""), "/lib/a.so");
        assert_eq!(list("libasan.so b.so"), "libasan.so b.so:/lib/a.so");
        assert_eq!(list("/lib/a.so:b.so"), "/lib/a.so:b.so");
    }
}
