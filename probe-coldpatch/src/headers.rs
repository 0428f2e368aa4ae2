//! Room for more program headers, where they are.
//!
//! Kernels, dynamic linkers and `strip` expect the program headers behind the file's header: older
//! kernels pass a wrong address of headers that lie elsewhere, and `strip` moves them back. So the
//! sections behind them make room, as far as nothing but headers and the dynamic section knows
//! their addresses: the interpreter's name, notes, and the dynamic linker's tables. They keep their
//! order and their distances.
//!
//! A static executable has relocations there that its code knows. If it has a fixed address, it
//! gets a page ahead of the first one, at a lower address, with headers only.
//!
//! | segments to add | where a note's segment ends the moved part | elsewhere |
//! |---|---|---|
//! | code and tables, definitions | + | + |
//! | the table's note | joins the note's segment | + |

use std::ops::Range;

use object::elf;

use crate::error::Error;
use crate::file::{File, PAGE, SEGMENT_LEN, Section, Segment, dynamic, field, put};

/// Tags of addresses in the dynamic section that may lead to moved sections.
const ADDRESSES: [elf::DynamicTag; 10] = [
    elf::DT_HASH,
    elf::DT_GNU_HASH,
    elf::DT_STRTAB,
    elf::DT_SYMTAB,
    elf::DT_RELA,
    elf::DT_JMPREL,
    elf::DT_RELR,
    elf::DT_VERSYM,
    elf::DT_VERDEF,
    elf::DT_VERNEED,
];

/// Bytes of a file's header.
const HEADER_LEN: u64 = 64;
/// The lowest address of a first page that may get a neighbour: the system keeps lower ones free.
const LOWEST: u64 = 0x20000;

/// Segments that tell a section's place, and nobody else does.
const TELLING: [elf::ProgramType; 3] = [elf::PT_INTERP, elf::PT_NOTE, elf::PT_GNU_PROPERTY];

/// The part of a file that makes room.
#[derive(Debug)]
pub(crate) struct Room {
    /// The bytes that move; empty if there is room.
    pub(crate) moved: Range<u64>,
    /// The address of the first of them.
    pub(crate) addr: u64,
    /// The numbers of the sections that move.
    pub(crate) sections: Vec<usize>,
    /// The number of the segment that the table's note joins, at the end of what moves.
    pub(crate) notes: Option<usize>,
}

/// Neighbouring sections that keep their distances when they move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Their place in the file, and their address.
    pub(crate) range: Range<u64>,
    pub(crate) addr: u64,
    /// The distance to their new address.
    pub(crate) by: u64,
}

impl Run {
    /// Returns whether an address is in it.
    pub(crate) fn has(&self, addr: u64) -> bool {
        (self.addr..self.addr + (self.range.end - self.range.start)).contains(&addr)
    }
}

impl Room {
    /// Returns the runs of the moved sections: those of notes, and the others.
    ///
    /// # Errors
    /// If a segment is in two of them.
    pub(crate) fn runs(&self, file: &File<'_>) -> Result<[Vec<Run>; 2], Error> {
        let is_note = |number: &usize| file.sections[*number].kind == elf::SHT_NOTE;
        let mut runs = [Vec::new(), Vec::new()];
        for sections in self.sections.chunk_by(|one, other| is_note(one) == is_note(other)) {
            let [first, last] = [0, sections.len() - 1].map(|at| &file.sections[sections[at]]);
            let run = Run { range: first.offset..last.range().end, addr: first.addr, by: 0 };
            runs[usize::from(!is_note(&sections[0]))].push(run);
        }
        let is_in =
            |it: &Segment, run: &Run| run.range.start <= it.range().start && it.range().end <= run.range.end;
        let mut moved = file
            .segments
            .iter()
            .filter(|it| TELLING.contains(&it.kind) && it.file_len != 0 && self.moved.contains(&it.offset));
        if moved.all(|it| runs.iter().flatten().any(|run| is_in(it, run))) {
            Ok(runs)
        } else {
            Err(Error::damaged("its sections and segments disagree"))
        }
    }

    /// Finds room for two or three more program headers.
    ///
    /// # Errors
    /// If something is in the way whose address may be known elsewhere.
    pub(crate) fn find(file: &File<'_>) -> Result<Self, Error> {
        let joined = Self::of(file, 2).ok().and_then(|room| {
            let is_last = |number: &usize| {
                let it = &file.segments[*number];
                it.kind == elf::PT_NOTE && it.align <= 4 && it.range().end == room.moved.end
            };
            room.sections.last().filter(|last| file.sections[**last].kind == elf::SHT_NOTE)?;
            let notes = (0..file.segments.len()).find(is_last)?;
            Some(Self { notes: Some(notes), ..room })
        });
        joined.map_or_else(|| Self::of(file, 3), Ok)
    }

    fn of(file: &File<'_>, more: u64) -> Result<Self, Error> {
        let end = file.segments_at + SEGMENT_LEN * file.segments.len() as u64;
        let needed = end + SEGMENT_LEN * more;
        let holds = |it: &&Segment| it.is_loaded() && it.offset <= file.segments_at && end <= it.range().end;
        let Some(first) = file.segments.iter().find(holds) else {
            return Err(Error::unsuitable(
                "does not load its program headers, which no usual linker leaves out",
            ));
        };
        // The sections between, in the order of the file.
        let mut sections: Vec<_> =
            (0..file.sections.len()).filter(|it| file.sections[*it].range().end > end).collect();
        sections.sort_by_key(|it| (file.sections[*it].offset, file.sections[*it].range().end));
        sections.retain(|it| !file.sections[*it].range().is_empty());
        let dynamic = dynamic(file);
        let mut room = Self { moved: needed..needed, addr: 0, sections: Vec::new(), notes: None };
        let mut until = needed;
        for number in sections {
            let section = &file.sections[number];
            if section.offset >= until {
                break;
            }
            let is_whole = section.offset >= end && section.range().end <= first.range().end;
            if !is_whole || !is_movable(file, section, &dynamic) {
                let name = String::from_utf8_lossy(file.name(section)).into_owned();
                return Err(Error::unsuitable(format!(
                    "has no room for more program headers: `{name}` follows them, which can't be moved"
                )));
            }
            // A segment's sections stay together.
            let segments = file.segments.iter().filter(|it| TELLING.contains(&it.kind));
            let ends = segments.filter(|it| it.range().contains(&section.offset)).map(|it| it.range().end);
            until = ends.fold(until, u64::max);
            if room.sections.is_empty() {
                room.moved.start = section.offset;
                room.addr = first.addr + (section.offset - first.offset);
            }
            room.sections.push(number);
            room.moved.end = section.range().end;
            if section.addr != room.addr + (section.offset - room.moved.start) {
                return Err(Error::damaged("its sections and segments disagree"));
            }
        }
        if room.sections.is_empty() {
            room.moved = needed..needed;
        }
        // A segment lies in the moved part, where it is loaded, or beside it.
        let is_cut = |it: &Segment| {
            TELLING.contains(&it.kind)
                && it.range().start < room.moved.end
                && it.range().end > room.moved.start
                && (it.range().start < room.moved.start
                    || it.range().end > room.moved.end
                    || it.addr != room.addr + (it.offset - room.moved.start))
        };
        if file.segments.iter().any(is_cut) || needed > file.length() {
            return Err(Error::damaged("its sections and segments disagree"));
        }
        Ok(room)
    }
}

/// Returns the file of an executable with a fixed address with a page ahead, which has the headers;
/// `None` if it is another file, or its first page can't have a neighbour.
pub(crate) fn with_page_ahead(file: &File<'_>) -> Option<Vec<u8>> {
    let first = file.segments.iter().position(Segment::is_loaded)?;
    let is_lowest = |it: &Segment| it.offset == 0 && it.addr >= LOWEST && it.addr.is_multiple_of(PAGE);
    if file.kind != elf::ET_EXEC || !is_lowest(&file.segments[first]) || file.segments_at != HEADER_LEN {
        return None;
    }
    let headers = HEADER_LEN + SEGMENT_LEN * file.segments.len() as u64;
    let mut out = file.part(0..headers).to_vec();
    out.resize(usize::try_from(PAGE).ok()?, 0);
    out.extend_from_slice(file.bytes);
    let mut segments = file.segments.clone();
    for (number, it) in segments.iter_mut().enumerate() {
        if number == first || it.kind == elf::PT_PHDR {
            it.addr -= PAGE.min(it.addr);
            it.paddr -= PAGE.min(it.paddr);
        } else if it.file_len != 0 || it.is_loaded() {
            it.offset += PAGE;
        }
        if number == first {
            it.file_len += PAGE;
            it.len += PAGE;
        }
        // The kernel maps pages, whatever is asked for beyond that.
        if it.is_loaded() && it.align > PAGE {
            it.align = PAGE;
        }
    }
    put(&mut out, file.segments_at, &segments.iter().flat_map(Segment::bytes).collect::<Vec<_>>());
    let table = file.sections_at + PAGE;
    put(&mut out, field::SECTIONS_AT as u64, &table.to_le_bytes());
    for (section, at) in file.sections.iter().zip((table..).step_by(64)) {
        let is_null = section.kind == elf::SHT_NULL;
        let moved = Section { offset: section.offset + if is_null { 0 } else { PAGE }, ..*section };
        put(&mut out, at, &moved.bytes());
    }
    Some(out)
}

/// Returns whether only headers and the dynamic section know where a section is.
fn is_movable(file: &File<'_>, section: &Section, dynamic: &[(u64, elf::DynamicTag, u64)]) -> bool {
    let is_told = |kinds: &[elf::ProgramType]| {
        let mut told = file.segments.iter().filter(|it| kinds.contains(&it.kind));
        told.any(|it| it.range().start <= section.range().start && section.range().end <= it.range().end)
    };
    let is_dynamic = || dynamic.iter().any(|(_, tag, value)| is_address(*tag) && *value == section.addr);
    section.is_allocated() && (is_told(&TELLING) || is_dynamic())
}

/// Returns whether an entry of the dynamic section has an address that may move.
pub(crate) fn is_address(tag: elf::DynamicTag) -> bool {
    ADDRESSES.contains(&tag)
}
