//! The reasons why nothing can be preloaded into a program.

use std::env;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::{getgid, getuid};

use super::environment::LIST;
use crate::elf::{Dynamic, ElfError, Image};

/// Why a library can't be preloaded into a program.
#[derive(Debug)]
pub enum Obstacle {
    /// It is loaded without a dynamic linker.
    Static,
    /// Its file gives it rights that its caller lacks.
    Raised(&'static str),
    /// Its dynamic linker is that of another C library.
    Loader(PathBuf),
    /// This library of a sanitizer must be the first one that is loaded, and ends the program else.
    Sanitizer(String),
    /// It is no program for this library's processor, or is damaged.
    Foreign(ElfError),
    /// Its file can't be read, so nothing is known of it.
    Unread(ElfError),
}

/// The file's attribute with its capabilities.
const CAPABILITIES: &str = "security.capability";
const SETUID: u32 = 0o4000;
/// With the group's right to execute; without that, the bit has another meaning.
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

/// Returns the library of `AddressSanitizer` that a program needs, unless it is preloaded, too. A
/// preloaded library comes before all others, and it insists on being the first one.
fn sanitizer(image: &Image) -> Option<Obstacle> {
    let library =
        Dynamic::read(image, 0).and_then(|it| it.needed()).ok()?.into_iter().find(|it| is_sanitizer(it))?;
    let preloaded = env::var_os(LIST).unwrap_or_default();
    let has_it = preloaded.to_string_lossy().split([':', ' ']).any(is_sanitizer);
    (!has_it).then_some(Obstacle::Sanitizer(library))
}

/// Returns whether a library is `AddressSanitizer`'s, by its path or name: gcc's or clang's.
fn is_sanitizer(library: &str) -> bool {
    let name = library.rsplit('/').next().unwrap_or(library);
    name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan")
}

/// The kernel tells the dynamic linker of the same (`AT_SECURE`).
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
