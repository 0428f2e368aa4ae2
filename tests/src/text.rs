//! Compares the text of this process, or of an object that it has loaded, with that of its file.
//!
//! Without attachments, memory must equal the file's executable segment byte for byte, mapped
//! readable and executable only. No thread may patch during the comparison.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};

use object::elf;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

/// Bytes that are compared at once: unoptimised code takes far longer for each by itself.
const BLOCK: usize = 4096;

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

/// One byte of memory that differs from the file's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The address.
    pub at: usize,
    /// The byte in the file.
    pub file: u8,
    /// The byte in memory.
    pub memory: u8,
}

impl Text {
    /// Reads the program's segment.
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
        // The segment is a small part of the file, which a test may read hundreds of times.
        let file = File::open(&path).expect("the file");
        let data = &ReadCache::new(&file);
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
        let (at, size) = segment.file_range(endian);
        // Unoptimised, the cache would set all these bytes to zero one by one.
        let mut bytes = vec![0; number(size)];
        file.read_exact_at(&mut bytes, at).expect("the segment's bytes");
        Self { path, start, file: bytes }
    }

    /// The addresses.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.file.len()
    }

    /// Returns all bytes that differ from the file's.
    #[must_use]
    pub fn differences(&self) -> Vec<Difference> {
        // SAFETY: the segment is mapped and readable for the life of the process; no thread patches
        // it meanwhile.
        let memory = unsafe { slice::from_raw_parts(self.start as *const u8, self.file.len()) };
        let blocks = self.file.chunks(BLOCK).zip(memory.chunks(BLOCK)).enumerate();
        let differing = blocks.filter(|(_, (file, memory))| file != memory);
        let bytes =
            differing.flat_map(|(block, (file, memory))| (block * BLOCK..).zip(file.iter().zip(memory)));
        bytes
            .filter(|(_, (file, memory))| file != memory)
            .map(|(at, (&file, &memory))| Difference { at: self.start + at, file, memory })
            .collect()
    }

    /// Returns the file's mappings that overlap the segment.
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

/// Returns the mappings of a file, by address.
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
