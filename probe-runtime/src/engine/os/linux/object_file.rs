//! The files of loaded objects, for the names and the debug information of their functions.

use std::fs;
#[cfg(probe_values)]
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use probe_hooks::ObjectFile;

use super::objects::Object;
#[cfg(probe_values)]
use crate::engine::os::maps::{self, Maps};
use crate::engine::os::process;

/// Opens the executable, even if its file was renamed.
const EXECUTABLE: &str = "/proc/self/exe";

/// Returns a path where an object's file can be read.
pub(crate) fn readable_path(object: &Object) -> PathBuf {
    if object.is_main { PathBuf::from(EXECUTABLE) } else { PathBuf::from(&object.name) }
}

/// Returns the file of an object, if it is the one that was loaded; `None` if another one has taken
/// its place, or nobody knows.
#[cfg(probe_values)]
pub(crate) fn same_file(object: &Object) -> Option<ObjectFile> {
    if !object.is_main {
        let mapped = object.segments.first()?.range.start;
        let now = fs::metadata(readable_path(object)).ok()?;
        // The inode of a mapped file is in use. Devices of stacked file systems have two numbers.
        let maps = Maps::open().and_then(Maps::text).ok()?;
        (maps::inode(&maps, mapped)? == now.ino()).then_some(())?;
    }
    Some(object_file(object))
}

/// Returns the file of an object.
pub(crate) fn object_file(object: &Object) -> ObjectFile {
    let path = readable_path(object);
    let own_path = if object.is_main { fs::read_link(&path).unwrap_or_default() } else { path.clone() };
    ObjectFile::new(path, own_path, object.base, !process::has_raised_rights())
}
