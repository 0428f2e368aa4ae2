//! The files of loaded objects, for the names and the debug information of their functions.

use std::fs;
use std::path::PathBuf;

use probe_hooks::ObjectFile;

use super::objects::Object;
use crate::engine::os::process;

/// Opens the executable, even if its file was renamed.
const EXECUTABLE: &str = "/proc/self/exe";

/// Returns a path where an object's file can be read.
pub(crate) fn readable_path(object: &Object) -> PathBuf {
    if object.is_main { PathBuf::from(EXECUTABLE) } else { PathBuf::from(&object.name) }
}

/// Returns the file of an object.
pub(crate) fn object_file(object: &Object) -> ObjectFile {
    let path = readable_path(object);
    let own_path = if object.is_main { fs::read_link(&path).unwrap_or_default() } else { path.clone() };
    ObjectFile::new(path, own_path, object.base, !process::has_raised_rights())
}
