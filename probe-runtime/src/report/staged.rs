//! A report that is written step by step, before its turn: to a new file beside its own.
//!
//! Life cycle: the first write creates the file beside ▸ [`Staged::finish`] renames it over the
//! path when it is the report's turn, or dropping removes it. The report for a stream stays in
//! memory until then.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use super::file;
use crate::engine::os;
use crate::engine::os::guarded_file::GuardedFile;

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
        let content = if file::is_stream(&path) { Content::Stream(Vec::new()) } else { Content::Nothing };
        Self { path, content }
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
            Content::Stream(content) => os::stream::open(&self.path)?.write_all(content),
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
        if matches!(self.content, Content::Nothing) {
            let (beside, file) = file::begin(&self.path)?;
            self.content = Content::Beside(beside, file);
        }
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

    #[test]
    fn a_report_replaces_its_file_when_it_is_finished_and_not_before() {
        let folder = std::env::temp_dir().join(format!("probes-{}-staged", std::process::id()));
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
