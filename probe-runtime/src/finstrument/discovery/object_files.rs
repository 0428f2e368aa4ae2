//! Symbols and functions of an object, from its file or from a separate one.
//!
//! # Symbols
//! Cost: shared names are looked for once an object, if a function of it has no debug information.
//! The symbol table is read from the file once more, and each name is demangled.
//!
//! # Functions
//! The beginnings and ends of an object's functions in its file, by its symbol table, or by its
//! unwind table where it is stripped.
//!
//! A compiler may split a function, and copy it: `parse`, `parse.cold`, `parse.part.0`. All
//! functions with the same stem are taken together. So a jump from one fragment into the middle of
//! another is found.
//!
//! An unwind table does not tell which pieces of code are one function. That is enough to look for
//! calls of hooks, and not to be sure of jumps.
//!
//! Life: read once an object, if a function of it jumps to a hook, or if its calls are looked for
//! ahead; kept as long as the object is loaded.
//! Cost: a pass over the table; some 60 bytes a function.
//!
//! # Separate files
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

use std::collections::{HashMap, HashSet};
use std::env;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use cpp_demangle::{DemangleOptions, Symbol};
use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, SectionKind, SymbolKind};

use super::jumps::Fragment;
use crate::engine::os::process;

/// Names, as [`demangled_path`] makes them, that several functions of an object have.
#[derive(Default)]
pub(super) struct AmbiguousNames(HashSet<String>);

impl AmbiguousNames {
    /// Returns the shared names of a file; `None` if it can't be read.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let functions = |symbol: object::Symbol<'_, '_, _>| {
            let is_one = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            is_one.then(|| Some((symbol.name().ok()?.to_owned(), symbol.address()))).flatten()
        };
        let mut all: Vec<(String, u64)> = file.symbols().filter_map(functions).collect();
        if all.is_empty() {
            all = file.dynamic_symbols().filter_map(functions).collect();
        }
        Some(Self::among(&all))
    }

    fn among(functions: &[(String, u64)]) -> Self {
        let mut by_name: HashMap<String, Vec<(&str, u64)>> = HashMap::new();
        for (symbol, addr) in functions {
            by_name.entry(demangled_path(symbol)).or_default().push((symbol, *addr));
        }
        Self(by_name.into_iter().filter(|(_, owners)| are_several(owners)).map(|(name, _)| name).collect())
    }

    pub(super) fn contain(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Returns whether symbols of one name belong to several functions, rather than to the compiler's
/// copies of one function.
fn are_several(owners: &[(&str, u64)]) -> bool {
    owners.iter().enumerate().any(|(at, (symbol, addr))| {
        let others = &owners[at + 1..];
        { others }
            .iter()
            .any(|(other, there)| addr != there && (symbol == other || function(symbol) != function(other)))
    })
}

/// Returns the common part of the compiler's copies of a function: the symbol without the suffix of
/// a clone. The variants of one constructor have the same, and so do those of a destructor.
fn function(symbol: &str) -> String {
    let mut function = stem(symbol).to_owned();
    for variant in ["C1E", "C2E", "C3E", "D0E", "D1E", "D2E"] {
        function = function.replace(variant, &format!("{}_E", &variant[..1]));
    }
    function
}

/// Returns a symbol without the suffix of a compiler's own copy of a function
/// (`parse.constprop.0`).
pub(super) fn stem(symbol: &str) -> &str {
    let suffix = symbol.char_indices().skip(1).find(|(_, char)| *char == '.');
    &symbol[..suffix.map_or(symbol.len(), |(at, _)| at)]
}

/// Returns a symbol as a path. C++ names have no parameters, return types and spaces. The suffix of
/// a compiler's own copy of a function (`parse.constprop.0`) is removed.
pub(super) fn demangled_path(symbol: &str) -> String {
    let demangled = Symbol::new(symbol).ok().and_then(|symbol| {
        symbol.demangle_with_options(&DemangleOptions::new().no_params().no_return_type()).ok()
    });
    if let Some(name) = demangled {
        let name = name.split(" [clone").next().unwrap_or_default();
        return with_literals(name.chars().filter(|char| *char != ' ').collect());
    }
    stem(symbol).to_owned()
}

/// Restores `operator""_k`, which the demangler writes as `operator_k::operator""`.
fn with_literals(text: String) -> String {
    const OPERATOR: &str = "operator";
    let Some((name, rest)) = text.split_once("::operator\"\"") else { return text };
    let Some(at) = name.rfind(OPERATOR) else { return text };
    let (scope, suffix) = (&name[..at], &name[at + OPERATOR.len()..]);
    format!("{scope}operator\"\"{suffix}{rest}")
}

/// The extents of an object's functions.
#[derive(Debug)]
pub(super) struct Extents {
    path: PathBuf,
    /// Sections of code: their addresses, and their places in the file.
    sections: Vec<(Range<u64>, u64)>,
    /// The functions, ascending, each with the number of its stem.
    functions: Vec<(Range<u64>, usize)>,
    /// By the number of a stem, its fragments among the functions.
    fragments: Vec<Vec<usize>>,
    /// The longest function, in bytes.
    longest: u64,
    /// Whether all fragments of a function are known.
    is_by_symbols: bool,
}

impl Extents {
    /// Returns the extents of a file's functions, according to the symbols of this file or of a
    /// separate one, or else to the file's unwind table; `None` if a file can't be read, or if
    /// there are neither.
    pub(super) fn of(path: &Path, symbols: &Path) -> Option<Self> {
        let (cache, other) =
            (ReadCache::new(File::open(path).ok()?), ReadCache::new(File::open(symbols).ok()?));
        let file = object::File::parse(&cache).ok()?;
        let other = ElfFile64::<Endianness, _>::parse(&other).ok()?;
        // At once: the cache keeps each part that is read, and a program has 100,000 names.
        let names = other.section_by_index(other.elf_symbol_table().string_section());
        let names = names.ok().and_then(|it| it.data().ok()).unwrap_or_default();
        let sections = file.sections().filter(|section| section.kind() == SectionKind::Text);
        let sections = sections
            .filter_map(|it| Some((it.address()..it.address().checked_add(it.size())?, it.file_range()?.0)));
        let mut stems = HashMap::new();
        let mut functions: Vec<(Range<u64>, usize)> = other
            .symbols()
            .filter(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() != 0
            })
            .filter_map(|symbol| {
                let next = stems.len();
                let name = usize::try_from(symbol.elf_symbol().st_name(other.endian())).ok()?;
                let name = CStr::from_bytes_until_nul(names.get(name..)?).ok()?.to_str().ok()?;
                let stem = *stems.entry(stem(name).to_owned()).or_insert(next);
                Some((symbol.address()..symbol.address().checked_add(symbol.size())?, stem))
            })
            .collect();
        let is_by_symbols = !functions.is_empty();
        let mut stems = stems.len();
        if !is_by_symbols {
            functions = ranges_of_unwind_table(&file).zip(0..).collect();
            stems = functions.len();
        }
        functions.sort_unstable_by_key(|(range, stem)| (range.start, range.end, *stem));
        functions.dedup();
        let mut fragments = vec![Vec::new(); stems];
        functions.iter().enumerate().for_each(|(at, (_, stem))| fragments[*stem].push(at));
        let longest = functions.iter().map(|(range, _)| range.end - range.start).max()?;
        let (path, sections) = (path.to_owned(), sections.collect());
        Some(Self { path, sections, functions, fragments, longest, is_by_symbols })
    }

    /// Returns the code of the function that begins at `function`, with the file's addresses; empty
    /// unless all of it is certain.
    pub(super) fn fragments(&self, function: u64) -> Vec<Fragment> {
        let file = File::open(&self.path).ok().filter(|_| self.is_by_symbols);
        file.and_then(|file| self.code(&file, self.ranges(function))).unwrap_or_default()
    }

    /// Returns the code around addresses, which ascend: for each function that has some of them,
    /// all of its fragments, with the file's addresses. Leaves out functions whose code is not
    /// certain.
    pub(super) fn around(&self, addrs: &[u64]) -> Vec<Vec<Fragment>> {
        let Ok(file) = File::open(&self.path) else { return Vec::new() };
        let (mut seen, mut end) = (HashSet::new(), 0);
        let mut all = Vec::new();
        for addr in addrs {
            // Most functions have several.
            let Some(function) = (*addr >= end).then(|| self.at(*addr)).flatten() else { continue };
            end = function.end;
            let ranges = self.ranges(function.start);
            if ranges.first().is_some_and(|first| seen.insert(first.start)) {
                all.extend(self.code(&file, ranges));
            }
        }
        all
    }

    /// Returns the range of the function that holds an address.
    fn at(&self, addr: u64) -> Option<Range<u64>> {
        let after = self.functions.partition_point(|(range, _)| range.start <= addr);
        let near = self.functions[..after].iter().rev();
        let mut near = near.take_while(|(range, _)| addr - range.start < self.longest);
        near.find(|(range, _)| range.contains(&addr)).map(|(range, _)| range.clone())
    }

    /// Returns the code of ranges, unless another function shares a part of one.
    fn code(&self, file: &File, ranges: Vec<Range<u64>>) -> Option<Vec<Fragment>> {
        if ranges.iter().any(|range| self.overlaps(range)) {
            return None;
        }
        ranges.into_iter().map(|range| self.read(file, range)).collect()
    }

    fn ranges(&self, function: u64) -> Vec<Range<u64>> {
        let first = self.functions.partition_point(|(range, _)| range.start < function);
        let names = self.functions[first..].iter().take_while(|(range, _)| range.start == function);
        let all = names.flat_map(|(_, stem)| &self.fragments[*stem]);
        let mut ranges: Vec<_> = all.map(|at| self.functions[*at].0.clone()).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        ranges
    }

    /// Returns whether another function shares a part of it, but not all.
    fn overlaps(&self, range: &Range<u64>) -> bool {
        let first =
            self.functions.partition_point(|(it, _)| it.start.saturating_add(self.longest) < range.start);
        let near = self.functions[first..].iter().take_while(|(it, _)| it.start < range.end);
        { near }.any(|(it, _)| it.end > range.start && it != range)
    }

    fn read(&self, file: &File, range: Range<u64>) -> Option<Fragment> {
        let is_whole =
            |(section, _): &&(Range<u64>, u64)| section.start <= range.start && range.end <= section.end;
        let (section, offset) = self.sections.iter().find(is_whole)?;
        let mut code = vec![0; usize::try_from(range.end - range.start).ok()?];
        file.read_exact_at(&mut code, offset + (range.start - section.start)).ok()?;
        Some(Fragment { addr: usize::try_from(range.start).ok()?, code })
    }
}

/// Returns the pieces of code that an unwind table lists.
fn ranges_of_unwind_table<'data>(file: &impl Object<'data>) -> impl Iterator<Item = Range<u64>> {
    let section = file.section_by_name(".eh_frame");
    let address = section.as_ref().map_or(0, ObjectSection::address);
    let data = section.and_then(|it| it.uncompressed_data().ok()).unwrap_or_default();
    let text = file.section_by_name(".text").map_or(0, |it| it.address());
    let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
    let table = EhFrame::new(&data, LittleEndian);
    let mut found = Vec::new();
    let mut entries = table.entries(&bases);
    // The loop reads no entries after a damaged one.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(part) = entry else { continue };
        let Ok(fde) = part.parse(EhFrame::<EndianSlice<'_, LittleEndian>>::cie_from_offset) else { continue };
        found.extend(fde.initial_address().checked_add(fde.len()).map(|end| fde.initial_address()..end));
    }
    found.retain(|range| !range.is_empty());
    found.into_iter()
}

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
pub(super) fn separate_file(path: &Path, own_path: &Path) -> Option<PathBuf> {
    let separate = SeparateFile::of(path)?;
    let mut all = separate.candidates(own_path, debuginfod_cache()).into_iter();
    all.find(|file| file != own_path && separate.is_at(file))
}

impl SeparateFile {
    /// Reads a file. Returns `None` if it needs no separate file, or can't be read.
    fn of(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
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
            // The open of a pipe would wait.
            fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
            let cache = ReadCache::new(File::open(path).ok()?);
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
    if process::has_raised_rights() {
        return None;
    }
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
    fn symbols_are_paths() {
        for (symbol, path) in [
            ("sqlite3VdbeExec", "sqlite3VdbeExec"),
            ("parse.constprop.0", "parse"),
            (".hidden", ".hidden"),
            ("_ZN3geo5StackIiE4pushEi", "geo::Stack<int>::push"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int,std::allocator<int>>::push_back"),
            ("_ZN3geo5shapeIdEET_S1_", "geo::shape<double>"),
            ("_Z4pushi.part.0", "push"),
            ("_ZN5unitsli2_mEe", "units::operator\"\"_m"),
        ] {
            assert_eq!(demangled_path(symbol), path, "{symbol}");
        }
    }

    #[test]
    fn several_functions_may_share_a_name() {
        let ambiguous = |symbols: &[(&str, u64)], name| {
            let symbols: Vec<_> =
                symbols.iter().map(|(symbol, addr)| ((*symbol).to_owned(), *addr)).collect();
            AmbiguousNames::among(&symbols).contain(name)
        };
        assert!(ambiguous(&[("init", 1), ("other", 2), ("init", 3)], "init"));
        assert!(!ambiguous(&[("init", 1), ("other", 2), ("init", 3)], "other"));
        assert!(ambiguous(&[("init", 1), ("init.part.0", 2), ("init", 3)], "init"));
        // In two tables, or a copy that the compiler has made.
        assert!(!ambiguous(&[("init", 1), ("init", 1)], "init"));
        assert!(!ambiguous(&[("init", 1), ("init.constprop.0", 2)], "init"));
        // Overloads; and the variants of one constructor.
        assert!(ambiguous(&[("_Z4pushi", 1), ("_Z4pushd", 2)], "push"));
        assert!(!ambiguous(&[("_ZN1AC1Ev", 1), ("_ZN1AC2Ev", 2)], "A::A"));
        assert!(ambiguous(&[("_ZN1AC1Ev", 1), ("_ZN1AC1Ei", 2)], "A::A"));
    }

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
