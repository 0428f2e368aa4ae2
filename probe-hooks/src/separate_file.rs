//! The separate file with the symbols and the debug information of a stripped one.
//!
//! | where | found by |
//! |---|---|
//! | `/usr/lib/debug/.build-id/ab/cdef….debug` | the build's id |
//! | beside the file, in `.debug` there, and in `/usr/lib/debug` and the file's folder | the name in `.gnu_debuglink` |
//! | debuginfod's cache, if `DEBUGINFOD_URLS` is set | the build's id |
//!
//! A file is taken only if it has the same id, or, where one of both has none, the checksum in
//! `.gnu_debuglink`. Nothing is asked over the network. A program with more rights than its user
//! uses no cache, which the user's environment names.
//! Cost: some microseconds an object; a checksum, a pass over the separate file.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::Object;

use crate::file::open;

/// The folder where the system keeps separate files.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
/// How many bytes are read at once for a checksum.
const CHECKSUM_BLOCK_LEN: usize = 1 << 16;

/// The separate file, as a stripped file describes it.
struct SeparateFile {
    /// The build's id, in hexadecimal.
    id: Option<String>,
    /// The other file's name and checksum.
    link: Option<(String, u32)>,
}

/// Returns the separate file of the file at `path`, whose own place is `own_path`. Returns `None`
/// if that file has symbols and debug information itself, or if there is no separate file.
pub(crate) fn separate_file(path: &Path, own_path: &Path, trusts_environment: bool) -> Option<PathBuf> {
    let separate = SeparateFile::of(path)?;
    let cache = if trusts_environment { debuginfod_cache() } else { None };
    let mut all = separate.candidates(own_path, cache).into_iter();
    all.find(|file| file != own_path && separate.is_at(file))
}

impl SeparateFile {
    /// Reads a file. Returns `None` if it needs no separate file, or can't be read.
    fn of(path: &Path) -> Option<Self> {
        let cache = open(path)?;
        let file = object::File::parse(&cache).ok()?;
        if file.symbol_table().is_some() && file.section_by_name(".debug_info").is_some() {
            return None;
        }
        let link = file.gnu_debuglink().ok().flatten().and_then(|(name, sum)| {
            let name = std::str::from_utf8(name).ok().filter(|it| !it.is_empty() && !it.contains('/'))?;
            Some((name.to_owned(), sum))
        });
        Some(Self { id: build_id(&file), link })
    }

    /// Returns the paths where the other file may be.
    fn candidates(&self, own_path: &Path, cache: Option<PathBuf>) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = Vec::new();
        if let Some((first, rest)) = self.id.as_ref().and_then(|id| Some((id.get(..2)?, id.get(2..)?))) {
            places.push(format!("{DEBUG_FOLDER}/.build-id/{first}/{rest}.debug").into());
        }
        if let (Some((name, _)), Some(folder)) = (&self.link, own_path.parent()) {
            // An absolute path would replace the system's folder.
            let system = Path::new(DEBUG_FOLDER).join(folder.strip_prefix("/").unwrap_or(folder));
            places.extend([folder.to_owned(), folder.join(".debug"), system].map(|it| it.join(name)));
        }
        places.extend(cache.zip(self.id.as_ref()).map(|(cache, id)| cache.join(id).join("debuginfo")));
        places
    }

    /// Returns whether the file at this path is the separate file.
    fn is_at(&self, path: &Path) -> bool {
        let same = || -> Option<bool> {
            let cache = open(path)?;
            let file = object::File::parse(&cache).ok()?;
            file.symbol_table()?;
            if let (Some(separate), Some(found)) = (&self.id, build_id(&file)) {
                return Some(*separate == found);
            }
            Some(self.link.as_ref()?.1 == checksum(path)?)
        };
        same().unwrap_or(false)
    }
}

fn build_id<'data>(file: &impl Object<'data>) -> Option<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let id = file.build_id().ok().flatten()?;
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Some(digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect())
}

fn checksum(path: &Path) -> Option<u32> {
    let (mut file, mut sum, mut block) =
        (File::open(path).ok()?, crc32fast::Hasher::new(), vec![0; CHECKSUM_BLOCK_LEN]);
    loop {
        match file.read(&mut block).ok()? {
            0 => return Some(sum.finalize()),
            many => sum.update(&block[..many]),
        }
    }
}

/// Returns the folder of debuginfod's cache, as its client chooses it; `None` if debuginfod is not
/// in use.
fn debuginfod_cache() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    set("DEBUGINFOD_URLS")?;
    set("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(folder.join("debuginfod_client"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_for_where_debuggers_look() {
        let link = Some(("app.debug".to_owned(), 7));
        let places = |id: Option<&str>, link: &Option<(String, u32)>| {
            let separate = SeparateFile { id: id.map(str::to_owned), link: link.clone() };
            let places = separate.candidates(Path::new("/opt/bin/app"), Some("/cache".into()));
            places.iter().map(|it| it.display().to_string()).collect::<Vec<_>>()
        };
        let by_link = ["/opt/bin/app.debug", "/opt/bin/.debug/app.debug", "/usr/lib/debug/opt/bin/app.debug"]
            .as_slice();
        let by_id = ["/usr/lib/debug/.build-id/ab/cdef.debug"].as_slice();
        let cached = ["/cache/abcdef/debuginfo"].as_slice();
        assert_eq!(places(Some("abcdef"), &link), [by_id, by_link, cached].concat());
        assert_eq!(places(Some("abcdef"), &None), [by_id, cached].concat());
        assert_eq!(places(None, &link), by_link);
        assert_eq!(places(Some("a"), &None), ["/cache/a/debuginfo"]);
        assert_eq!(places(None, &None), [""; 0]);
    }
}
