//! The tables of sleds in an ELF file: places that a compiler has left for patches.
//!
//! | section | compiler's flag | an element |
//! |---|---|---|
//! | `__patchable_function_entries` | `-fpatchable-function-entry=N[,M]` | the address of a function's first NOP, in 8 bytes |
//! | `xray_instr_map` | `-fxray-instrument` | 32 bytes: the sled's address and the function's, the kind, whether it is always patched, the version |
//!
//! The sections are loaded, but no program header leads there, so the section headers of the file
//! are read. Addresses in the file are those before relocation: of version 2 on, XRay's are
//! relative to their own place. Others are in the relative relocations of a program that may lie
//! anywhere, or where these are packed, in the table itself.
//!
//! # Patchable entries
//! With `N,M`, M of the NOPs lie before the function. Its beginning is taken from the symbols, in a
//! stripped file from the unwind table. An `endbr64` comes before the others. gcc leaves N NOPs of
//! one byte, LLVM as few as it can.
//!
//! # XRay
//! ```text
//! entry, tail exit   eb 09  66 0f 1f 84 00 00 02 00 00       a jump over nine bytes of NOP
//! exit               c3  2e 66 0f 1f 84 00 00 02 00 00       a return, and ten bytes of NOP
//! ```
//! Each begins at an even address. Cost: a pass over the section headers; where there is a table,
//! also over symbols and relocations.

mod nops;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, R_X86_64_RELATIVE, SHF_ALLOC, SHF_EXECINSTR, SHN_UNDEF,
    SHT_DYNSYM, SHT_RELA, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC, SectionHeader64,
};
use object::read::elf::{ElfFile64, FileHeader as _, Rela as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadRef};

use crate::extents::ranges_of_unwind_table;
use nops::{entry_form, nops};

/// The sleds of a file, by their addresses there, and those that can't be used.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sleds {
    /// The sleds, ascending; none overlaps another one.
    pub usable: Vec<Sled>,
    /// The others, in the order of the tables.
    pub unusable: Vec<Unusable>,
}

/// One sled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sled {
    /// The address of the first byte that is changed.
    pub at: u64,
    /// The address of the function.
    pub function: u64,
    /// Its place in the function.
    pub place: Place,
    /// Its instructions.
    pub form: Form,
    /// Its bytes, and zeroes behind them.
    pub bytes: [u8; MAX_LEN],
}

/// The place of a sled in its function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// Before all else, but for an `endbr64`.
    Entry,
    /// Before a return.
    Exit,
    /// Before a jump to another function.
    TailExit,
}

/// The instructions of a sled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Five NOPs of one byte, or more.
    Bytes,
    /// One NOP of this length, from 5 to 15 bytes. The one of five bytes is the latent site of
    /// docs/abi.md.
    Nop(u8),
    /// XRay's jump over nine bytes.
    Jump,
    /// XRay's return before ten bytes.
    Return,
}

impl Form {
    /// Returns the number of bytes that belong to the sled.
    pub fn size(self) -> u8 {
        match self {
            Self::Bytes => 5,
            Self::Nop(len) => len,
            Self::Jump | Self::Return => 11,
        }
    }
}

/// A sled that can't be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unusable {
    /// The address in the table.
    pub at: u64,
    /// The address of the function, as far as the table tells it.
    pub function: u64,
    /// Its place in the function.
    pub place: Place,
    /// Why it can't be used.
    pub obstacle: Obstacle,
}

/// Why a sled can't be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// It does not lie in code.
    NoCode,
    /// It is not at the beginning of a function.
    NotAtEntry,
    /// There are fewer than five bytes of NOPs.
    Short(u8),
    /// One NOP is so short that a thread may be between it and the next.
    Pieces(u8),
    /// The first two bytes of a long NOP lie in two aligned words.
    Split,
    /// The bytes are not those of such a sled.
    Bytes,
    /// An event of XRay's own, which calls with arguments.
    Event,
    /// A kind that this reader does not know.
    Kind(u8),
    /// Another sled lies there, too: functions with the same code, made one by the linker, say.
    Overlap,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCode => f.write_str("its address is not in code"),
            Self::NotAtEntry => f.write_str("its address is not at the beginning of a function"),
            Self::Short(many) => write!(
                f,
                "{many} bytes of NOPs behind the function's beginning, and a call takes 5: compile with \
                 -fpatchable-function-entry=5 or more"
            ),
            Self::Pieces(len) => write!(f, "its first NOP has {len} bytes, and a call takes 5"),
            Self::Split => f.write_str("the first two bytes of its NOP lie in two aligned words"),
            Self::Bytes => f.write_str("its bytes are no sled's"),
            Self::Event => f.write_str("a custom event of XRay"),
            Self::Kind(kind) => write!(f, "XRay's kind {kind} is not known"),
            Self::Overlap => f.write_str("another sled lies there, too"),
        }
    }
}

const PATCHABLE: &[u8] = b"__patchable_function_entries";
const XRAY: &[u8] = b"xray_instr_map";

/// Bytes of an element of XRay's table.
const XRAY_SIZE: usize = 32;
/// From this version on, XRay's addresses are relative.
const XRAY_RELATIVE: u8 = 2;

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const NOP: u8 = 0x90;
/// The longest instruction, and the longest sled.
const MAX_LEN: usize = 15;
/// How many NOPs may lie before a function.
const MAX_BEFORE: usize = 255;

/// Reads the sleds of a program or a shared object for x86-64. Returns `None` if no table can be
/// read there.
///
/// # Errors
/// The problem of a file that would take many times its size to read.
pub fn read<'d, R: ReadRef<'d>>(data: R) -> Result<Option<Sleds>, String> {
    sleds(data).unwrap_or(Ok(None))
}

fn sleds<'d, R: ReadRef<'d>>(data: R) -> object::Result<Result<Option<Sleds>, String>> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let is_known = header.e_machine(endian) == EM_X86_64 && matches!(header.e_type(endian), ET_EXEC | ET_DYN);
    if !is_known {
        return Ok(Ok(None));
    }
    let sections = header.sections(endian, data)?;
    let named = |name: &[u8]| -> Vec<Table<'d>> {
        let own = sections.iter().filter(|section| {
            sections.section_name(endian, section) == Ok(name)
                && section.sh_flags(endian).0 & SHF_ALLOC.0 != 0
        });
        own.filter_map(|section| {
            Some(Table { at: section.sh_addr(endian), bytes: section.data(endian, data).ok()? })
        })
        .collect()
    };
    let (patchable, xray) = (named(PATCHABLE), named(XRAY));
    if patchable.is_empty() && xray.is_empty() {
        return Ok(Ok(None));
    }
    // Sections that share bytes of the file would take many times its size.
    let is_read = |section: &&SectionHeader64<Endianness>| {
        let flags = section.sh_flags(endian).0;
        matches!(section.sh_type(endian), SHT_RELA | SHT_SYMTAB | SHT_DYNSYM)
            || flags & SHF_EXECINSTR.0 != 0 && section.file_range(endian).is_some()
    };
    let sizes = sections.iter().filter(is_read).map(|section| section.sh_size(endian));
    let all = sizes.fold(0, u64::saturating_add);
    let of_tables = patchable.iter().chain(&xray).map(|table| table.bytes.len() as u64).sum::<u64>();
    if data.len().is_ok_and(|len| all.saturating_add(of_tables) > len) {
        return Ok(Err("the sections of its code, symbols and sleds share bytes".to_owned()));
    }
    let in_table = |at: u64| patchable.iter().chain(&xray).any(|table| table.holds(at));
    let mut moved = HashMap::new();
    let mut starts = Vec::new();
    let mut code = Vec::new();
    let mut has_symbols = false;
    for section in sections.iter() {
        match section.sh_type(endian) {
            SHT_RELA if section.sh_flags(endian).0 & SHF_ALLOC.0 != 0 => {
                let all = section.rela(endian, data)?.map_or(&[][..], |(all, _)| all);
                let own = all.iter().filter(|it| {
                    it.r_type(endian, false) == R_X86_64_RELATIVE && in_table(it.r_offset(endian))
                });
                moved.extend(own.map(|it| (it.r_offset(endian), it.r_addend(endian).cast_unsigned())));
            }
            SHT_SYMTAB | SHT_DYNSYM => {
                has_symbols |= section.sh_type(endian) == SHT_SYMTAB;
                starts.extend(functions(section, endian, data));
            }
            _ if section.sh_flags(endian).0 & SHF_EXECINSTR.0 != 0 => {
                let bytes = section.data(endian, data).unwrap_or_default();
                code.push(Table { at: section.sh_addr(endian), bytes });
            }
            _ => {}
        }
    }
    if !has_symbols {
        let file = ElfFile64::<Endianness, R>::parse(data)?;
        starts.extend(ranges_of_unwind_table(&file).iter().map(|range| range.start));
    }
    starts.sort_unstable();
    starts.dedup();
    let file = File { code, starts, moved };
    let mut sleds = Sleds::default();
    for table in &patchable {
        file.read_entries(table, &mut sleds);
    }
    for table in &xray {
        file.read_xray(table, &mut sleds);
    }
    sleds.sort();
    Ok(Ok(Some(sleds)))
}

/// Returns the addresses of the functions in a table of symbols.
fn functions<'d, R: ReadRef<'d>>(
    section: &SectionHeader64<Endianness>,
    endian: Endianness,
    data: R,
) -> impl Iterator<Item = u64> + use<'d, R> {
    let symbols: &[object::elf::Sym64<Endianness>] = section.data_as_array(endian, data).unwrap_or_default();
    let functions = symbols.iter().filter(move |symbol| {
        matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) && symbol.st_shndx(endian) != SHN_UNDEF
    });
    functions.map(move |symbol| symbol.st_value(endian))
}

/// Some bytes of a file, with their address.
struct Table<'d> {
    at: u64,
    bytes: &'d [u8],
}

impl<'d> Table<'d> {
    fn holds(&self, at: u64) -> bool {
        at.checked_sub(self.at).is_some_and(|offset| offset < self.bytes.len() as u64)
    }

    /// Returns the bytes from an address on.
    fn from(&self, at: u64) -> Option<&'d [u8]> {
        self.bytes.get(usize::try_from(at.checked_sub(self.at)?).ok()?..).filter(|rest| !rest.is_empty())
    }

    /// Returns the elements of this size, with their addresses. A rest is left out.
    fn elements<const SIZE: usize>(&self) -> impl Iterator<Item = (u64, &'d [u8; SIZE])> {
        let at = self.at;
        self.bytes
            .as_chunks()
            .0
            .iter()
            .zip(0_u64..)
            .map(move |(element, number)| (at.wrapping_add(number.wrapping_mul(SIZE as u64)), element))
    }
}

struct File<'d> {
    code: Vec<Table<'d>>,
    /// The beginnings of functions, ascending.
    starts: Vec<u64>,
    /// The values that the dynamic linker adds the file's place to.
    moved: HashMap<u64, u64>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl<'d> File<'d> {
    /// Returns the code from an address on, up to the end of its section.
    fn code(&self, at: u64) -> Option<&'d [u8]> {
        self.code.iter().find_map(|section| section.from(at))
    }

    fn sled(&self, at: u64, function: u64, place: Place, form: Form) -> Sled {
        let mut bytes = [0; MAX_LEN];
        let code = self.code(at).unwrap_or_default();
        bytes.iter_mut().zip(code).take(form.size().into()).for_each(|(byte, found)| *byte = *found);
        Sled { at, function, place, form, bytes }
    }

    fn read_entries(&self, table: &Table<'_>, sleds: &mut Sleds) {
        for (slot, element) in table.elements::<8>() {
            let at = self.moved.get(&slot).copied().unwrap_or(u64::from_le_bytes(*element));
            match self.entry(at) {
                Ok(sled) => sleds.usable.push(sled),
                Err((function, obstacle)) => {
                    sleds.unusable.push(Unusable { at, function, place: Place::Entry, obstacle });
                }
            }
        }
    }

    /// Returns the sled of a patchable entry, whose first NOP is at this address.
    fn entry(&self, at: u64) -> Result<Sled, (u64, Obstacle)> {
        let code = self.code(at).ok_or((at, Obstacle::NoCode))?;
        let next = self.starts.partition_point(|start| *start < at);
        let before = next.checked_sub(1).map(|before| self.starts[before]);
        // How many bytes of NOPs lie before a function that begins behind them.
        let until = |start: &u64| usize::try_from(start - at).ok().filter(|until| *until <= MAX_BEFORE);
        let ahead = self.starts.get(next).and_then(until).filter(|until| nops(code, *until));
        let (function, skipped) = if let Some(until) = ahead {
            let is_marked = code[until..].starts_with(&ENDBR64);
            (at + until as u64, until + if is_marked { ENDBR64.len() } else { 0 })
        } else if let Some(before) = before {
            let is_marked = at - before == ENDBR64.len() as u64
                && self.code(before).is_some_and(|code| code.starts_with(&ENDBR64));
            (before, if is_marked { 0 } else { return Err((at, Obstacle::NotAtEntry)) })
        } else {
            // Without symbols, the table is believed.
            let marked = at.checked_sub(ENDBR64.len() as u64);
            let marked = marked.filter(|it| self.code(*it).is_some_and(|code| code.starts_with(&ENDBR64)));
            (marked.unwrap_or(at), 0)
        };
        let at = at + skipped as u64;
        let mut room = code.len() - skipped;
        if let Some(other) = self.starts.get(self.starts.partition_point(|start| *start <= at)) {
            room = room.min(usize::try_from(other - at).unwrap_or(usize::MAX));
        }
        let form = entry_form(at, &code[skipped..skipped + room]).map_err(|it| (function, it))?;
        Ok(self.sled(at, function, Place::Entry, form))
    }

    fn read_xray(&self, table: &Table<'_>, sleds: &mut Sleds) {
        for (slot, element) in table.elements::<XRAY_SIZE>() {
            let version = element[18];
            let address = |field: u64| {
                let value = word(element, usize::try_from(field).unwrap_or_default());
                if version >= XRAY_RELATIVE {
                    return slot.wrapping_add(field).wrapping_add(value);
                }
                self.moved.get(&slot.wrapping_add(field)).copied().unwrap_or(value)
            };
            let (at, function) = (address(0), address(8));
            let (place, obstacle) = match element[16] {
                0 | 3 => (Place::Entry, None),
                1 => (Place::Exit, None),
                2 => (Place::TailExit, None),
                4 | 5 => (Place::Entry, Some(Obstacle::Event)),
                kind => (Place::Entry, Some(Obstacle::Kind(kind))),
            };
            let form = obstacle.map_or_else(|| self.xray_form(at, place), Err);
            match form {
                Ok(form) => sleds.usable.push(self.sled(at, function, place, form)),
                Err(obstacle) => sleds.unusable.push(Unusable { at, function, place, obstacle }),
            }
        }
    }

    fn xray_form(&self, at: u64, place: Place) -> Result<Form, Obstacle> {
        let code = self.code(at).ok_or(Obstacle::NoCode)?;
        let (form, head): (_, &[u8]) =
            if place == Place::Exit { (Form::Return, &[0xc3]) } else { (Form::Jump, &[0xeb, 0x09]) };
        let all = usize::from(form.size());
        let is_sled = at.is_multiple_of(2)
            && code.starts_with(head)
            && code.get(head.len()..all).is_some_and(|rest| nops(rest, rest.len()));
        if is_sled { Ok(form) } else { Err(Obstacle::Bytes) }
    }
}

impl Sleds {
    /// Sorts the sleds, and leaves out those that overlap others.
    fn sort(&mut self) {
        self.usable.sort_by_key(|sled| (sled.at, sled.place));
        let mut end = 0;
        let unusable = &mut self.unusable;
        self.usable.retain(|Sled { at, function, place, form, .. }| {
            let (at, is_free) = (*at, *at >= end);
            if is_free {
                end = at.saturating_add(form.size().into());
            } else {
                let (function, place) = (*function, *place);
                unusable.push(Unusable { at, function, place, obstacle: Obstacle::Overlap });
            }
            is_free
        });
    }

    /// Returns the addresses from the first sled's to the last one's end.
    pub fn range(&self) -> Range<u64> {
        let (first, last) = (self.usable.first(), self.usable.last());
        first.map_or(0, |it| it.at)..last.map_or(0, |it| it.at.saturating_add(it.form.size().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file with this code at `0x1000`, and functions that begin at these addresses.
    fn file<'d>(code: &'d [u8], starts: &[u64]) -> File<'d> {
        File { code: vec![Table { at: 0x1000, bytes: code }], starts: starts.to_vec(), moved: HashMap::new() }
    }

    fn entry(code: &[u8], starts: &[u64], at: u64) -> Result<(u64, u64, Form), Obstacle> {
        let sled = file(code, starts).entry(at).map_err(|(_, obstacle)| obstacle)?;
        Ok((sled.at, sled.function, sled.form))
    }

    const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 8];

    #[test]
    fn entries_begin_behind_what_comes_before_the_function() {
        let gcc = [[0x90; 5].as_slice(), &[0xc3; 9]].concat();
        assert_eq!(entry(&gcc, &[0x1000], 0x1000), Ok((0x1000, 0x1000, Form::Bytes)));
        assert_eq!(entry(&gcc, &[], 0x1000), Ok((0x1000, 0x1000, Form::Bytes)));
        let marked = [ENDBR64.as_slice(), &gcc].concat();
        for starts in [&[0x1000][..], &[]] {
            assert_eq!(entry(&marked, starts, 0x1004), Ok((0x1004, 0x1000, Form::Bytes)));
        }
        // Two NOPs before the function; and with a marker.
        let before = [&[0x90, 0x90][..], &NOP5, &[0xc3]].concat();
        assert_eq!(entry(&before, &[0x1002], 0x1000), Ok((0x1002, 0x1002, Form::Nop(5))));
        let both = [&[0x90, 0x90][..], &marked].concat();
        assert_eq!(entry(&both, &[0x1002], 0x1000), Ok((0x1006, 0x1002, Form::Bytes)));
        // Three of five are too few, although the next function has more.
        let few = [[0x90; 5].as_slice(), &[0xc3; 3], &[0x90; 5]].concat();
        assert_eq!(entry(&few, &[0x1002, 0x1008], 0x1000), Err(Obstacle::Short(3)));
        assert_eq!(entry(&few, &[0x1000, 0x1003], 0x1000), Err(Obstacle::Short(3)));
        assert_eq!(entry(&few, &[0x1000], 0x1002), Err(Obstacle::NotAtEntry));
        assert_eq!(entry(&few, &[0x1000], 0x2002), Err(Obstacle::NoCode));
        assert_eq!(entry(&[0xc3; 8], &[0x1000], 0x1000), Err(Obstacle::Short(0)));
    }

    #[test]
    fn long_nops_must_begin_in_one_word() {
        let code = [&[0xc3; 7][..], &[0x0f, 0x1f, 0x80, 0, 2, 0, 0]].concat();
        assert_eq!(entry(&code, &[0x1007], 0x1007), Err(Obstacle::Split));
        assert_eq!(entry(&code[1..], &[0x1006], 0x1006), Ok((0x1006, 0x1006, Form::Nop(7))));
        // Two NOPs of three bytes have a border that a thread may be at.
        let pieces = [[0x0f, 0x1f, 0], [0x0f, 0x1f, 0]].concat();
        assert_eq!(entry(&pieces, &[0x1000], 0x1000), Err(Obstacle::Pieces(3)));
        let mixed = [&[0x90][..], &NOP5].concat();
        assert_eq!(entry(&mixed, &[0x1000], 0x1000), Err(Obstacle::Pieces(1)));
    }

    fn xray(kind: u8, version: u8, at: u64, function: u64) -> [u8; XRAY_SIZE] {
        let mut element = [0; XRAY_SIZE];
        element[..8].copy_from_slice(&at.to_le_bytes());
        element[8..16].copy_from_slice(&function.to_le_bytes());
        (element[16], element[18]) = (kind, version);
        element
    }

    #[test]
    fn xray_tells_entries_and_exits() {
        let jump = [0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
        let exit = [0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
        let code = [&jump[..], &[0x90], &exit, &[0x90], &jump].concat();
        let table = 0x2000_u64;
        let relative =
            |slot: u64, field: u64, there: u64| there.wrapping_sub(table + slot * XRAY_SIZE as u64 + field);
        let elements = [
            xray(0, 2, relative(0, 0, 0x1000), relative(0, 8, 0x1000)),
            xray(1, 2, relative(1, 0, 0x100c), relative(1, 8, 0x1000)),
            xray(2, 0, 0x1018, 0x1000),
            xray(3, 2, relative(3, 0, 0x1000), relative(3, 8, 0x1000)),
            xray(4, 2, relative(4, 0, 0x1000), relative(4, 8, 0x1000)),
            xray(9, 2, relative(5, 0, 0x1000), relative(5, 8, 0x1000)),
            xray(1, 2, relative(6, 0, 0x1018), relative(6, 8, 0x1000)),
        ];
        let mut sleds = Sleds::default();
        file(&code, &[]).read_xray(&Table { at: table, bytes: &elements.concat() }, &mut sleds);
        sleds.sort();
        let usable: Vec<_> = sleds.usable.iter().map(|it| (it.at, it.function, it.place, it.form)).collect();
        assert_eq!(
            usable,
            [
                (0x1000, 0x1000, Place::Entry, Form::Jump),
                (0x100c, 0x1000, Place::Exit, Form::Return),
                (0x1018, 0x1000, Place::TailExit, Form::Jump),
            ]
        );
        let obstacles: Vec<_> = sleds.unusable.iter().map(|it| it.obstacle).collect();
        assert_eq!(obstacles, [Obstacle::Event, Obstacle::Kind(9), Obstacle::Bytes, Obstacle::Overlap]);
        assert_eq!(sleds.range(), 0x1000..0x1023);
    }

    /// Name, type, flags, address, contents, size of an element.
    type Section<'a> = (u32, u32, u64, u64, &'a [u8], u64);

    /// Returns a shared object with one function of five NOPs, which its table of patchable entries
    /// names by a relocation, and an entry of XRay for the same.
    fn object() -> Vec<u8> {
        const NAMES: &[u8] = b"\0__patchable_function_entries\0xray_instr_map\0";
        const TEXT: u64 = 0x1000;
        let mut file = vec![0; 64];
        let add = |file: &mut Vec<u8>, bytes: &[u8]| {
            let at = file.len() as u64;
            file.extend(bytes);
            file.resize(file.len().next_multiple_of(8), 0);
            (at, bytes.len() as u64)
        };
        let rela = [0x2000_u64, 8, TEXT].map(u64::to_le_bytes).concat();
        let mut function = [0; 24];
        (function[4], function[6]) = (2, 1);
        function[8..16].copy_from_slice(&TEXT.to_le_bytes());
        let xray = xray(0, 2, TEXT.wrapping_sub(0x3000), TEXT.wrapping_sub(0x3008));
        let sections: [Section<'_>; 7] = [
            (0, 0, 0, 0, &[], 0),
            (0, 1, 6, TEXT, &[0x90, 0x90, 0x90, 0x90, 0x90, 0xc3], 0),
            (1, 1, 3, 0x2000, &[0; 8], 0),
            (0, 4, 2, 0x2800, &rela, 24),
            (0, 2, 0, 0, &function, 24),
            (30, 1, 2, 0x3000, &xray, 0),
            (0, 3, 0, 0, NAMES, 0),
        ];
        let placed = sections.map(|it| (it, add(&mut file, it.4)));
        let table = file.len() as u64;
        for ((name, ty, flags, addr, _, entry), (at, size)) in placed {
            file.extend([name, ty].map(u32::to_le_bytes).concat());
            file.extend([flags, addr, at, size].map(u64::to_le_bytes).concat());
            file.extend([0; 8]);
            file.extend([8, entry].map(u64::to_le_bytes).concat());
        }
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        (file[16], file[18], file[20]) = (3, 62, 1);
        file[40..48].copy_from_slice(&table.to_le_bytes());
        (file[52], file[58], file[60], file[62]) = (64, 64, 7, 6);
        file
    }

    #[test]
    fn a_file_has_its_sleds() {
        let sleds = read(object().as_slice()).unwrap().unwrap();
        let [sled] = sleds.usable.as_slice() else { panic!("{sleds:?}") };
        assert_eq!((sled.at, sled.function, sled.form), (0x1000, 0x1000, Form::Bytes));
        // XRay's element names bytes that are no sled of XRay.
        let [unusable] = sleds.unusable.as_slice() else { panic!("{sleds:?}") };
        assert_eq!((unusable.at, unusable.function, unusable.obstacle), (0x1000, 0x1000, Obstacle::Bytes));
        assert_eq!(read(&object()[..64]), Ok(None));
        // A second section with the same code.
        let mut shared = object();
        let (table, len) = (shared.len() - 7 * 64, shared.len());
        let text = shared[table + 64..table + 128].to_vec();
        shared[table + 4 * 64..][..64].copy_from_slice(&text);
        let size = len as u64;
        shared[table + 4 * 64 + 32..][..8].copy_from_slice(&size.to_le_bytes());
        assert!(read(shared.as_slice()).unwrap_err().contains("share bytes"));
    }

    proptest! {
        #[test]
        fn never_panics(data: Vec<u8>) {
            let _ = read(data.as_slice());
        }

        #[test]
        fn damaged_files_are_read_within_their_bounds(
            changes in proptest::collection::vec((0_usize..1 << 12, any::<u8>()), 1..9),
            words in proptest::collection::vec((0_usize..1 << 9, any::<u64>()), 0..3),
            len in 0_usize..1 << 10,
        ) {
            let mut file = object();
            for (at, byte) in changes {
                let at = at % file.len();
                file[at] = byte;
            }
            for (at, word) in words {
                let at = at * 8 % (file.len() - 8);
                file[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            let _ = read(file.as_slice());
            file.truncate(file.len().saturating_sub(len / 8));
            if let Ok(Some(sleds)) = read(file.as_slice()) {
                prop_assert!(sleds.usable.len() + sleds.unusable.len() <= file.len() / 8);
            }
        }

        #[test]
        fn sleds_lie_in_code_and_apart(
            code in proptest::collection::vec(
                prop_oneof![Just(0x90), Just(0x0f), Just(0x1f), Just(0x44), Just(0xeb), Just(9), Just(0xc3), any::<u8>()],
                0..200,
            ),
            mut starts in proptest::collection::vec(0xff0_u64..0x1100, 0..9),
            entries in proptest::collection::vec(0xff0_u64..0x1100, 0..20),
            sites in proptest::collection::vec((0_u8..7, 0xff0_u64..0x1100), 0..20),
        ) {
            starts.sort_unstable();
            let file = file(&code, &starts);
            let mut sleds = Sleds::default();
            let entries: Vec<_> = entries.iter().flat_map(|at| at.to_le_bytes()).collect();
            file.read_entries(&Table { at: 0, bytes: &entries }, &mut sleds);
            let sites: Vec<_> = sites.iter().flat_map(|(kind, at)| xray(*kind, 0, *at, *at)).collect();
            file.read_xray(&Table { at: 0, bytes: &sites }, &mut sleds);
            sleds.sort();
            let mut end = 0x1000;
            for sled in &sleds.usable {
                prop_assert!(end <= sled.at);
                end = sled.at + u64::from(sled.form.size());
                prop_assert!(end <= 0x1000 + code.len() as u64);
            }
        }
    }
}
