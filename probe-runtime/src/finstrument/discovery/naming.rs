//! Names, files and lines of discovered functions, from the symbol table and the debug information
//! of their object.
//!
//! Life: names are read at the first operation after a discovery, never in a hook. That is under
//! the control lock, while objects may come and go: only files are read. An object's file, and
//! the separate one with its symbols, are read once, as long as the object is loaded.
//! Cost: some 10 ms for an object with some thousand functions with debug information, and some
//! microseconds for each function.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use addr2line::{Loader, Location};

use super::call_site::{Discovery, TailJumps};
use super::jumps::Fragment;
use super::object_files::{self, AmbiguousNames, Extents, demangled_path};
use super::provider::{ControlLocked, PendingDiscoveries};
use super::reconcile::{KnownObject, LoadedObjects};
use crate::engine::os::objects::{Object, freeze};
use probe_core::abi::Kind;
use probe_lang::error::floor_char_boundary;

/// Opens the executable, even if its file was renamed.
const EXECUTABLE: &str = "/proc/self/exe";

/// The files that names were read from, by the hash of the object.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<u64, ObjectFile>,
}

/// An object's file.
struct ObjectFile {
    /// A path where it can be read.
    path: PathBuf,
    /// The file with its symbols, if that is another one.
    separate: Option<PathBuf>,
    /// Its own path, as far as that is known.
    own_path: PathBuf,
    base: usize,
    /// Read when a function is named, since that takes long for a large file; `None` if it can't
    /// be.
    loader: OnceCell<Option<Loader>>,
    /// Read when a function has no debug information.
    ambiguous_names: OnceCell<AmbiguousNames>,
    /// Read when a function of it jumps to a hook; `None` if the file has no symbols.
    extents: OnceCell<Option<Extents>>,
    /// Functions that run here and have an address of another object, as their first call here
    /// describes them: the same for their entries and exits.
    foreign_functions: HashMap<usize, Description>,
}

impl Names {
    /// Names pending discoveries that have no name yet.
    pub(super) fn name_new(
        &mut self,
        locked: &ControlLocked,
        pending: &PendingDiscoveries,
        loaded: &mut LoadedObjects,
    ) {
        let is_new = |discovery: &&'static Discovery| discovery.object().is_none();
        let mut new: Vec<_> = pending.discoveries.iter().copied().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        freeze(|frozen| {
            loaded.renew(frozen);
            // If its object is gone, a discovery gets no name from another object in its place.
            new.retain(|discovery| loaded.holder_of(frozen, discovery).is_some());
        });
        self.files.retain(|hash, _| loaded.all().iter().any(|known| known.hash == *hash));
        // An entry describes its function better than an exit, which may be in code of another one.
        new.sort_by_key(|discovery| discovery.hit().kind == Kind::Exit);
        for discovery in new {
            // The object may have been unloaded since then.
            let Some(known @ KnownObject { object, hash }) = loaded.at(discovery.text_address()) else {
                continue;
            };
            let function = discovery.hit().function;
            let is_own = object.segments.iter().any(|it| it.is_text && it.range.contains(&function));
            // The function that has taken its place elsewhere keeps its own name.
            let name = loaded.at(function).filter(|_| !is_own).and_then(|other| {
                self.file(other).symbol(function).filter(|symbol| symbol.addr == function).map(|it| it.path)
            });
            let file = self.file(known);
            if discovery.may_have_tail_jumps() && is_own {
                file.extents()
                    .and_then(|extents| TailJumps::find(extents, object.base, function))
                    .into_iter()
                    .for_each(|tail_jumps| discovery.set_tail_jumps(locked, tail_jumps));
            }
            let described = if is_own {
                file.describe(function)
            } else if let Some(known) = file.foreign_functions.get(&function) {
                known.clone()
            } else {
                let described = file.describe_site(discovery.text_address(), name);
                file.foreign_functions.insert(function, described.clone());
                described
            };
            let Description { path, file, line } = described;
            discovery.name(locked, *hash, &path, &file, line);
        }
    }

    /// Returns the code of an object's functions around these addresses, which ascend: the
    /// fragments of each function.
    pub(super) fn around(&mut self, known: &KnownObject, addrs: &[usize]) -> Vec<Vec<Fragment>> {
        let base = known.object.base;
        let file = self.file(known);
        let offsets: Vec<_> = addrs.iter().map(|addr| file.offset(*addr)).collect();
        let mut functions = file.extents().map(|extents| extents.around(&offsets)).unwrap_or_default();
        for fragment in functions.iter_mut().flatten() {
            fragment.addr = fragment.addr.wrapping_add(base);
        }
        functions
    }

    fn file(&mut self, known: &KnownObject) -> &mut ObjectFile {
        self.files.entry(known.hash).or_insert_with(|| ObjectFile::of(&known.object))
    }
}

/// The text of a definition.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Description {
    path: String,
    file: String,
    line: u32,
}

/// The function and the source of an address.
struct Symbol {
    addr: usize,
    path: String,
}

/// A function that has no address.
struct Inlined {
    path: Option<String>,
    place: Option<Place>,
}

/// A source file and a line of it.
type Place = (String, u32);

impl ObjectFile {
    fn of(object: &Object) -> Self {
        let path = if object.is_main { PathBuf::from(EXECUTABLE) } else { PathBuf::from(&object.name) };
        let own_path = if object.is_main { fs::read_link(&path).unwrap_or_default() } else { path.clone() };
        let separate = object_files::separate_file(&path, &own_path);
        Self {
            path,
            separate,
            own_path,
            base: object.base,
            loader: OnceCell::new(),
            ambiguous_names: OnceCell::new(),
            extents: OnceCell::new(),
            foreign_functions: HashMap::new(),
        }
    }

    fn loader(&self) -> Option<&Loader> {
        self.loader.get_or_init(|| Loader::new(self.symbols()).ok()).as_ref()
    }

    fn offset(&self, addr: usize) -> u64 {
        addr.wrapping_sub(self.base) as u64
    }

    /// Returns the name at this address.
    fn symbol(&self, addr: usize) -> Option<Symbol> {
        let found = self.loader()?.find_symbol_info(self.offset(addr))?;
        let start = usize::try_from(found.address()).ok()?;
        Some(Symbol { addr: self.base.wrapping_add(start), path: demangled_path(found.name()) })
    }

    /// Returns the source of an address.
    fn place(&self, addr: usize) -> Option<Place> {
        place(&self.loader()?.find_location(self.offset(addr)).ok()??)
    }

    /// Describes the function at an address.
    fn describe(&self, function: usize) -> Description {
        let symbol = self.symbol(function);
        let place = self.place(function);
        self.described(function, symbol, place)
    }

    /// Describes the function that is running at a call of this object, if the compiler passed the
    /// address of another one to the hook. `name` is the name at that address. It is used unless
    /// debug information shows that the enclosing function itself makes the call.
    fn describe_site(&self, site: usize, name: Option<String>) -> Description {
        let enclosing = self.symbol(site);
        if let Some(inlined) = self.inlined(site) {
            let symbol = name.or(inlined.path).map(|path| Symbol { addr: site, path });
            return self.described(site, symbol.or(enclosing), inlined.place);
        }
        let addr = enclosing.as_ref().map_or(site, |symbol| symbol.addr);
        let place = self.place(addr);
        // Without debug information it may be an inlined function.
        let is_sure = place.is_some() && enclosing.is_some();
        let named = name.filter(|_| !is_sure).map(|path| Symbol { addr, path });
        self.described(site, named.or(enclosing), place)
    }

    /// Returns the innermost function that was inlined at an address, if one was.
    fn inlined(&self, addr: usize) -> Option<Inlined> {
        let mut frames = self.loader()?.find_frames(self.offset(addr)).ok()?;
        let innermost = frames.next().ok()??;
        frames.next().ok()??;
        let path =
            innermost.function.as_ref().and_then(|it| it.raw_name().ok()).map(|it| demangled_path(&it));
        Some(Inlined { path, place: innermost.location.as_ref().and_then(place) })
    }

    fn described(&self, addr: usize, symbol: Option<Symbol>, place: Option<Place>) -> Description {
        let has_place = place.is_some();
        let (file, line) = place.unwrap_or_else(|| (truncate(&self.own_path.to_string_lossy()), 0));
        let path = match symbol {
            Some(symbol) if !has_place && self.ambiguous_names().contain(&symbol.path) => {
                format!("{}::{:#x}", truncate(&symbol.path), self.offset(symbol.addr))
            }
            Some(symbol) => truncate(&symbol.path),
            None => {
                let name = self.own_path.file_name().unwrap_or_default().to_string_lossy();
                format!("{}::{:#x}", truncate(&name), self.offset(addr))
            }
        };
        Description { path, file, line }
    }

    fn symbols(&self) -> &Path {
        self.separate.as_ref().unwrap_or(&self.path)
    }

    fn extents(&self) -> Option<&Extents> {
        self.extents.get_or_init(|| Extents::of(&self.path, self.symbols())).as_ref()
    }

    fn ambiguous_names(&self) -> &AmbiguousNames {
        self.ambiguous_names.get_or_init(|| AmbiguousNames::of(self.symbols()).unwrap_or_default())
    }
}

/// Returns a location that has a file.
fn place(location: &Location<'_>) -> Option<Place> {
    Some((truncate(location.file?), location.line.unwrap_or_default()))
}

/// Cuts a text to the length that a definition can hold.
fn truncate(text: &str) -> String {
    text[..floor_char_boundary(text, usize::from(u16::MAX) / 2)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(truncate("a"), "a");
        let long = "ä".repeat(40_000);
        assert_eq!(truncate(&long).len(), 32_766);
    }
}
