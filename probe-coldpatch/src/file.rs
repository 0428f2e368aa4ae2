//! A file's header, segments and sections. No number in the file is believed: each table and each
//! part has to lie in the file.

use std::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{Pod, bytes_of, from_bytes, slice_from_bytes};
use object::{I64, LittleEndian as LE, U16, U32, U64};

use crate::error::Error;

/// The sizes of a program header and of a section header.
pub(crate) const SEGMENT_LEN: u64 = 56;
pub(crate) const SECTION_LEN: u64 = 64;

/// The size of a page, which segments begin with.
pub(crate) const PAGE: u64 = 0x1000;

/// A program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: elf::ProgramType,
    pub(crate) flags: elf::ProgramFlags,
    pub(crate) offset: u64,
    pub(crate) addr: u64,
    pub(crate) paddr: u64,
    pub(crate) file_len: u64,
    pub(crate) len: u64,
    pub(crate) align: u64,
}

impl Segment {
    fn read(it: &ProgramHeader64<LE>) -> Self {
        Self {
            kind: it.p_type.get(LE),
            flags: it.p_flags.get(LE),
            offset: it.p_offset.get(LE),
            addr: it.p_vaddr.get(LE),
            paddr: it.p_paddr.get(LE),
            file_len: it.p_filesz.get(LE),
            len: it.p_memsz.get(LE),
            align: it.p_align.get(LE),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        bytes_of(&ProgramHeader64 {
            p_type: U32::new(LE, self.kind),
            p_flags: U32::new(LE, self.flags),
            p_offset: U64::new(LE, self.offset),
            p_vaddr: U64::new(LE, self.addr),
            p_paddr: U64::new(LE, self.paddr),
            p_filesz: U64::new(LE, self.file_len),
            p_memsz: U64::new(LE, self.len),
            p_align: U64::new(LE, self.align),
        })
        .to_vec()
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.kind == elf::PT_LOAD
    }

    /// Returns its place in the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.file_len
    }
}

/// A section header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    /// The place of its name among the names.
    pub(crate) name: u32,
    pub(crate) kind: elf::SectionType,
    pub(crate) flags: elf::SectionFlags,
    pub(crate) addr: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entry_len: u64,
}

impl Section {
    fn read(it: &SectionHeader64<LE>) -> Self {
        Self {
            name: it.sh_name.get(LE),
            kind: it.sh_type.get(LE),
            flags: it.sh_flags.get(LE),
            addr: it.sh_addr.get(LE),
            offset: it.sh_offset.get(LE),
            len: it.sh_size.get(LE),
            link: it.sh_link.get(LE),
            info: it.sh_info.get(LE),
            align: it.sh_addralign.get(LE),
            entry_len: it.sh_entsize.get(LE),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        bytes_of(&SectionHeader64 {
            sh_name: U32::new(LE, self.name),
            sh_type: U32::new(LE, self.kind),
            sh_flags: U64::new(LE, self.flags),
            sh_addr: U64::new(LE, self.addr),
            sh_offset: U64::new(LE, self.offset),
            sh_size: U64::new(LE, self.len),
            sh_link: U32::new(LE, self.link),
            sh_info: U32::new(LE, self.info),
            sh_addralign: U64::new(LE, self.align),
            sh_entsize: U64::new(LE, self.entry_len),
        })
        .to_vec()
    }

    pub(crate) fn is_allocated(&self) -> bool {
        self.flags.0 & elf::SHF_ALLOC.0 != 0
    }

    /// Returns its place in the file, which is empty if the file has none of it.
    pub(crate) fn range(&self) -> Range<u64> {
        let has_none = self.kind == elf::SHT_NOBITS || self.kind == elf::SHT_NULL;
        self.offset..self.offset + if has_none { 0 } else { self.len }
    }
}

/// A file that was checked.
pub(crate) struct File<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) kind: elf::FileType,
    /// The place of the program headers.
    pub(crate) segments_at: u64,
    pub(crate) segments: Vec<Segment>,
    /// The place of the section headers.
    pub(crate) sections_at: u64,
    pub(crate) sections: Vec<Section>,
    /// The number of the section with the sections' names.
    pub(crate) names: usize,
}

/// Offsets of the header's fields that change.
pub(crate) mod field {
    pub(crate) const SECTIONS_AT: usize = 40;
    pub(crate) const SEGMENT_COUNT: usize = 56;
    pub(crate) const SECTION_COUNT: usize = 60;
}

impl<'a> File<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// If it is no file of x86-64 with sections, or damaged.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = header(bytes)?;
        let kind = header.e_type.get(LE);
        let (segments_at, sections_at) = (header.e_phoff.get(LE), header.e_shoff.get(LE));
        let (segment_count, section_count) = (header.e_phnum.get(LE), header.e_shnum.get(LE));
        if section_count == 0 {
            return Err(Error::unsuitable(
                "has no section headers, or too many: coldpatch before they are removed",
            ));
        }
        let has_sizes = u64::from(header.e_shentsize.get(LE)) == SECTION_LEN
            && (segment_count == 0 || u64::from(header.e_phentsize.get(LE)) == SEGMENT_LEN);
        if !has_sizes || segment_count == elf::PN_XNUM {
            return Err(Error::damaged("its header has impossible sizes"));
        }
        let segments = table::<ProgramHeader64<LE>>(bytes, segments_at, segment_count.into());
        let sections = table::<SectionHeader64<LE>>(bytes, sections_at, section_count.into());
        let (Some(segments), Some(sections)) = (segments, sections) else {
            return Err(Error::damaged("its tables of headers are not in the file: it was cut off"));
        };
        let file = Self {
            bytes,
            kind,
            segments_at,
            sections_at,
            segments: segments.iter().map(Segment::read).collect(),
            sections: sections.iter().map(Section::read).collect(),
            names: header.e_shstrndx.get(LE).0.into(),
        };
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), Error> {
        let is_inside =
            |offset: u64, len: u64| offset.checked_add(len).is_some_and(|end| end <= self.length());
        for (number, it) in self.segments.iter().enumerate() {
            // The stack's, for example, has neither place nor address.
            let is_sound = is_inside(it.offset, it.file_len)
                && it.addr.checked_add(it.len).is_some_and(|end| end <= 1 << 62)
                && (!it.is_loaded() || it.file_len <= it.len);
            if !is_sound {
                return Err(Error::damaged(format_args!(
                    "segment {number} is not in the file: it was cut off"
                )));
            }
        }
        for (number, it) in self.sections.iter().enumerate() {
            let has_bytes = it.kind != elf::SHT_NOBITS && it.kind != elf::SHT_NULL;
            let is_sound = if has_bytes { is_inside(it.offset, it.len) } else { it.offset < 1 << 62 };
            if !is_sound || it.addr.checked_add(it.len).is_none_or(|end| end > 1 << 62) {
                return Err(Error::damaged(format_args!(
                    "section {number} is not in the file: it was cut off"
                )));
            }
        }
        let names = self.sections.get(self.names).is_some_and(|it| it.kind == elf::SHT_STRTAB);
        if names { Ok(()) } else { Err(Error::damaged("its sections have no names")) }
    }

    pub(crate) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the bytes of a part that was checked.
    pub(crate) fn part(&self, range: Range<u64>) -> &'a [u8] {
        let [start, end] = [range.start, range.end].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Returns a section's name; empty if it has none.
    pub(crate) fn name(&self, section: &Section) -> &'a [u8] {
        let names = self.part(self.sections[self.names].range());
        let name = names.get(section.name as usize..).unwrap_or_default();
        name.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns the number of a section with this name.
    pub(crate) fn section(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|it| it.kind != elf::SHT_NULL && self.name(it) == name.as_bytes())
    }

    /// Returns the place in the file of code at an address.
    pub(crate) fn code_at(&self, addr: u64, len: u64) -> Option<u64> {
        let code = self.segments.iter().filter(|it| it.is_loaded() && it.flags.0 & elf::PF_X.0 != 0);
        let mut holding = code.filter(|it| it.addr <= addr && addr + len <= it.addr + it.file_len);
        holding.next().map(|it| it.offset + (addr - it.addr))
    }
}

/// Reads the header, and checks that sites can be in such a file.
fn header(bytes: &[u8]) -> Result<&FileHeader64<LE>, Error> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(Error::unsuitable("is no ELF file"));
    }
    if bytes.get(4).is_some_and(|class| *class != elf::ELFCLASS64.0) {
        return Err(Error::unsuitable("has 32 bits: sites that are patched exist on x86-64 only"));
    }
    if bytes.get(5).is_some_and(|order| *order != elf::ELFDATA2LSB.0) {
        return Err(Error::unsuitable("is big-endian: sites that are patched exist on x86-64 only"));
    }
    let Ok((header, _)) = from_bytes::<FileHeader64<LE>>(bytes) else {
        return Err(Error::damaged("it ends within its header"));
    };
    let machine = header.e_machine.get(LE);
    if machine != elf::EM_X86_64 {
        let machine = match machine {
            elf::EM_AARCH64 => "AArch64".to_owned(),
            elf::EM_RISCV => "RISC-V".to_owned(),
            other => format!("machine {}", other.0),
        };
        return Err(Error::unsuitable(format!(
            "is for {machine}: sites that are patched exist on x86-64 only"
        )));
    }
    Ok(header)
}

/// Returns a table of structures in a file.
pub(crate) fn table<T: Pod>(bytes: &[u8], at: u64, many: usize) -> Option<&[T]> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    slice_from_bytes(rest, many).ok().map(|(table, _)| table)
}

/// Entries of the dynamic section, with the place of each in the file.
pub(crate) fn dynamic(file: &File<'_>) -> Vec<(u64, elf::DynamicTag, u64)> {
    let Some(dynamic) = file.segments.iter().find(|it| it.kind == elf::PT_DYNAMIC) else { return Vec::new() };
    let many = usize::try_from(dynamic.file_len / 16).unwrap_or_default();
    let entries = table::<elf::Dyn64<LE>>(file.bytes, dynamic.offset, many).unwrap_or_default();
    let entries = entries.iter().map(|it| (it.d_tag.get(LE), it.d_val.get(LE)));
    let places = (0..).map(|number| dynamic.offset + 16 * number);
    places
        .zip(entries)
        .map(|(at, (tag, value))| (at, tag, value))
        .take_while(|it| it.1 != elf::DT_NULL)
        .collect()
}

/// Returns the bytes of a relocation that adds the loading address to `to`.
pub(crate) fn relative(at: u64, to: u64) -> Vec<u8> {
    bytes_of(&elf::Rela64::<LE> {
        r_offset: U64::new(LE, at),
        r_info: U64::new(LE, elf::R_X86_64_RELATIVE.0.into()),
        r_addend: I64::new(LE, to.cast_signed()),
    })
    .to_vec()
}

/// Overwrites bytes that are there.
pub(crate) fn put(bytes: &mut [u8], at: u64, part: &[u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    if let Some(into) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..part.len())) {
        into.copy_from_slice(part);
    }
}

/// Overwrites a number of two bytes.
pub(crate) fn put_short(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at as u64, bytes_of(&U16::<LE>::new(LE, value)));
}
