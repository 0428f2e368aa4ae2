//! The beginnings and ends of an object's functions in its file, by its symbol table.
//!
//! A compiler may split a function, and copy it: `parse`, `parse.cold`, `parse.part.0`. All
//! functions with the same stem are taken together. So a jump from one fragment into the middle of
//! another is found.
//!
//! Life: read once an object, if a function of it jumps to a hook; kept as long as the object is
//! loaded. A stripped object without a separate file has none.
//! Cost: a pass over the symbol table; some 60 bytes a function.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol, ReadCache, SectionKind, SymbolKind};

use super::jumps::Fragment;
use super::symbols::stem;

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
}

impl Extents {
    /// Returns the extents of a file's functions, according to the symbols of this file or of a
    /// separate one; `None` if one can't be read, or has no symbols.
    pub(super) fn of(path: &Path, symbols: &Path) -> Option<Self> {
        let (cache, other) =
            (ReadCache::new(File::open(path).ok()?), ReadCache::new(File::open(symbols).ok()?));
        let (file, other) = (object::File::parse(&cache).ok()?, object::File::parse(&other).ok()?);
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
                let stem = *stems.entry(stem(symbol.name().ok()?).to_owned()).or_insert(next);
                Some((symbol.address()..symbol.address().checked_add(symbol.size())?, stem))
            })
            .collect();
        functions.sort_unstable_by_key(|(range, stem)| (range.start, range.end, *stem));
        functions.dedup();
        let mut fragments = vec![Vec::new(); stems.len()];
        functions.iter().enumerate().for_each(|(at, (_, stem))| fragments[*stem].push(at));
        let longest = functions.iter().map(|(range, _)| range.end - range.start).max()?;
        Some(Self { path: path.to_owned(), sections: sections.collect(), functions, fragments, longest })
    }

    /// Returns the code of the function that begins at `function`, with the file's addresses; empty
    /// unless all of it is certain.
    pub(super) fn fragments(&self, function: u64) -> Vec<Fragment> {
        let ranges = self.ranges(function);
        if ranges.iter().any(|range| self.overlaps(range)) {
            return Vec::new();
        }
        let read = || -> Option<Vec<Fragment>> {
            let file = File::open(&self.path).ok()?;
            ranges.into_iter().map(|range| self.read(&file, range)).collect()
        };
        read().unwrap_or_default()
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
