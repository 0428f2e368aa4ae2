//! A file that is there whole, or as it was before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::os;

/// Writes a file, and makes the folders that it lies in: first beside it, under a name that is
/// nobody's, then it takes the name. What was there is replaced then, at once, be it a file or a
/// link to one. What is no plain file (a terminal, a pipe, `/dev/stdout`) is written to as it is; a
/// pipe that nobody reads is an error, since a program that exits can't wait for a reader.
pub(super) fn write(path: &Path, content: &str) -> io::Result<()> {
    if is_stream(path) {
        return os::stream::open(path)?.write_all(content.as_bytes());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let (beside, file) = new_beside(path)?;
    let written = fill(file, content).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
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

fn fill(mut file: File, content: &str) -> io::Result<()> {
    file.write_all(content.as_bytes())?;
    // So that a full disk, or a lost server, is noticed while there is another way to report.
    file.sync_data()
}

/// A new file beside it, with a name that nobody else has: a process of another container may have
/// this one's number, and another copy of this crate in this process has a count of its own. One
/// that was left behind, by a process that was killed, stays.
fn new_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let beside = beside(path, since, count);
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error),
        }
    }
}

/// A hidden name, so that who gathers `*.json` does not see it.
fn beside(path: &Path, since: Duration, count: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}-{:x}-{count}.part", process::id(), since.as_nanos()))
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
        crate::order::sort_by(&mut names, Ord::cmp);
        names
    }

    #[test]
    fn what_was_there_is_replaced_whole() {
        let folder = folder("whole");
        let path = folder.join("a/b.json");
        write(&path, "a longer text").unwrap();
        // Who has it open goes on to read what it was.
        let open = File::open(&path).unwrap();
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
        write(&mine, "mine").unwrap();
        assert_eq!(
            ["mine", "other"].map(|it| fs::read_to_string(folder.join(it)).unwrap()),
            ["mine", "other's"]
        );
        assert_eq!(names(&folder), ["mine", "other"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_others_write_beside_it_is_left_alone() {
        let folder = folder("beside");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.json");
        let (one, mut file) = new_beside(&path).unwrap();
        let (other, _) = new_beside(&path).unwrap();
        assert_ne!(one, other);
        file.write_all(b"under way").unwrap();
        write(&path, "whole").unwrap();
        assert_eq!([&path, &one].map(|it| fs::read_to_string(it).unwrap()), ["whole", "under way"]);
        assert_eq!(names(&folder).len(), 3);
        assert_eq!(
            beside(&path, Duration::from_nanos(0x1f), 4),
            folder.join(format!(".a.json.{}-1f-4.part", process::id()))
        );
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
