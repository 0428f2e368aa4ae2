//! Replacing a file as a whole: a reader sees the old content or the new one.
//!
//! A report that is written step by step is [`Staged`]. Life cycle: the first write creates a file
//! beside its own ▸ [`Staged::finish`] renames it over the path when it is the report's turn, or
//! dropping removes it. The report for a stream stays in memory until then.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(feature = "trace")]
use probe_trace::export::Format;

use crate::engine::os::guarded_file::GuardedFile;

/// Writes a file and creates its parent folders. The content goes to a new file beside it, which is
/// then renamed over the path. This atomically replaces a file or a link of that name. Anything but
/// a plain file (a terminal, a pipe, `/dev/stdout`) is written in place. A pipe without a reader is
/// an error, since a program that exits can't wait for one.
pub(crate) fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut staged = Staged::new(path.to_owned());
    // The file is replaced also by an empty one.
    staged.begin()?;
    staged.write_all(content.as_bytes())?;
    // A full disk or a lost server must show up while the report can still go elsewhere.
    staged.sync()?;
    staged.finish()
}

/// Makes a file beside the path, and renames it over the path. `make` must fail if there is a file
/// of the name that it gets; it then gets another one. After an error nothing is left. A process
/// that has the previous file open keeps it.
#[cfg(feature = "trace")]
pub(crate) fn replace<T>(path: &Path, make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<T> {
    let (beside, content) = new_beside(path, make)?;
    fs::rename(&beside, path).inspect_err(|_| _ = fs::remove_file(&beside))?;
    Ok(content)
}

/// Returns the path without its ending; `.firefox.json` is one.
#[cfg(feature = "trace")]
pub(crate) fn without_ending(path: &Path) -> PathBuf {
    let parts = Format::from_path(path).map_or(1, |format| format.ending().split('.').count());
    (0..parts).fold(path.to_owned(), |path, _| path.with_extension(""))
}

/// Creates a file that nobody has.
pub(crate) fn create(path: &Path) -> io::Result<GuardedFile> {
    OpenOptions::new().write(true).create_new(true).open(path).and_then(GuardedFile::new)
}

/// Returns whether the path must be written in place: it is a pipe, a terminal, or an open
/// descriptor.
pub(crate) fn is_stream(path: &Path) -> bool {
    // These may lead to a plain file that a process has open, and which must not be replaced.
    const OPEN: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    OPEN.iter().any(|open| path.starts_with(open))
        || fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

/// Creates a file beside the path, under an unused name. The process id and the count don't
/// suffice: a process of another container may have the same id, and another copy of this crate has
/// its own count. A file left behind by a killed process stays.
fn new_beside<T>(path: &Path, mut make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let beside = beside(path, since, count);
        match make(&beside) {
            Ok(content) => return Ok((beside, content)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => {
                let _ = fs::remove_file(&beside);
                return Err(error);
            }
        }
    }
}

/// Returns a hidden name, which a pattern like `*.json` does not match.
fn beside(path: &Path, since: Duration, count: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}-{:x}-{count}.part", process::id(), since.as_nanos()))
}

/// A report on its way to its path.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Nothing was written: the path stays as it is.
    Nothing,
    Beside(PathBuf, GuardedFile),
    Stream(Vec<u8>),
}

impl Staged {
    pub(crate) fn new(path: PathBuf) -> Self {
        let content = if is_stream(&path) { Content::Stream(Vec::new()) } else { Content::Nothing };
        Self { path, content }
    }

    /// Creates the path's parent folders, and a file beside it that is to be renamed over it.
    fn begin(&mut self) -> io::Result<()> {
        if matches!(self.content, Content::Nothing) {
            self.path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let (beside, file) = new_beside(&self.path, create)?;
            self.content = Content::Beside(beside, file);
        }
        Ok(())
    }

    /// Waits until the disk has it: a full disk must show up before the old file is replaced.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match &mut self.content {
            Content::Beside(_, file) => file.sync(),
            Content::Nothing | Content::Stream(_) => Ok(()),
        }
    }

    /// Puts the report in its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match &self.content {
            Content::Nothing => Ok(()),
            Content::Stream(content) => GuardedFile::open_stream(&self.path)?.write_all(content),
            Content::Beside(beside, _) => {
                fs::rename(beside, &self.path)?;
                self.content = Content::Nothing;
                Ok(())
            }
        }
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        match &mut self.content {
            Content::Beside(_, file) => file.write(bytes),
            Content::Stream(content) => content.write(bytes),
            Content::Nothing => Ok(0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Content::Beside(beside, _) = &self.content {
            let _ = fs::remove_file(beside);
        }
    }
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
        crate::engine::order::sort_by(&mut names, Ord::cmp);
        names
    }

    #[test]
    fn existing_files_are_replaced_whole() {
        let folder = folder("whole");
        let path = folder.join("a/b.json");
        write(&path, "a longer text").unwrap();
        // A reader that has it open keeps reading the old content.
        let open = fs::File::open(&path).unwrap();
        write(&path, "short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        assert_eq!(io::read_to_string(open).unwrap(), "a longer text");
        assert_eq!(names(&folder.join("a")), ["b.json"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
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
    fn files_of_other_writers_are_left_alone() {
        let folder = folder("beside");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.json");
        let (one, mut file) = new_beside(&path, create).unwrap();
        let (other, _) = new_beside(&path, create).unwrap();
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
    fn a_failed_write_leaves_no_file() {
        let folder = folder("nothing");
        let path = folder.join("taken");
        fs::create_dir_all(path.join("inside")).unwrap();
        assert!(write(&path, "text").is_err(), "a folder with something in it");
        assert!(write(&folder.join("taken/inside/../../taken"), "text").is_err());
        assert_eq!(names(&folder), ["taken"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn streams_are_written_in_place() {
        use std::os::unix::fs::FileTypeExt;
        write(Path::new("/dev/null"), "text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_report_replaces_its_file_when_it_is_finished_and_not_before() {
        let folder = std::env::temp_dir().join(format!("probes-{}-staged", process::id()));
        let _ = fs::remove_dir_all(&folder);
        let path = folder.join("new/a.pftrace");
        let write = |text: &[u8]| {
            let mut staged = Staged::new(path.clone());
            staged.write_all(text).unwrap();
            staged.sync().unwrap();
            staged
        };
        write(b"one").finish().unwrap();
        let two = write(b"two");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        // A report with nothing in it, and one that is left out, change nothing.
        Staged::new(path.clone()).finish().unwrap();
        drop(write(b"three"));
        two.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.join("new")).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
