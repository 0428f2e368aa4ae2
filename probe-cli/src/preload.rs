//! Starts a program with `libprobe_agent.so`, the library that brings the runtime to programs which
//! only have latent probes.
//!
//! ```text
//! command ──▶ starting: the file that the kernel starts ──▶ obstacles, a runtime of its own
//! --agent, a variable, folders ──▶ library ──▶ environment: LD_PRELOAD, PROBE_AGENT, PROBE_PRELOAD
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{self, Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs};

use rustix::fs::getxattr;
use rustix::process::{getgid, getuid};

use crate::elf::{Dynamic, ElfError, Image, ObjectType, Runtime, open_regular};
use crate::output::Failure;

/// The variable of the dynamic linker.
pub const LIST_VARIABLE: &str = "LD_PRELOAD";
/// The variable that starts an agent.
const AGENT_VARIABLE: &str = "PROBE_AGENT";
/// The variable with the library's options.
const OPTIONS_VARIABLE: &str = "PROBE_PRELOAD";

/// The library, and its options.
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
        let options = [(self.only, "only"), (self.plugins, "plugins")];
        let options: Vec<_> =
            options.into_iter().filter(|(is_set, _)| *is_set).map(|(_, option)| option).collect();
        if options.is_empty() {
            command.env_remove(OPTIONS_VARIABLE);
        } else {
            command.env(OPTIONS_VARIABLE, options.join(","));
        }
        command.env(LIST_VARIABLE, list(env::var_os(LIST_VARIABLE), self.library.as_os_str()));
        ask_for_agent(command);
    }
}

/// Starts an agent in a command, unless the variable is set already.
pub fn ask_for_agent(command: &mut Command) {
    if env::var_os(AGENT_VARIABLE).is_none() {
        command.env(AGENT_VARIABLE, "1");
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

const LIBRARY: &str = "libprobe_agent.so";

/// The variable that names the file.
const LIBRARY_VARIABLE: &str = "PROBE_AGENT_LIBRARY";

const REMEDY: &str = "build it by `cargo build --release -p probe-agent` in a copy of the repository, and name it by --agent or PROBE_AGENT_LIBRARY";

/// Returns the library's absolute path: the given one, the one in the variable, or that of a file
/// beside `probectl` or in `../lib`.
///
/// # Errors
/// If there is none, if it is another file, or if `LD_PRELOAD` can't name it.
pub fn library(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = env::var_os(LIBRARY_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
    let file = match given.map(Path::to_owned).or(variable) {
        Some(file) => file,
        None => installed()?,
    };
    let file = path::absolute(&file).unwrap_or(file);
    check(&file)?;
    Ok(file)
}

fn installed() -> Result<PathBuf, Failure> {
    let own =
        env::current_exe().map_err(|error| Failure::input(format!("{LIBRARY} can't be found: {error}")))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let folders = [Some(folder.to_owned()), folder.parent().map(|it| it.join("lib"))];
    let folders: Vec<_> = folders.into_iter().flatten().collect();
    let found = folders.iter().map(|folder| folder.join(LIBRARY)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let folders: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
        Failure::Input(format!("{LIBRARY} is not in {}; {REMEDY}", folders.join(", nor in ")))
    })
}

fn check(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    if file.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
        return Err(Failure::Usage(format!(
            "{shown} can't be preloaded: LD_PRELOAD has no way to name a file with a space or a colon; copy it to \
             another place"
        )));
    }
    let is_it = || -> Result<bool, ElfError> {
        let image = Image::open(file)?;
        let runtime = Runtime::of(&image).map_err(|problem| image.error(problem))?;
        Ok(image.object_type() == ObjectType::Shared && runtime.is_some_and(|it| it.has_agent))
    };
    match is_it() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Input(format!("{shown} has no agent, so it is not {LIBRARY}; {REMEDY}"))),
        Err(error) => Err(Failure::Input(format!("{error}; {REMEDY}"))),
    }
}

/// Bytes of a script that the kernel reads.
const SCRIPT_HEAD_LEN: u64 = 256;
/// Scripts whose interpreters are scripts, at most, as for the kernel.
const MAX_SCRIPTS: usize = 5;
/// The interpreter of a text without a `#!` line.
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
        for _ in 0..MAX_SCRIPTS {
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

/// Tells a file that can't be read from a file of another kind.
fn unread(file: &Path, error: ElfError) -> Obstacle {
    if open_regular(file).is_ok() { Obstacle::Foreign(error) } else { Obstacle::Unread(error) }
}

/// Finds the file of a command: a path, or a name in `PATH`.
pub(crate) fn found(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(command.into()).filter(|it: &PathBuf| it.exists());
    }
    let path = env::var_os("PATH")?;
    let files = env::split_paths(&path).map(|folder| folder.join(command));
    files
        .into_iter()
        .find(|file| fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0))
}

/// Returns the `#!` interpreter; `None` if the file is not a script.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    open_regular(file).ok()?.take(SCRIPT_HEAD_LEN).read_to_end(&mut head).ok()?;
    named(&head)
}

/// Returns the interpreter that the first bytes of a file name.
fn named(head: &[u8]) -> Option<PathBuf> {
    if head.starts_with(b"\x7fELF") {
        return None;
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        // The shell runs other texts. A file with a zero byte in its first line is not a text.
        let is_text = !head.is_empty() && !head.split(|byte| *byte == b'\n').next()?.contains(&0);
        return is_text.then(|| SHELL.into());
    };
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(u8::is_ascii_whitespace).next()?;
    (!name.is_empty()).then(|| OsStr::from_bytes(name).into())
}

/// Why a library can't be preloaded into a program.
#[derive(Debug)]
pub enum Obstacle {
    /// It is loaded without a dynamic linker.
    Static,
    /// Its file gives it rights that its caller lacks.
    Raised(&'static str),
    /// Its dynamic linker is that of another C library.
    Loader(PathBuf),
    /// This library of a sanitizer must be loaded first, or it ends the program.
    Sanitizer(String),
    /// It is not a program for x86-64, or is damaged.
    Foreign(ElfError),
    /// Its file can't be read, so nothing is known of it.
    Unread(ElfError),
}

/// The file's attribute with its capabilities.
const CAPABILITIES: &str = "security.capability";
const SETUID: u32 = 0o4000;
/// With the group's right to execute, without which the bit has another meaning.
const SETGID: u32 = 0o2010;

impl Obstacle {
    /// Returns the obstacle to preloading into this file.
    pub fn of(file: &Path, metadata: &Metadata, image: &Image) -> Option<Self> {
        match image.interpreter() {
            Ok(None) => Some(Self::Static),
            Ok(Some(loader)) if !is_glibc(&loader) => Some(Self::Loader(loader)),
            Ok(Some(_)) => raised(file, metadata).map(Self::Raised).or_else(|| sanitizer(image)),
            Err(problem) => Some(Self::Unread(image.error(problem))),
        }
    }

    /// Returns whether the program, or one of the same kind, would fail or complain with the
    /// library in its environment.
    pub fn does_harm(&self) -> bool {
        matches!(self, Self::Loader(_) | Self::Sanitizer(_) | Self::Foreign(_))
    }
}

/// Returns the library of `AddressSanitizer` that a program needs, unless it is preloaded, too. It
/// insists on being the first library, and a preloaded one comes before all others.
fn sanitizer(image: &Image) -> Option<Obstacle> {
    let library =
        Dynamic::read(image, 0).and_then(|it| it.needed()).ok()?.into_iter().find(|it| is_sanitizer(it))?;
    let preloaded = env::var_os(LIST_VARIABLE).unwrap_or_default();
    let has_it = preloaded.to_string_lossy().split([':', ' ']).any(is_sanitizer);
    (!has_it).then_some(Obstacle::Sanitizer(library))
}

/// Returns whether a library is `AddressSanitizer`'s, by its path or name: gcc's or clang's.
fn is_sanitizer(library: &str) -> bool {
    let name = library.rsplit('/').next().unwrap_or(library);
    name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan")
}

/// Returns the reason for which the kernel tells the dynamic linker to preload nothing
/// (`AT_SECURE`).
fn raised(file: &Path, metadata: &Metadata) -> Option<&'static str> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    if metadata.mode() & SETUID == SETUID && metadata.uid() != user {
        Some("setuid")
    } else if metadata.mode() & SETGID == SETGID && metadata.gid() != group {
        Some("setgid")
    } else if user != 0 && getxattr(file, CAPABILITIES, &mut [0_u8; 64]).is_ok() {
        Some("capabilities")
    } else {
        None
    }
}

/// Returns whether a dynamic linker is that of glibc, which the library is built for.
fn is_glibc(loader: &Path) -> bool {
    loader.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("is static, so no library can be preloaded into it"),
            Self::Raised(how) => write!(
                f,
                "has rights that its caller lacks ({how}), so the dynamic linker preloads nothing into it"
            ),
            Self::Loader(loader) => write!(
                f,
                "is loaded by {}, and the library to preload needs the dynamic linker of glibc",
                loader.display()
            ),
            Self::Sanitizer(library) => write!(
                f,
                "needs {library} (AddressSanitizer) as the first library; preload both: \
                 LD_PRELOAD={library} probectl …"
            ),
            Self::Foreign(error) => write!(f, "can't have the library: {error}"),
            Self::Unread(error) => write!(f, "may not get the library: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_libraries_come_first() {
        let list = |before: &str| list(Some(before.into()), "/lib/a.so".as_ref()).into_string().unwrap();
        assert_eq!(super::list(None, "/lib/a.so".as_ref()), "/lib/a.so");
        assert_eq!(list(""), "/lib/a.so");
        assert_eq!(list("libasan.so b.so"), "libasan.so b.so:/lib/a.so");
        assert_eq!(list("/lib/a.so:b.so"), "/lib/a.so:b.so");
    }

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
