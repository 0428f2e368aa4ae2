//! The file that the kernel starts for a command.
//!
//! A script is started by its interpreter, so the interpreter is the file that matters.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Obstacle;
use crate::elf::{ElfError, Image, Runtime, open_regular};

/// Bytes of a script that the kernel looks at.
const HEAD: u64 = 256;
/// Scripts in a row that the kernel follows.
const SCRIPTS: usize = 5;
/// The interpreter of a text that names none.
const SHELL: &str = "/bin/sh";

/// The program of a command.
#[derive(Debug)]
pub struct Starting {
    /// Its file: of a script, the interpreter.
    pub file: PathBuf,
    /// The obstacle to preloading, if there is one.
    pub obstacle: Option<Obstacle>,
    /// Its own runtime.
    pub runtime: Option<Runtime>,
}

impl Starting {
    /// Finds the program, as the system does. `None` if there is no such file.
    pub fn of(command: &OsStr) -> Option<Self> {
        let mut file = found(command)?;
        for _ in 0..SCRIPTS {
            match interpreter(&file) {
                Some(interpreter) => file = interpreter,
                None => break,
            }
        }
        let metadata = fs::metadata(&file).ok()?;
        let (obstacle, runtime) = match Image::open(&file) {
            Ok(image) => (Obstacle::of(&file, &metadata, &image), Runtime::of(&image).ok().flatten()),
            Err(error) => (Some(unread(&file, error)), None),
        };
        Some(Self { file, obstacle, runtime })
    }
}

/// A file that its user may start, but not read, differs from one of another kind.
fn unread(file: &Path, error: ElfError) -> Obstacle {
    if open_regular(file).is_ok() { Obstacle::Foreign(error) } else { Obstacle::Unread(error) }
}

/// Finds the file of a command: a path, or a name in `PATH`.
fn found(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(command.into()).filter(|it: &PathBuf| it.exists());
    }
    let path = env::var_os("PATH")?;
    let files = env::split_paths(&path).map(|folder| folder.join(command));
    files
        .into_iter()
        .find(|file| fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0))
}

/// Returns the interpreter of a script; `None` if the file is none.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    open_regular(file).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    named(&head)
}

/// Returns the interpreter that the first bytes of a file name.
fn named(head: &[u8]) -> Option<PathBuf> {
    if head.starts_with(b"\x7fELF") {
        return None;
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        // The shell runs other texts. A zero byte tells that a file is none.
        let is_text = !head.is_empty() && !head.split(|byte| *byte == b'\n').next()?.contains(&0);
        return is_text.then(|| SHELL.into());
    };
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(u8::is_ascii_whitespace).next()?;
    (!name.is_empty()).then(|| OsStr::from_bytes(name).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scripts_name_their_interpreters() {
        let named = |head: &str| named(head.as_bytes()).map(|it| it.display().to_string());
        assert_eq!(named("#!/bin/sh\necho"), Some("/bin/sh".to_owned()));
        assert_eq!(named("#! \t/usr/bin/env python3 -u\n"), Some("/usr/bin/env".to_owned()));
        assert_eq!(named("#!/bin/sh"), Some("/bin/sh".to_owned()));
        assert_eq!(named("#!\n"), None);
        assert_eq!(named("echo\n"), Some("/bin/sh".to_owned()));
        assert_eq!(named("\x7fELF\x02"), None);
        assert_eq!(named("MZ\0\0"), None);
        assert_eq!(named(""), None);
    }

    #[test]
    fn a_name_is_looked_for_and_a_path_is_not() {
        assert!(found("sh".as_ref()).is_some_and(|it| it.ends_with("sh") && it.is_absolute()));
        assert_eq!(found("/bin/sh".as_ref()), Some("/bin/sh".into()));
        assert_eq!(found("./no/such".as_ref()), None);
        assert_eq!(found("no-such-command".as_ref()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_have_one_or_none(head: Vec<u8>) {
            let _ = named(&head);
        }
    }
}
