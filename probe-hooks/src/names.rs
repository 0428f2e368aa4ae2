//! Names, files and lines of functions, from the symbol table and the debug information of their
//! object.
//!
//! Cost: some 10 ms for an object with some thousand functions with debug information, and some
//! microseconds for each function.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use addr2line::{Loader, Location};

use crate::extents::Extents;
use crate::separate_file::separate_file;
use crate::signatures::{Position, Signature, Site, signatures_of};
use crate::symbols::{
    AmbiguousNames, are_in_global_functions, demangled_path, floor_char_boundary, functions_around,
};

/// An object's file.
pub struct ObjectFile {
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
}

/// The text of a definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// The path.
    pub path: String,
    /// The source file.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: u32,
}

/// The function and the source of an address.
pub struct Symbol {
    /// The address of its first byte.
    pub addr: usize,
    /// Its path.
    pub path: String,
}

/// A function that has no address.
struct Inlined {
    path: Option<String>,
    place: Option<Place>,
}

/// How many bytes of a function are searched for a line.
const NEAR: u64 = 256;

/// A source file and a line of it.
type Place = (String, u32);

impl ObjectFile {
    /// Makes the file that can be read at `path`, of an object that is loaded at `base`; addresses
    /// are those of the loaded object. `own_path` is the file's own path, as far as that is known.
    /// With `trusts_environment`, variables of the environment may lead to a debuginfod's cache.
    pub fn new(path: PathBuf, own_path: PathBuf, base: usize, trusts_environment: bool) -> Self {
        let separate = separate_file(&path, &own_path, trusts_environment);
        Self {
            path,
            separate,
            own_path,
            base,
            loader: OnceCell::new(),
            ambiguous_names: OnceCell::new(),
            extents: OnceCell::new(),
        }
    }

    fn loader(&self) -> Option<&Loader> {
        self.loader.get_or_init(|| Loader::new(self.symbols()).ok()).as_ref()
    }

    /// Returns the address in the file of an address of the loaded object.
    pub fn offset(&self, addr: usize) -> u64 {
        addr.wrapping_sub(self.base) as u64
    }

    /// Returns the name at this address.
    pub fn symbol(&self, addr: usize) -> Option<Symbol> {
        let found = self.loader()?.find_symbol_info(self.offset(addr))?;
        let start = usize::try_from(found.address()).ok()?;
        Some(Symbol { addr: self.base.wrapping_add(start), path: demangled_path(found.name()) })
    }

    /// Returns the source of an address.
    fn place(&self, addr: usize) -> Option<Place> {
        place(&self.loader()?.find_location(self.offset(addr)).ok()??)
    }

    /// Describes the function at an address.
    pub fn describe(&self, function: usize) -> Description {
        let symbol = self.symbol(function);
        let place = self.place(function);
        self.described(function, symbol, place)
    }

    /// Describes the function at an address, which begins with a sled. LLVM gives sleds the line 0:
    /// the line is then that of the first statement.
    pub fn describe_sled(&self, function: usize) -> Description {
        let place = self.place(function);
        let is_whole = place.as_ref().is_none_or(|(_, line)| *line != 0);
        let place = if is_whole { place } else { self.first_place(function).or(place) };
        self.described(function, self.symbol(function), place)
    }

    /// Returns the first place that has a line, near the beginning of a function.
    fn first_place(&self, function: usize) -> Option<Place> {
        let offset = self.offset(function);
        let near = offset.checked_add(NEAR)?;
        let symbol = |addr| self.loader()?.find_symbol_info(addr).map(|it| it.address());
        let mut places = self.loader()?.find_location_range(offset, near).ok()?;
        let (addr, _, place) = places.find(|(_, _, place)| place.line.is_some_and(|line| line != 0))?;
        (symbol(addr) == symbol(offset)).then(|| self::place(&place))?
    }

    /// Describes the function that is running at a call of this object, if the compiler passed the
    /// address of another one to the hook. `name` is the name at that address. It is used unless
    /// debug information shows that the enclosing function itself makes the call.
    pub fn describe_site(&self, site: usize, name: Option<String>) -> Description {
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

    /// Returns the signatures at sites, by addresses of the loaded object; `None` where the debug
    /// information says nothing.
    pub fn signatures(&self, sites: &[(usize, Position)]) -> Vec<Option<Signature>> {
        let site =
            |(addr, position): &(usize, Position)| Site { addr: self.offset(*addr), position: *position };
        let sites: Vec<_> = sites.iter().map(site).collect();
        signatures_of(&self.path, self.symbols(), &sites)
    }

    /// Returns those of these addresses, of the loaded object, that are in functions with a global
    /// symbol, and in no other function.
    pub fn global_functions(&self, addrs: &[usize]) -> Vec<usize> {
        let offsets: Vec<_> = addrs.iter().map(|addr| self.offset(*addr)).collect();
        let is_global = are_in_global_functions(self.symbols(), &offsets);
        addrs.iter().zip(is_global).filter_map(|(addr, is_global)| is_global.then_some(*addr)).collect()
    }

    /// Returns the paths of the functions around these addresses, of the loaded object, by their
    /// symbols; `None` where no function is known to be.
    pub fn functions_at(&self, addrs: &[usize]) -> Vec<Option<String>> {
        let offsets: Vec<_> = addrs.iter().map(|addr| self.offset(*addr)).collect();
        functions_around(self.symbols(), &offsets)
    }

    /// Frees the debug information that was read. Later calls read it again.
    pub fn release(&mut self) {
        self.loader = OnceCell::new();
    }

    /// Returns the extents of its functions; `None` if nothing tells them.
    pub fn extents(&self) -> Option<&Extents> {
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
