//! The loaded part of a file, by address.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

use object::elf;
use object::pod::Pod;
use probe_core::abi::noted::Memory;

use super::pages::{Header, LE, Pages, ProgramHeader, Source, open_regular, read};

/// Bytes of the longest path that the kernel accepts.
const MAX_PATH_LEN: u64 = 4096;

/// Why a file can't be read: the file, the fault, and what to do.
#[derive(Debug)]
pub struct ElfError {
    name: String,
    problem: Problem,
}

/// The fault.
#[derive(Debug)]
pub enum Problem {
    /// The system can't read the file.
    System(io::Error),
    /// It has another format.
    Foreign(&'static str),
    /// It is ELF, but not of a kind whose probes can be read.
    Unsuitable(String),
    /// Its headers say something impossible.
    Damaged(String),
}

impl ElfError {
    /// Makes the error of a file.
    pub fn new(name: &str, problem: Problem) -> Self {
        Self { name: name.to_owned(), problem }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.problem {
            Problem::System(error) => write!(f, "{name} can't be read: {error}"),
            Problem::Foreign(what) => {
                write!(f, "{name} is {what}; give an executable or a shared object (ELF)")
            }
            Problem::Unsuitable(why) => write!(f, "{name} {why}"),
            Problem::Damaged(what) => {
                write!(f, "{name} is damaged: {what}; copy or build the file again")
            }
        }
    }
}

impl error::Error for ElfError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        if let Problem::System(error) = &self.problem { Some(error) } else { None }
    }
}

/// The loader's view of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectType {
    /// An executable at a fixed address.
    Executable,
    /// A shared object, or an executable that may be loaded at any address.
    Shared,
}

impl ObjectType {
    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Shared => "position-independent",
        }
    }
}

/// A part of the file that is loaded.
#[derive(Clone, Debug)]
struct Segment {
    addr: u64,
    /// End of its bytes from the file.
    end: u64,
    offset: u64,
    is_code: bool,
    is_data: bool,
}

/// A file, as it would lie in memory. Addresses are those of the file, before any loading address
/// is added.
pub struct Image {
    name: String,
    pub(super) pages: Pages,
    pub(super) header: Header,
    object_type: ObjectType,
    /// In the order of their addresses; they don't overlap.
    segments: Vec<Segment>,
    /// Offsets, addresses and sizes of segments with notes.
    pub(super) notes: Vec<[u64; 3]>,
    /// Offset and size of the dynamic section.
    pub(super) dynamic: Option<(u64, u64)>,
    /// Offset and size of the loader's name.
    interpreter: Option<(u64, u64)>,
    /// Offset, address and size of the header of the unwind tables.
    pub(super) unwind_tables: Option<(u64, u64, u64)>,
}

impl Image {
    /// Opens a file.
    ///
    /// # Errors
    /// If it can't be read, or is no executable or shared object of x86-64 Linux.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        let name = path.display().to_string();
        match open_regular(path) {
            Ok(file) => Self::read(&name, Box::new(file)),
            Err(error) => Err(ElfError::new(&name, error.into())),
        }
    }

    /// Reads a file from elsewhere.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn read(name: &str, source: Box<dyn Source>) -> Result<Self, ElfError> {
        Self::parse(name, source).map_err(|problem| ElfError::new(name, problem))
    }

    fn parse(name: &str, source: Box<dyn Source>) -> Result<Self, Problem> {
        let pages = Pages::new(source)?;
        let (header, object_type) = header(&pages)?;
        let mut image = Self {
            name: name.to_owned(),
            pages,
            header,
            object_type,
            segments: Vec::new(),
            notes: Vec::new(),
            dynamic: None,
            interpreter: None,
            unwind_tables: None,
        };
        image.read_program_headers()?;
        Ok(image)
    }

    fn read_program_headers(&mut self) -> Result<(), Problem> {
        let (start, many) = (self.header.e_phoff.get(LE), self.header.e_phnum.get(LE));
        if many == 0 || self.header.e_phentsize.get(LE) != 56 {
            return Err(Problem::Damaged("it has no program headers".to_owned()));
        }
        for number in 0..u64::from(many) {
            let header = start.checked_add(number * 56);
            let header = header.map(|at| read::<ProgramHeader, 56>(&self.pages, at)).transpose()?.flatten();
            let Some(header) = header else {
                let length = self.pages.length();
                let problem = format!("program header {number} of {many} lies behind its end at {length}");
                return Err(Problem::Damaged(problem));
            };
            self.note_program_header(number, &header)?;
        }
        self.segments.sort_by_key(|segment| segment.addr);
        match self.segments.windows(2).find(|pair| pair[0].end > pair[1].addr) {
            None => Ok(()),
            Some(pair) => {
                let (one, other) = (pair[0].addr, pair[1].addr);
                Err(Problem::Damaged(format!("its segments at {one:#x} and {other:#x} overlap")))
            }
        }
    }

    fn note_program_header(&mut self, number: u64, header: &ProgramHeader) -> Result<(), Problem> {
        let kind = header.p_type.get(LE);
        let (offset, size) = (header.p_offset.get(LE), header.p_filesz.get(LE));
        let (addr, length) = (header.p_vaddr.get(LE), self.pages.length());
        // These tables are optional, so their header may lie anywhere.
        if kind == elf::PT_GNU_EH_FRAME && offset.checked_add(size).is_some() {
            self.unwind_tables.get_or_insert((offset, addr, size));
        }
        if ![elf::PT_LOAD, elf::PT_NOTE, elf::PT_DYNAMIC, elf::PT_INTERP].contains(&kind) {
            return Ok(());
        }
        if offset.checked_add(size).is_none_or(|end| end > length) || addr.checked_add(size).is_none() {
            let problem = format!(
                "segment {number} has {size} bytes from {offset} on, and the file ends at {length}: it was cut off"
            );
            return Err(Problem::Damaged(problem));
        }
        match kind {
            elf::PT_LOAD if size != 0 => self.segments.push(Segment {
                addr,
                end: addr + size,
                offset,
                is_code: header.p_flags.get(LE).0 & elf::PF_X.0 != 0,
                is_data: header.p_flags.get(LE).0 & elf::PF_W.0 != 0,
            }),
            elf::PT_NOTE => self.notes.push([offset, addr, size]),
            elf::PT_DYNAMIC => self.dynamic = Some((offset, size)),
            elf::PT_INTERP => self.interpreter = Some((offset, size)),
            _ => (),
        }
        Ok(())
    }

    /// Returns the file's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file's length in bytes.
    pub fn length(&self) -> u64 {
        self.pages.length()
    }

    /// Returns the loader's view of the file.
    pub fn object_type(&self) -> ObjectType {
        self.object_type
    }

    /// Returns the dynamic linker that loads this file; `None` if none does.
    ///
    /// # Errors
    /// The system's.
    pub fn interpreter(&self) -> Result<Option<PathBuf>, Problem> {
        let Some((offset, size)) = self.interpreter else { return Ok(None) };
        let path = self.pages.until_zero(offset, size.min(MAX_PATH_LEN))?;
        Ok(Some(OsString::from_vec(path).into()))
    }

    /// Returns whether it is a program, which begins somewhere.
    pub(super) fn has_entry(&self) -> bool {
        self.header.e_entry.get(LE) != 0
    }

    /// Returns the address at which the first byte of the file is loaded, or would be.
    pub fn load_start(&self) -> u64 {
        self.segments.first().map_or(0, |it| it.addr.saturating_sub(it.offset))
    }

    /// Returns the address after the last byte that the file fills.
    pub fn load_end(&self) -> u64 {
        self.segments.last().map_or(0, |it| it.end)
    }

    /// Returns the end of the part of the file that is loaded.
    pub fn loaded_length(&self) -> u64 {
        self.segments.iter().map(|it| it.offset.saturating_add(it.end - it.addr)).max().unwrap_or(0)
    }

    /// Makes an error about this file.
    pub fn error(&self, problem: Problem) -> ElfError {
        ElfError::new(&self.name, problem)
    }

    /// Returns the segment that has these bytes, all of them.
    fn segment(&self, addr: u64, len: u64) -> Option<&Segment> {
        let at = self.segments.partition_point(|segment| segment.addr <= addr).checked_sub(1)?;
        let segment = &self.segments[at];
        addr.checked_add(len).is_some_and(|end| end <= segment.end).then_some(segment)
    }

    /// Returns the bytes at an address; `None` if the file does not fill them.
    pub(crate) fn bytes<const N: usize>(&self, addr: u64) -> Result<Option<[u8; N]>, Problem> {
        match self.offset(addr, N as u64) {
            Some(offset) => self.pages.bytes(offset),
            None => Ok(None),
        }
    }

    /// Returns a structure of ELF at an address; `None` if the file does not fill it.
    pub(super) fn structure<T: Pod + Copy, const N: usize>(&self, addr: u64) -> Result<Option<T>, Problem> {
        self.offset(addr, N as u64).map_or(Ok(None), |offset| read::<T, N>(&self.pages, offset))
    }

    /// Returns the bytes at an address up to the first zero, and at most `limit` of them.
    pub(super) fn until_zero(&self, addr: u64, limit: u64) -> Result<Vec<u8>, Problem> {
        let Some(segment) = self.segment(addr, 1) else { return Ok(Vec::new()) };
        self.pages.until_zero(segment.offset + (addr - segment.addr), limit.min(segment.end - addr))
    }

    /// Replaces the content of `into` by `len` bytes at an address. Returns whether the file fills
    /// them.
    pub(crate) fn read_into(&self, addr: u64, len: usize, into: &mut Vec<u8>) -> Result<bool, Problem> {
        let Some(offset) = self.offset(addr, len as u64) else { return Ok(false) };
        into.resize(len, 0);
        self.pages.fill(offset, into)
    }

    /// Returns the place in the file of bytes at an address.
    pub(super) fn offset(&self, addr: u64, len: u64) -> Option<u64> {
        let segment = self.segment(addr, len)?;
        Some(segment.offset + (addr - segment.addr))
    }

    /// Returns whether the file fills these bytes.
    pub(crate) fn is_mapped(&self, addr: u64, len: u64) -> bool {
        self.segment(addr, len).is_some()
    }

    /// Returns the end of the code that this address is in.
    pub(crate) fn end_of_code(&self, addr: u64) -> Option<u64> {
        self.segment(addr, 1).filter(|segment| segment.is_code).map(|segment| segment.end)
    }

    /// Returns the addresses of all code.
    pub(crate) fn code_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.segments.iter().filter(|segment| segment.is_code).map(|segment| segment.addr..segment.end)
    }

    /// Returns whether these bytes are code.
    pub(crate) fn is_code(&self, addr: u64, len: u64) -> bool {
        self.segment(addr, len).is_some_and(|segment| segment.is_code)
    }
}

impl Memory for Image {
    /// Returns `None` if the system can't read the bytes. The next read of them fails with the
    /// error.
    fn bytes<const N: usize>(&self, addr: u64) -> Option<[u8; N]> {
        Self::bytes(self, addr).ok().flatten()
    }

    fn segments(&self, is_data: bool) -> impl Iterator<Item = Range<u64>> {
        let some = self.segments.iter().filter(move |segment| segment.is_data == is_data);
        some.map(|segment| segment.addr..segment.end)
    }
}

/// Reads the header, and checks that the file is of the only kind whose sites can be read.
fn header(pages: &Pages) -> Result<(Header, ObjectType), Problem> {
    let foreign = |what| Err(Problem::Foreign(what));
    let unsuitable = |why: String| Err(Problem::Unsuitable(why));
    let ident: [u8; 16] = match pages.bytes(0)? {
        Some(ident) => ident,
        None if pages.length() == 0 => return foreign("empty"),
        None => return foreign("no ELF file"),
    };
    match ident {
        [0x7f, b'E', b'L', b'F', ..] => (),
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => {
            return foreign("an archive of object files, before linking");
        }
        [b'p', b'r', b'o', b'b', b'e', b't', b'r', b'c', ..] => {
            return foreign("a trace, which `probectl report` reads");
        }
        [b'#', b'!', ..] => return foreign("a script"),
        _ => return foreign("no ELF file"),
    }
    if ident[4] != elf::ELFCLASS64.0 {
        return unsuitable("has 32 bits: sites that are patched exist on 64-bit x86 only".to_owned());
    }
    if ident[5] != elf::ELFDATA2LSB.0 {
        return unsuitable("is big-endian: sites that are patched exist on x86-64 only".to_owned());
    }
    let Some(header) = read::<Header, 64>(pages, 0)? else {
        return Err(Problem::Damaged("it ends within its header".to_owned()));
    };
    let machine = header.e_machine.get(LE);
    if machine != elf::EM_X86_64 {
        let machine = match machine {
            elf::EM_AARCH64 => "AArch64".to_owned(),
            elf::EM_RISCV => "RISC-V".to_owned(),
            other => format!("machine {}", other.0),
        };
        return unsuitable(format!(
            "is for {machine}: only x86-64 has sites that a file shows; run it there with PROBES=list"
        ));
    }
    let object_type = match header.e_type.get(LE) {
        elf::ET_EXEC => ObjectType::Executable,
        elf::ET_DYN => ObjectType::Shared,
        elf::ET_REL => return foreign("an object file, before linking"),
        elf::ET_CORE => return foreign("a core dump"),
        other => return unsuitable(format!("has the unknown type {}", other.0)),
    };
    Ok((header, object_type))
}
