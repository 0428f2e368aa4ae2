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
//! Cost: a pass over the table; some 60 bytes a function.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use addr2line::gimli::{
    BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Pointer, UnwindSection,
};
use object::read::elf::{ElfFile64, ProgramHeader, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadRef, SectionKind, SymbolKind, elf};

use crate::file::{MAX_TABLE_LEN, open};
use crate::flow::{Fragment, MAX_CODE_LEN};
use crate::symbols::{MAX_NAME_LEN, stem};

/// Functions that are compared with one. Linkers place few inside of another one.
const MAX_NEAR: usize = 1 << 12;

/// The extents of an object's functions.
#[derive(Debug)]
pub struct Extents {
    path: PathBuf,
    /// Sections of code: their addresses, and their places in the file.
    sections: Vec<(Range<u64>, u64)>,
    /// The functions, ascending, each with the number of its stem.
    functions: Vec<(Range<u64>, usize)>,
    /// By the number of a stem, its fragments among the functions.
    fragments: Vec<Vec<usize>>,
    /// The end of each function, or that of an earlier one if that is later.
    reach: Vec<u64>,
    /// Whether all fragments of a function are known.
    is_by_symbols: bool,
}

impl Extents {
    /// Returns the extents of a file's functions, according to the symbols of this file or of a
    /// separate one, or else to the file's unwind table; `None` if a file can't be read, or if
    /// there are neither.
    pub fn of(path: &Path, symbols: &Path) -> Option<Self> {
        let (cache, other) = (open(path)?, open(symbols)?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let other = ElfFile64::<Endianness, _>::parse(&other).ok()?;
        // At once: the cache keeps each part that is read, and a program has 100,000 names.
        let names = other.section_by_index(other.elf_symbol_table().string_section());
        let names = names.ok().and_then(|it| it.data().ok()).unwrap_or_default();
        let sections = file.sections().filter(|section| section.kind() == SectionKind::Text);
        let mut sections: Vec<_> = sections
            .filter_map(|it| Some((it.address()..it.address().checked_add(it.size())?, it.file_range()?.0)))
            .collect();
        if sections.is_empty() {
            sections = segments_of_code(&file);
        }
        let mut stems = HashMap::new();
        let mut functions: Vec<(Range<u64>, usize)> = other
            .symbols()
            .filter(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() != 0
            })
            .filter_map(|symbol| {
                let next = stems.len();
                let name = usize::try_from(symbol.elf_symbol().st_name(other.endian())).ok()?;
                let name = names.get(name..)?;
                let name = CStr::from_bytes_until_nul(&name[..name.len().min(MAX_NAME_LEN)]).ok()?;
                let stem = *stems.entry(stem(name.to_str().ok()?)).or_insert(next);
                Some((symbol.address()..symbol.address().checked_add(symbol.size())?, stem))
            })
            .collect();
        let is_by_symbols = !functions.is_empty();
        let mut stems = stems.len();
        if !is_by_symbols {
            functions = ranges_of_unwind_table(&file).into_iter().zip(0..).collect();
            stems = functions.len();
        }
        functions.sort_unstable_by_key(|(range, stem)| (range.start, range.end, *stem));
        functions.dedup();
        let mut fragments = vec![Vec::new(); stems];
        functions.iter().enumerate().for_each(|(at, (_, stem))| fragments[*stem].push(at));
        let mut end = functions.first()?.0.end;
        let reach = functions.iter().map(|(range, _)| {
            end = end.max(range.end);
            end
        });
        let reach = reach.collect();
        Some(Self { path: path.to_owned(), sections, functions, fragments, reach, is_by_symbols })
    }

    /// Returns whether all fragments of a function are known.
    pub fn are_whole(&self) -> bool {
        self.is_by_symbols
    }

    /// Returns the code of the function that begins at `function`, with the file's addresses; empty
    /// unless all of it is certain.
    pub fn fragments(&self, function: u64) -> Vec<Fragment> {
        let file = File::open(&self.path).ok().filter(|_| self.is_by_symbols);
        file.and_then(|file| self.code(&file, self.ranges(function))).unwrap_or_default()
    }

    /// Returns the code around addresses, which ascend: for each function that has some of them,
    /// all of its fragments, with the file's addresses. Leaves out functions whose code is not
    /// certain.
    pub fn around(&self, addrs: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Vec<Fragment>> {
        let file = File::open(&self.path).ok();
        let (mut seen, mut end) = (HashSet::new(), 0);
        addrs.into_iter().filter_map(move |addr| {
            // Most functions have several.
            let function = if addr >= end { self.at(addr)? } else { return None };
            end = function.end;
            if seen.contains(&function.start) {
                return None;
            }
            let ranges = self.ranges(function.start);
            seen.extend(ranges.iter().map(|range| range.start));
            self.code(file.as_ref()?, ranges)
        })
    }

    /// Returns the range of the function that holds an address.
    fn at(&self, addr: u64) -> Option<Range<u64>> {
        let mut near = self.near(addr..addr.checked_add(1)?).take(MAX_NEAR);
        near.find(|range| range.contains(&addr)).cloned()
    }

    /// Returns functions that begin before a range's end, backwards, until none reaches into it.
    fn near(&self, range: Range<u64>) -> impl Iterator<Item = &Range<u64>> {
        let after = self.functions.partition_point(|(it, _)| it.start < range.end);
        let near = self.functions[..after].iter().zip(&self.reach[..after]).rev();
        near.take_while(move |(_, reach)| **reach > range.start).map(|((it, _), _)| it)
    }

    /// Returns the code of ranges, unless another function shares a part of one.
    fn code(&self, file: &File, ranges: Vec<Range<u64>>) -> Option<Vec<Fragment>> {
        // No number of a file is believed: a section may claim any length.
        let len = ranges.iter().try_fold(0_u64, |len, range| len.checked_add(range.end - range.start))?;
        if len > MAX_CODE_LEN as u64 || ranges.iter().any(|range| self.overlaps(range)) {
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

    /// Returns whether another function shares a part of it, but not all. Of too many that may, one
    /// does.
    fn overlaps(&self, range: &Range<u64>) -> bool {
        let mut near = self.near(range.clone());
        near.by_ref().take(MAX_NEAR).any(|it| it.end > range.start && it != range) || near.next().is_some()
    }

    fn read(&self, file: &File, range: Range<u64>) -> Option<Fragment> {
        let is_whole =
            |(section, _): &&(Range<u64>, u64)| section.start <= range.start && range.end <= section.end;
        let (section, offset) = self.sections.iter().find(is_whole)?;
        let mut code = vec![0; usize::try_from(range.end - range.start).ok()?];
        file.read_exact_at(&mut code, offset.checked_add(range.start - section.start)?).ok()?;
        Some(Fragment { addr: usize::try_from(range.start).ok()?, code })
    }
}

/// Returns the segments of code of a file without section headers: their addresses, and their
/// places in the file.
fn segments_of_code<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
) -> Vec<(Range<u64>, u64)> {
    let endian = file.endian();
    let code = file
        .elf_program_headers()
        .iter()
        .filter(|it| it.p_type(endian) == elf::PT_LOAD && it.p_flags(endian).0 & elf::PF_X.0 != 0);
    let ranges = code.filter_map(|it| {
        let start = it.p_vaddr(endian);
        Some((start..start.checked_add(it.p_filesz(endian))?, it.p_offset(endian)))
    });
    ranges.collect()
}

/// Returns the pieces of code that an unwind table lists.
pub(crate) fn ranges_of_unwind_table<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
) -> Vec<Range<u64>> {
    let section = file.section_by_name(".eh_frame").filter(|it| it.size() <= MAX_TABLE_LEN);
    let by_section = section.and_then(|it| Some((it.address(), it.data().ok()?)));
    let Some((address, data)) = by_section.or_else(|| unwind_table_of_segments(file)) else {
        return Vec::new();
    };
    let text = file.section_by_name(".text").map_or(0, |it| it.address());
    let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
    let table = EhFrame::new(data, LittleEndian);
    let mut found = Vec::new();
    let mut entries = table.entries(&bases);
    // The loop reads no entries after a damaged one.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(part) = entry else { continue };
        let Ok(fde) = part.parse(EhFrame::<EndianSlice<'_, LittleEndian>>::cie_from_offset) else { continue };
        found.extend(fde.initial_address().checked_add(fde.len()).map(|end| fde.initial_address()..end));
    }
    found.retain(|range| !range.is_empty());
    found
}

/// Returns the address and the bytes of the unwind table to which the program headers lead, up to
/// the end of its segment: it ends with a mark.
fn unwind_table_of_segments<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
) -> Option<(u64, &'data [u8])> {
    let endian = file.endian();
    let headers = file.elf_program_headers();
    let header = headers.iter().find(|it| it.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
    let at = header.p_vaddr(endian);
    let data = |it: &elf::ProgramHeader64<Endianness>| {
        (it.p_filesz(endian) <= MAX_TABLE_LEN).then(|| it.data(endian, file.data()).ok()).flatten()
    };
    let bytes = data(header)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(at);
    let Ok(Pointer::Direct(table)) =
        EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).map(|it| it.eh_frame_ptr())
    else {
        return None;
    };
    let holds = |it: &&elf::ProgramHeader64<Endianness>| {
        let start = it.p_vaddr(endian);
        let end = start.saturating_add(it.p_filesz(endian));
        it.p_type(endian) == elf::PT_LOAD && (start..end).contains(&table)
    };
    let segment = headers.iter().find(holds)?;
    let place = usize::try_from(table - segment.p_vaddr(endian)).ok()?;
    Some((table, data(segment)?.get(place..)?))
}
