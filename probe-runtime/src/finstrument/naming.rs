//! What discovered functions are called, and where they stand: from their object's symbol table and debug information.
//!
//! Life: never in a hook; at the first operation after a discovery, under the control lock, while objects may come and go: only
//! files are read. An object's file is read once, as long as the object is loaded.
//! Cost: some 10 ms for an object with some thousand functions with debug information, then some microseconds a function.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use addr2line::Loader;
use cpp_demangle::{DemangleOptions, Symbol};

use super::chunk::Place;
use super::discovery::Discovery;
use super::hooks::published;
use crate::os::objects::{Object, freeze};

/// The executable, whatever has become of its file's name.
const EXECUTABLE: &str = "/proc/self/exe";

/// The files that names were read from, by the hash of the object.
#[derive(Default)]
pub(crate) struct Names {
    files: HashMap<u64, File>,
}

/// An object's file.
struct File {
    name: String,
    base: usize,
    /// `None` where it can't be read.
    loader: Option<Loader>,
}

/// What tells an object from another that lies in its place.
pub(super) fn hash(object: &Object) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&object.name, object.base).hash(&mut hasher);
    object.segments.iter().for_each(|segment| (&segment.range, segment.is_text).hash(&mut hasher));
    // 0 is no object's.
    hasher.finish().max(1)
}

/// The object whose text holds an address.
pub(super) fn object_at(objects: &[Object], addr: usize) -> Option<&Object> {
    objects
        .iter()
        .find(|object| object.segments.iter().any(|segment| segment.is_text && segment.range.contains(&addr)))
}

impl Names {
    /// Names what has no name yet. For the holder of the control lock.
    pub(crate) fn name_new(&mut self) {
        let new: Vec<&'static Discovery> =
            published().map(Place::discovery).filter(|discovery| discovery.object().is_none()).collect();
        if new.is_empty() {
            return;
        }
        let objects = freeze(crate::os::objects::Frozen::every);
        let hashes: Vec<u64> = objects.iter().map(hash).collect();
        self.files.retain(|known, _| hashes.contains(known));
        for discovery in new {
            // It may be gone by now.
            let Some(object) = object_at(&objects, discovery.text()) else { continue };
            let hash = hash(object);
            let file = self.files.entry(hash).or_insert_with(|| File::of(object));
            let Described { path, file, line } = file.describe(discovery.hit().function);
            discovery.name(hash, [path.as_str(), file.as_str()].concat(), path.len(), file.len(), line);
        }
    }
}

/// What a definition says.
#[derive(PartialEq, Eq, Debug)]
struct Described {
    path: String,
    file: String,
    line: u32,
}

impl File {
    fn of(object: &Object) -> Self {
        let path = if object.is_main { PathBuf::from(EXECUTABLE) } else { PathBuf::from(&object.name) };
        let shown = if object.is_main { fs::read_link(&path).unwrap_or_default() } else { path.clone() };
        let name = shown.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, base: object.base, loader: load(&path) }
    }

    fn describe(&self, function: usize) -> Described {
        let offset = function.wrapping_sub(self.base);
        let found = self.loader.as_ref().map(|loader| {
            let probe = offset as u64;
            let symbol = loader.find_symbol(probe).map(plain);
            let location = loader.find_location(probe).ok().flatten();
            let place = location.map(|it| (short(it.file.unwrap_or_default()), it.line.unwrap_or_default()));
            (symbol, place.unwrap_or_default())
        });
        let (symbol, (file, line)) = found.unwrap_or_default();
        let path = symbol.unwrap_or_else(|| format!("{}::{offset:#x}", self.name));
        Described { path: short(&path), file, line }
    }
}

fn load(path: &Path) -> Option<Loader> {
    Loader::new(path).ok()
}

/// No longer than a definition can hold.
fn short(text: &str) -> String {
    let mut end = text.len().min(usize::from(u16::MAX) / 2);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// A symbol as a path: what C++ has mangled without parameters, return type and spaces; without the suffix of a compiler's own
/// copy of a function (`parse.constprop.0`).
fn plain(symbol: &str) -> String {
    let demangled = Symbol::new(symbol).ok().and_then(|symbol| {
        symbol.demangle_with_options(&DemangleOptions::new().no_params().no_return_type()).ok()
    });
    if let Some(name) = demangled {
        let name = name.split(" [clone").next().unwrap_or_default();
        return name.chars().filter(|char| *char != ' ').collect();
    }
    let suffix = symbol.char_indices().skip(1).find(|(_, char)| *char == '.');
    symbol[..suffix.map_or(symbol.len(), |(at, _)| at)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_paths() {
        for (symbol, path) in [
            ("sqlite3VdbeExec", "sqlite3VdbeExec"),
            ("parse.constprop.0", "parse"),
            (".hidden", ".hidden"),
            ("_ZN3geo5StackIiE4pushEi", "geo::Stack<int>::push"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int,std::allocator<int>>::push_back"),
            ("_ZN3geo5shapeIdEET_S1_", "geo::shape<double>"),
            ("_Z4pushi.part.0", "push"),
        ] {
            assert_eq!(plain(symbol), path, "{symbol}");
        }
    }

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(short("a"), "a");
        let long = "ä".repeat(40_000);
        assert_eq!(short(&long).len(), 32_766);
    }
}
