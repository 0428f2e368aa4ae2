//! The texts to search, and queries for them.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{ExpectedHits, tokenise};

/// Approximate number of different queries.
const QUERIES: usize = 500;

/// File extensions that count as text in a folder. A file that the command line names may have any.
const TEXT: [&str; 14] =
    ["c", "cpp", "css", "go", "h", "html", "java", "js", "md", "py", "rs", "sh", "toml", "txt"];

/// The texts to search.
#[derive(Default)]
pub struct Library {
    pub paths: Vec<PathBuf>,
    pub texts: Vec<String>,
}

impl Library {
    /// Reads these files and folders, or else the current folder.
    pub fn read(mut roots: Vec<PathBuf>) -> Result<Self, String> {
        if roots.is_empty() {
            roots.push(PathBuf::from("."));
        }
        let mut library = Self::default();
        for root in &roots {
            library.add(root).map_err(|(path, error)| format!("can't read {}: {error}", path.display()))?;
        }
        if library.queries().is_empty() {
            return Err(String::from("there is no text to search in; name some files or folders"));
        }
        Ok(library)
    }

    /// Adds a file, or the text files below a folder, except hidden ones and those in `target`.
    fn add(&mut self, path: &Path) -> Result<(), (PathBuf, io::Error)> {
        let failed = |error| (path.to_owned(), error);
        if !path.is_dir() {
            let text = fs::read(path).map_err(failed)?;
            self.texts.push(String::from_utf8_lossy(&text).into_owned());
            self.paths.push(path.strip_prefix(".").unwrap_or(path).to_owned());
            return Ok(());
        }
        let entries: Result<Vec<_>, _> = fs::read_dir(path).and_then(Iterator::collect).map_err(failed);
        let mut entries = entries?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            let is_text = path.extension().and_then(OsStr::to_str).is_some_and(|end| TEXT.contains(&end));
            // A symbolic link is neither a file nor a folder, so there are no cycles.
            let kind = entry.file_type().map_err(failed)?;
            if !is_hidden && (kind.is_dir() && name != "target" || kind.is_file() && is_text) {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    /// Returns some pairs of neighbouring longer words of each text, or words of a text without
    /// such pairs.
    pub fn queries(&self) -> Vec<String> {
        let share = QUERIES / self.texts.len().max(1) + 1;
        let mut queries = Vec::new();
        for text in &self.texts {
            let mut words = Vec::new();
            tokenise(text, &mut ExpectedHits::default(), |word| words.push(word.to_owned()));
            let is_long = |word: &String| word.len() > 3;
            let pairs = words.windows(2).filter(|pair| pair.iter().all(is_long) && pair[0] != pair[1]);
            let mut some: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
            if some.is_empty() {
                some = words;
            }
            let step = some.len() / share + 1;
            queries.extend(some.into_iter().step_by(step));
        }
        queries
    }
}
