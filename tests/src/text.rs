//! The text of this process, or of an object that it has loaded, against the text of its file.
//!
//! What the file says of its executable segment is what memory must hold once nobody is attached any more, byte
//! for byte, and mapped readable and executable only. Nobody may be patching meanwhile.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

/// The executable segment of this process's program, or of an object.
pub struct Text {
    path: PathBuf,
    start: usize,
    file: Vec<u8>,
}

/// One line of `/proc/self/maps` that maps the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The addresses.
    pub range: Range<usize>,
    /// The rights, such as `r-xp`.
    pub rights: String,
}

/// One byte that is not what the file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The address.
    pub at: usize,
    /// What the file has.
    pub file: u8,
    /// What memory has.
    pub memory: u8,
}

impl Text {
    /// That of the program.
    ///
    /// # Panics
    /// If the program is not an ELF file of 64 bits with one executable segment.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::of(&fs::read_link("/proc/self/exe").expect("the program's path"))
    }

    /// Reads a file's segment, and finds where it lies in memory.
    ///
    /// # Panics
    /// If it is not loaded, or is not an ELF file of 64 bits with one executable segment.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let path = path.canonicalize().expect("the path of a file");
        let data = fs::read(&path).expect("the file");
        let data = data.as_slice();
        let header = elf::FileHeader64::<object::Endianness>::parse(data).expect("an ELF header");
        let endian = header.endian().expect("a known byte order");
        let headers = header.program_headers(endian, data).expect("program headers");
        let loads: Vec<_> = headers.iter().filter(|load| load.p_type(endian) == elf::PT_LOAD).collect();
        let number = |value: u64| usize::try_from(value).expect("an address");
        let lowest = loads.iter().map(|load| number(load.p_vaddr(endian))).min().expect("a segment");
        let executable: Vec<_> =
            loads.iter().filter(|load| load.p_flags(endian).0 & elf::PF_X.0 != 0).collect();
        let [segment] = executable.as_slice() else { panic!("{} executable segments", executable.len()) };
        let first = mappings(&path).iter().map(|mapping| mapping.range.start).min().expect("a mapping");
        let start = first - (lowest & !0xfff) + number(segment.p_vaddr(endian));
        let file = segment.data(endian, data).expect("the segment's bytes").to_vec();
        Self { path, start, file }
    }

    /// The addresses.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.file.len()
    }

    /// All bytes that are not what the file has.
    #[must_use]
    pub fn differences(&self) -> Vec<Difference> {
        // SAFETY: the segment is mapped and readable for the life of the process; nobody patches it meanwhile.
        let memory = unsafe { slice::from_raw_parts(self.start as *const u8, self.file.len()) };
        (self.file.iter().zip(memory).enumerate())
            .filter(|(_, (file, memory))| file != memory)
            .map(|(at, (&file, &memory))| Difference { at: self.start + at, file, memory })
            .collect()
    }

    /// What is mapped where the segment lies.
    #[must_use]
    pub fn mappings(&self) -> Vec<Mapping> {
        let Range { start, end } = self.range();
        mappings(&self.path).into_iter().filter(|it| it.range.start < end && start < it.range.end).collect()
    }

    /// Asserts that every byte is the file's, and that no page is writable.
    ///
    /// # Panics
    /// If not.
    pub fn assert_as_in_file(&self) {
        assert_eq!(self.differences(), []);
        for mapping in self.mappings() {
            assert_eq!(mapping.rights, "r-xp", "{mapping:x?}");
        }
    }
}

/// Writes one byte of this process's text, as a debugger does.
///
/// # Panics
/// If the system refuses.
pub fn write_byte(at: usize, byte: u8) {
    let page = at & !0xfff;
    let protect = |rights| {
        // SAFETY: a page of the program's text, which stays readable and executable.
        assert_eq!(unsafe { libc::mprotect(page as *mut _, 0x1000, rights) }, 0);
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    // SAFETY: mapped and writable; one byte is written whole.
    unsafe { AtomicU8::from_ptr(at as *mut u8) }.store(byte, Ordering::SeqCst);
    protect(libc::PROT_READ | libc::PROT_EXEC);
}

/// The mappings of a file, by address.
fn mappings(path: &Path) -> Vec<Mapping> {
    let path = path.to_str().expect("a path that is text");
    let maps = fs::read_to_string("/proc/self/maps").expect("the process's mappings");
    maps.lines().filter(|line| line.ends_with(path)).map(parse).collect()
}

fn parse(line: &str) -> Mapping {
    let mut words = line.split_whitespace();
    let (start, end) = words.next().and_then(|word| word.split_once('-')).expect("a range of addresses");
    let number = |hex| usize::from_str_radix(hex, 16).expect("an address");
    let rights = words.next().expect("rights").to_owned();
    Mapping { range: number(start)..number(end), rights }
}
