//! The list of a file's sites beside it, as `coldpatch --list` writes it. A file with its list
//! reads as if it had the table itself.

use std::io::{self, Read};
use std::path::Path;

use probe_coldpatch::{Call, List, Probe};

use crate::elf::{Image, notes, open_regular};
use crate::output::Failure;
use crate::text::hex;

/// A list, and the name of its file.
pub struct SiteList {
    name: String,
    list: List,
}

impl SiteList {
    /// Reads a list.
    ///
    /// # Errors
    /// If it can't be read, or is no list.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let list = List::read(&read_file(path)?);
        list.map(|list| Self { list, name: name.clone() })
            .map_err(|error| Failure::Input(format!("{name} {error}")))
    }

    /// Opens a file with the sites of the list.
    ///
    /// # Errors
    /// If the file can't be read, or the list is another build's.
    pub fn image(&self, path: &Path) -> Result<Image, Failure> {
        let name = path.display().to_string();
        let bytes = read_file(path)?;
        let image = Image::read(&name, Box::new(bytes.clone())).map_err(Failure::input)?;
        let applied = self.list.applied(&bytes, build_id(&image)?.as_deref());
        let applied = applied.map_err(|error| Failure::Input(format!("{name} {error} ({})", self.name)))?;
        Image::read(&name, Box::new(applied)).map_err(Failure::input)
    }

    /// Returns the jumps to hooks that stay in the file, and their probes.
    ///
    /// # Errors
    /// If the list has a probe of a kind that is not known.
    pub fn jumps(&self) -> Result<(Vec<Probe>, Vec<Call>), Failure> {
        self.list.jumps().map_err(|error| Failure::Input(format!("{} {error}", self.name)))
    }

    /// Returns whether it is the list of a file's build.
    pub fn is_of(&self, image: &Image) -> bool {
        build_id(image).is_ok_and(|id| id.as_deref() == Some(self.list.build_id()))
    }

    /// Returns the error if nothing is of the list's build.
    pub fn unused(&self, what: &str) -> Failure {
        let Self { name, list } = self;
        Failure::Input(format!("no object of {what} has the build id of {name}, {}", list.build_id()))
    }
}

/// Reads a whole regular file.
///
/// # Errors
/// The system's, with the file's name.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = || -> io::Result<_> {
        let mut bytes = Vec::new();
        open_regular(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| Failure::Input(format!("{} can't be read: {error}", path.display())))
}

/// Returns the build's id in hexadecimal; `None` if the file has none.
///
/// # Errors
/// If the file's notes can't be read.
pub fn build_id(image: &Image) -> Result<Option<String>, Failure> {
    let notes = notes(image).map_err(|problem| Failure::input(image.error(problem)))?;
    Ok(notes.build_id.map(|id| hex(&id).replace(' ', "")))
}
