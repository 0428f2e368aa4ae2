//! A file that is there whole, or as it was before.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use crate::os;

/// Writes a file, and makes the folders that it lies in: first beside it, under a name that is nobody's, then it takes the name. What
/// was there is replaced then, at once, be it a file or a link to one. What is no plain file (a terminal, a pipe, `/dev/stdout`) is
/// written to as it is; a pipe that nobody reads is an error, since a program that exits can't wait for a reader.
pub(super) fn write(path: &Path, content: &str) -> io::Result<()> {
    if is_stream(path) {
        return os::stream::open(path)?.write_all(content.as_bytes());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = beside(path);
    // Of a process that had this number, and ended while it wrote.
    let _ = fs::remove_file(&beside);
    let written = write_new(&beside, content).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // It may never have been there.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Whether it is no file to replace, but what others read from, or have open.
pub(super) fn is_stream(path: &Path) -> bool {
    // What these lead to may be a plain file, which is open, and must stay the one that it is.
    const OPEN: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    OPEN.iter().any(|open| path.starts_with(open))
        || fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content.as_bytes())?;
    // So that a full disk, or a lost server, is noticed while there is another way to report.
    file.sync_data()
}

/// A hidden name, so that who gathers `*.json` does not see it.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", process::id()))
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("probes-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = (fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_there_is_replaced_whole() {
        let folder = folder("whole");
        let path = folder.join("a/b.json");
        write(&path, "a longer text").unwrap();
        // Who has it open goes on to read what it was.
        let open = fs::File::open(&path).unwrap();
        fs::write(beside(&path), "left behind").unwrap();
        write(&path, "short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        assert_eq!(io::read_to_string(open).unwrap(), "a longer text");
        assert_eq!(names(&folder.join("a")), ["b.json"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn links_to_others_files_are_not_followed() {
        let folder = folder("links");
        let (mine, other) = (folder.join("mine"), folder.join("other"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&other, "other's").unwrap();
        std::os::unix::fs::symlink(&other, &mine).unwrap();
        std::os::unix::fs::symlink(&other, beside(&mine)).unwrap();
        write(&mine, "mine").unwrap();
        assert_eq!(
            ["mine", "other"].map(|it| fs::read_to_string(folder.join(it)).unwrap()),
            ["mine", "other's"]
        );
        assert_eq!(names(&folder), ["mine", "other"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_can_not_be_written_leaves_nothing() {
        let folder = folder("nothing");
        let path = folder.join("taken");
        fs::create_dir_all(path.join("inside")).unwrap();
        assert!(write(&path, "text").is_err(), "a folder with something in it");
        assert!(write(&folder.join("taken/inside/../../taken"), "text").is_err());
        assert_eq!(names(&folder), ["taken"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn streams_stay_what_they_are() {
        use std::os::unix::fs::FileTypeExt;
        write(Path::new("/dev/null"), "text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
