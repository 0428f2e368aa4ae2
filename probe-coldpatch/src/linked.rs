//! Executables and shared objects.
//!
//! All bytes of the file stay, but for the calls, the program headers and what makes room for them.
//! Behind the file come two segments, beyond the last address of the others:
//!
//! ```text
//! read, execute   moved notes ▸ note ▸ records ▸ long texts ▸ relocations ▸ stubs ▸ code of sites ▸
//!                 other sections that made room
//! read, write     definitions
//! ```
//! then the sections' names and headers, with a section for each part: `strip` drops all else.
//!
//! Bytes behind the file's own end stay at the end: a program that unpacks itself finds them there,
//! or behind the section headers, as an `AppImage` does.
//!
//! A long text of an object that may be loaded anywhere needs its address relocated. The dynamic
//! linker's table then gets a new place, with these relocations ahead.

use std::collections::HashSet;
use std::ops::Range;

use object::elf;

use crate::error::Error;
use crate::file::{self, File, PAGE, Section, Segment, dynamic, field, put, put_short};
use crate::headers::{Room, Run, is_address, with_page_ahead};
use crate::patch::{Call, Probe};
use crate::tables::{CODE, DEFINITIONS, LongTexts, NOTE, NOTE_LEN, RECORDS, TEXTS, Tables};
use probe_core::abi::Kind;

/// Why a file with a table can't be patched, after its name.
pub const HAS_PROBES: &str = "has probes already: it was cold-patched before, or compiled with probes, and a linked file has one table. \
     Coldpatch its object files (.o, .a) and link them, which joins their tables; `probectl run`, `attach` and \
     `count --ptrace` take its calls of hooks as they are";

/// The greatest alignment of sections that move.
const MAX_ALIGN: u64 = 64;

/// Returns the file with a NOP in place of each call, and with tables of the sites.
///
/// # Errors
/// If it is no executable or shared object of x86-64, has tables already, has no room for them, or
/// has other bytes in place of a call.
pub fn linked(bytes: &[u8], probes: &[Probe], calls: &[Call]) -> Result<Vec<u8>, Error> {
    with_tables(bytes, probes, calls, Call::check)
}

/// Returns the same for calls whose bytes `check` accepts.
pub(crate) fn with_tables(
    bytes: &[u8],
    probes: &[Probe],
    calls: &[Call],
    check: impl Fn(&Call, &[u8]) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let file = checked(bytes)?;
    check_probes(probes, calls)?;
    check_calls(&file, calls, check)?;
    match Room::find(&file) {
        Ok(room) => written(file, &room, probes, calls),
        Err(error) => {
            let bytes = with_page_ahead(&file).ok_or(error)?;
            let file = File::read(&bytes)?;
            let room = Room::find(&file)?;
            written(file, &room, probes, calls)
        }
    }
}

fn written(file: File<'_>, room: &Room, probes: &[Probe], calls: &[Call]) -> Result<Vec<u8>, Error> {
    let (own, behind) = (file.part(0..own_end(&file)), file.part(own_end(&file)..file.length()));
    let mut writer = Writer {
        out: own.to_vec(),
        segments: file.segments.clone(),
        sections: file.sections.clone(),
        names: file.part(file.sections[file.names].range()).to_vec(),
        file,
    };
    writer.add(room, probes, calls)?;
    writer.out.extend_from_slice(behind);
    Ok(writer.out)
}

/// Returns the number of bytes behind the end of a file's last part, which stay at its end.
pub fn bytes_behind(bytes: &[u8]) -> u64 {
    File::read(bytes).map_or(0, |file| file.length() - own_end(&file))
}

/// Returns the end of a file's parts. A few zeros behind the last one, which align it, belong to
/// it.
fn own_end(file: &File<'_>) -> u64 {
    let parts = file.segments.iter().map(Segment::range).chain(file.sections.iter().map(Section::range));
    let end = parts.map(|it| it.end).max().unwrap_or_default();
    let end = end.max(file.sections_at + file::SECTION_LEN * file.sections.len() as u64);
    let behind = file.part(end..file.length());
    if behind.len() < 16 && behind.iter().all(|byte| *byte == 0) { file.length() } else { end }
}

/// Returns the file with a NOP in place of each call, and nothing else changed. Its sites are told
/// by a list beside it. A jump whose site would need code of its own stays.
///
/// # Errors
/// As those of [`linked`].
pub fn latent(bytes: &[u8], calls: &[Call]) -> Result<Vec<u8>, Error> {
    let file = checked(bytes)?;
    check_calls(&file, calls, Call::check)?;
    let mut out = bytes.to_vec();
    for call in calls.iter().filter(|it| !it.needs_thunk()) {
        let latent = call.latent(None).ok_or_else(|| Error::damaged("a call has no room for a site"))?;
        put(&mut out, place(&file, call)?, &latent);
    }
    Ok(out)
}

/// Returns the file if it can have tables.
fn checked(bytes: &[u8]) -> Result<File<'_>, Error> {
    let file = File::read(bytes)?;
    if ![elf::ET_EXEC, elf::ET_DYN].contains(&file.kind) {
        return Err(Error::unsuitable("is no executable and no shared object"));
    }
    if [DEFINITIONS, RECORDS, NOTE].iter().any(|name| file.section(name).is_some()) {
        return Err(Error::unsuitable(HAS_PROBES));
    }
    Ok(file)
}

pub(crate) fn check_probes(probes: &[Probe], calls: &[Call]) -> Result<(), Error> {
    for probe in probes {
        let is_short = |text: &str| text.len() <= u16::MAX.into();
        if !is_short(&probe.path)
            || !is_short(&probe.file)
            || ![Kind::Entry, Kind::Exit].contains(&probe.kind)
        {
            return Err(Error::unsuitable("has a function with too long a name"));
        }
    }
    let has_all = calls.iter().all(|call| call.probe < probes.len());
    if has_all { Ok(()) } else { Err(Error::damaged("a call has no probe")) }
}

fn check_calls(
    file: &File<'_>,
    calls: &[Call],
    check: impl Fn(&Call, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for call in calls {
        let at = place(file, call)?;
        check(call, file.part(at..at + call.len as u64))?;
        ranges.push(call.addr..call.addr + call.len as u64);
    }
    ranges.sort_unstable_by_key(|it| it.start);
    match ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => Err(Error::damaged(format_args!("two calls share the bytes at {:#x}", pair[1].start))),
        None => Ok(()),
    }
}

/// Returns the place of a call in the file.
fn place(file: &File<'_>, call: &Call) -> Result<u64, Error> {
    // A longer one is no call, and its end may be beyond all numbers.
    let place =
        (call.addr < 1 << 62 && call.len < 16).then(|| file.code_at(call.addr, call.len as u64)).flatten();
    place.ok_or_else(|| Error::damaged(format_args!("the call at {:#x} is outside of its code", call.addr)))
}

/// The new file.
struct Writer<'a> {
    file: File<'a>,
    out: Vec<u8>,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// The sections' names.
    names: Vec<u8>,
}

/// A new segment, part by part.
struct Part {
    addr: u64,
    bytes: Vec<u8>,
}

impl Part {
    /// Adds bytes. Returns their address.
    fn add(&mut self, bytes: &[u8], align: u64) -> u64 {
        let len = self.bytes.len().next_multiple_of(usize::try_from(align).unwrap_or(1));
        self.bytes.resize(len, 0);
        self.bytes.extend_from_slice(bytes);
        self.addr + len as u64
    }

    /// Adds sections that move, at an address that keeps their alignments.
    fn add_run(&mut self, file: &File<'_>, run: &mut Run) {
        let next = self.addr + self.bytes.len() as u64;
        self.reserve(run.addr.wrapping_sub(next) % MAX_ALIGN, 1);
        run.by = self.add(file.part(run.range.clone()), 1).wrapping_sub(run.addr);
    }

    /// Reserves bytes. Returns their address.
    fn reserve(&mut self, len: u64, align: u64) -> u64 {
        self.add(&vec![0; usize::try_from(len).unwrap_or_default()], align)
    }

    fn put(&mut self, addr: u64, part: &[u8]) {
        put(&mut self.bytes, addr - self.addr, part);
    }
}

impl Writer<'_> {
    fn add(&mut self, room: &Room, probes: &[Probe], calls: &[Call]) -> Result<(), Error> {
        let loaded = self.segments.iter().filter(|it| it.is_loaded());
        let end = loaded.map(|it| it.addr + it.len).max().unwrap_or_default();
        let mut code = Part { addr: end.next_multiple_of(PAGE), bytes: Vec::new() };
        let at = (self.out.len() as u64).next_multiple_of(PAGE);

        // Notes come first: files with debug information alone have nothing else of this segment.
        let [mut notes, mut others] = room.runs(&self.file)?;
        notes.iter_mut().for_each(|run| code.add_run(&self.file, run));
        let mut tables = Tables::new(probes, calls);
        let texts = tables.long_texts();
        tables.note = code.reserve(NOTE_LEN, 4);
        tables.records = code.reserve(tables.records_len(), 4);
        tables.texts = code.add(&texts.bytes, 1);
        let is_fixed = self.file.kind == elf::ET_EXEC;
        let relocations = if is_fixed || texts.bytes.is_empty() { None } else { Some(self.relocations()?) };
        let words = texts.words(&tables).len() as u64;
        let relocated = relocations.as_ref().map(|it| code.reserve(24 * words + it.len, 8));
        tables.stubs = code.reserve(tables.stubs_len(), 16);
        tables.thunks = code.reserve(tables.thunks_len(), 8);
        others.iter_mut().for_each(|run| code.add_run(&self.file, run));
        let code_end = code.addr + code.bytes.len() as u64;
        tables.definitions = code_end.next_multiple_of(PAGE);
        let definitions_at = at + (tables.definitions - code.addr);

        let far = || Error::unsuitable("has code that is over 2 GiB away from where its table would be");
        code.put(tables.note, &tables.note());
        code.put(tables.records, &tables.records().ok_or_else(far)?);
        code.put(tables.stubs, &tables.stubs().ok_or_else(far)?);
        code.put(tables.thunks, &tables.thunks());
        for (call, thunk) in calls.iter().zip(tables.thunk_of()) {
            let latent = call.latent(thunk).ok_or_else(far)?;
            put(&mut self.out, place(&self.file, call)?, &latent);
        }
        self.move_headers(room, &[notes, others].concat(), at.wrapping_sub(code.addr));
        if let (Some(old), Some(addr)) = (relocations, relocated) {
            self.relocate(&mut code, &old, addr, &texts.words(&tables), at);
        }
        let data = Part { addr: tables.definitions, bytes: tables.definitions(&texts, is_fixed) };
        self.add_segments(room, &tables, [(at, &code), (definitions_at, &data)]);
        self.add_sections(&tables, &texts, at.wrapping_sub(code.addr));
        put(
            &mut self.out,
            self.file.segments_at,
            &self.segments.iter().flat_map(Segment::bytes).collect::<Vec<_>>(),
        );
        put_short(
            &mut self.out,
            field::SEGMENT_COUNT,
            u16::try_from(self.segments.len()).unwrap_or_default(),
        );
        for (at, bytes) in [(at, &code.bytes), (definitions_at, &data.bytes)] {
            self.out.resize(usize::try_from(at).unwrap_or_default(), 0);
            self.out.extend_from_slice(bytes);
        }
        self.write_sections();
        Ok(())
    }

    /// Writes the new addresses of the moved part to headers, dynamic section and symbols.
    fn move_headers(&mut self, room: &Room, runs: &[Run], to_file: u64) {
        let distance = |addr: u64| runs.iter().find(|run| run.has(addr)).map(|run| run.by);
        for it in self.segments.iter_mut().filter(|it| !it.is_loaded() && it.kind != elf::PT_PHDR) {
            let is_moved = it.file_len != 0 && room.moved.contains(&it.offset);
            if let Some(by) = distance(it.addr).filter(|_| is_moved) {
                it.addr = it.addr.wrapping_add(by);
                it.paddr = it.paddr.wrapping_add(by);
                it.offset = it.addr.wrapping_add(to_file);
            }
        }
        for number in &room.sections {
            let it = &mut self.sections[*number];
            it.addr = it.addr.wrapping_add(distance(it.addr).unwrap_or_default());
            it.offset = it.addr.wrapping_add(to_file);
        }
        for (at, tag, value) in dynamic(&self.file) {
            if let Some(by) = distance(value).filter(|_| is_address(tag)) {
                put(&mut self.out, at + 8, &value.wrapping_add(by).to_le_bytes());
            }
        }
        let moved: HashSet<usize> = room.sections.iter().copied().collect();
        let tables = self.file.sections.iter().filter(|it| it.kind == elf::SHT_SYMTAB && !it.is_allocated());
        for range in tables.map(Section::range) {
            for at in range.clone().step_by(24).filter(|at| at + 24 <= range.end) {
                let symbol = self.file.part(at..at + 24);
                let section = u16::from_le_bytes([symbol[6], symbol[7]]);
                let value = u64::from_le_bytes(symbol[8..16].try_into().unwrap_or_default());
                if let Some(by) = distance(value).filter(|_| moved.contains(&section.into())) {
                    put(&mut self.out, at + 8, &value.wrapping_add(by).to_le_bytes());
                }
            }
        }
    }
}

/// The dynamic linker's table of relocations.
struct Relocations {
    addr: u64,
    len: u64,
    /// Places of its address, its length, and the number of its first relocations that are of the
    /// simplest kind.
    entries: [Option<(u64, u64)>; 3],
}

impl Writer<'_> {
    /// Finds the relocations.
    fn relocations(&self) -> Result<Relocations, Error> {
        let dynamic = dynamic(&self.file);
        let entry =
            |wanted| dynamic.iter().find(|(_, tag, _)| *tag == wanted).map(|(at, _, value)| (*at, *value));
        let entries = [elf::DT_RELA, elf::DT_RELASZ, elf::DT_RELACOUNT].map(entry);
        let [Some((_, addr)), Some((_, len)), _] = entries else {
            return Err(Error::unsuitable("has long names, and no relocations (DT_RELA), which these need"));
        };
        let jumps = entry(elf::DT_JMPREL).map_or(addr, |it| it.1);
        let is_apart = !(addr + 1..addr.saturating_add(len)).contains(&jumps);
        if !is_apart || len % 24 != 0 || self.file_place(addr, len).is_none() {
            return Err(Error::damaged("its relocations are not in the file"));
        }
        Ok(Relocations { addr, len, entries })
    }

    fn file_place(&self, addr: u64, len: u64) -> Option<u64> {
        let end = addr.checked_add(len)?;
        let mut holding = self
            .file
            .segments
            .iter()
            .filter(|it| it.is_loaded() && it.addr <= addr && end <= it.addr + it.file_len);
        holding.next().map(|it| it.offset + (addr - it.addr))
    }

    /// Writes the relocations to their new place, with those of the long texts ahead.
    fn relocate(&mut self, code: &mut Part, old: &Relocations, addr: u64, words: &[(u64, u64)], at: u64) {
        let place = self.file_place(old.addr, old.len).unwrap_or_default();
        let own: Vec<u8> = words.iter().flat_map(|(at, to)| file::relative(*at, *to)).collect();
        code.put(addr, &own);
        code.put(addr + own.len() as u64, self.file.part(place..place + old.len));
        let values = [addr, old.len + own.len() as u64];
        let [address, len, count] = old.entries;
        let count = count.map(|(at, many)| (at, many.wrapping_add(words.len() as u64)));
        let changed =
            [address, len].into_iter().zip(values).filter_map(|(entry, value)| Some((entry?.0, value)));
        for (at, value) in changed.chain(count) {
            put(&mut self.out, at + 8, &value.to_le_bytes());
        }
        // A part of it that has moved keeps a header, which is the table's.
        let is_table = |it: &Section| it.kind == elf::SHT_RELA && it.is_allocated();
        for (section, before) in self.sections.iter_mut().zip(&self.file.sections) {
            if is_table(before) && before.addr == old.addr {
                (section.addr, section.offset) = (addr, at + (addr - code.addr));
                section.len = values[1];
            }
        }
    }

    /// Adds headers of the new segments, behind the others of their kinds.
    fn add_segments(&mut self, room: &Room, tables: &Tables<'_>, parts: [(u64, &Part); 2]) {
        let [code, data] = parts.map(|(offset, part)| {
            let len = part.bytes.len() as u64;
            (offset, part.addr, len)
        });
        let flags = |bits: u32| elf::ProgramFlags(bits);
        let segment = |kind, bits, (offset, addr, len), align| Segment {
            kind,
            flags: flags(bits),
            offset,
            addr,
            paddr: addr,
            file_len: len,
            len,
            align,
        };
        let note = (code.0 + (tables.note - code.1), tables.note, NOTE_LEN);
        match room.notes.and_then(|number| self.segments.get_mut(number)) {
            Some(notes) => {
                notes.file_len = tables.note + NOTE_LEN - notes.addr;
                notes.len = notes.file_len;
            }
            None => self.segments.push(segment(elf::PT_NOTE, elf::PF_R.0, note, 4)),
        }
        let last = self.segments.iter().rposition(Segment::is_loaded).map_or(0, |it| it + 1);
        let read_execute = segment(elf::PT_LOAD, elf::PF_R.0 | elf::PF_X.0, code, PAGE);
        let read_write = segment(elf::PT_LOAD, elf::PF_R.0 | elf::PF_W.0, data, PAGE);
        self.segments.splice(last..last, [read_execute, read_write]);
        let own = self.file.segments_at;
        let len = file::SEGMENT_LEN * self.segments.len() as u64;
        for it in &mut self.segments {
            if it.kind == elf::PT_PHDR {
                (it.file_len, it.len) = (len, len);
            }
            // The first segment may consist of headers only.
            if it.is_loaded()
                && it.offset <= own
                && own < it.offset + it.file_len
                && it.range().end < own + len
            {
                it.file_len = own + len - it.offset;
                it.len = it.len.max(it.file_len);
            }
        }
    }

    /// Adds headers of the new sections.
    fn add_sections(&mut self, tables: &Tables<'_>, texts: &LongTexts, to_file: u64) {
        let allocated = elf::SHF_ALLOC.0;
        let (code, data) = (allocated | elf::SHF_EXECINSTR.0, allocated | elf::SHF_WRITE.0);
        let code_len = tables.thunks + tables.thunks_len() - tables.stubs;
        let sections = [
            (NOTE, elf::SHT_NOTE, allocated, tables.note, NOTE_LEN, 4),
            (RECORDS, elf::SHT_PROGBITS, allocated, tables.records, tables.records_len(), 4),
            (TEXTS, elf::SHT_PROGBITS, allocated, tables.texts, texts.bytes.len() as u64, 1),
            (CODE, elf::SHT_PROGBITS, code, tables.stubs, code_len, 16),
            (DEFINITIONS, elf::SHT_PROGBITS, data, tables.definitions, tables.definitions_len(), 64),
        ];
        for (name, kind, flags, addr, len, align) in sections {
            if len != 0 {
                let name = self.add_name(name);
                let flags = elf::SectionFlags(flags);
                let offset = addr.wrapping_add(to_file);
                self.sections.push(Section {
                    name,
                    kind,
                    flags,
                    addr,
                    offset,
                    len,
                    link: 0,
                    info: 0,
                    align,
                    entry_len: 0,
                });
            }
        }
    }

    /// Adds a section's name. Returns its place among the names.
    fn add_name(&mut self, name: &str) -> u32 {
        let names = &mut self.names;
        let at = u32::try_from(names.len()).unwrap_or(u32::MAX);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        at
    }

    /// Writes the sections' names and headers to the end.
    fn write_sections(&mut self) {
        let names = &mut self.sections[self.file.names];
        (names.offset, names.len) = (self.out.len() as u64, self.names.len() as u64);
        self.out.extend_from_slice(&self.names);
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        let at = self.out.len().to_le_bytes();
        put(&mut self.out, field::SECTIONS_AT as u64, &at);
        let count = u16::try_from(self.sections.len()).unwrap_or_default();
        put_short(&mut self.out, field::SECTION_COUNT, count);
        self.out.extend(self.sections.iter().flat_map(Section::bytes));
    }
}
