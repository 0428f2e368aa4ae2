//! The mappings of this process, with their rights. Only the kernel knows these.
//!
//! [`Maps`] is opened for one question and closed again, so no descriptor stays open. Linux 6.11
//! and later answer for one address (`PROCMAP_QUERY`, see `linux/fs.h`). On older kernels, and
//! where a sandbox forbids the ioctl, the file's text is read and parsed.
//!
//! The file is `/proc/self/maps` on the process's first thread, and `/proc/thread-self/maps` on
//! others, since `/proc/self/maps` is empty once the first thread has ended. The kernel makes the
//! entry of `/proc/self` when the process begins, and takes some 25 µs to make a thread's entry.
//!
//! Cost, measured: 4 µs to open, ask and close; 0.5 µs for each further question; 17 µs to read and
//! parse the text, in a small process.

// Safety: relies on an ioctl that fills in a structure of this module. The structure's layout is
// asserted.
#![expect(unsafe_code, reason = "see above")]

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;

use crate::os::thread;

/// The rights of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
}

impl Rights {
    /// The rights of text as linkers lay it out.
    pub const TEXT: Self = Self { read: true, write: false, execute: true };

    /// Returns these rights and the right to write.
    #[must_use]
    pub fn and_write(self) -> Self {
        Self { write: true, ..self }
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (is_there, letter) in [(self.read, "r"), (self.write, "w"), (self.execute, "x")] {
            f.write_str(if is_there { letter } else { "-" })?;
        }
        Ok(())
    }
}

/// One mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub range: Range<usize>,
    pub rights: Rights,
}

/// The process's mappings, open for questions.
pub struct Maps {
    file: File,
    /// The file's text, once it has been read.
    text: Option<Vec<u8>>,
}

impl Maps {
    /// # Errors
    /// The system's: `/proc` is not mounted, or no descriptor is free.
    pub fn open() -> io::Result<Self> {
        Ok(Self { file: open()?, text: None })
    }

    /// Returns all mappings, as text that [`mappings`] reads.
    ///
    /// # Errors
    /// The system's.
    pub fn text(mut self) -> io::Result<Vec<u8>> {
        self.text.take().map_or_else(|| read(&mut self.file), Ok)
    }

    /// Returns the mapping that holds the address, if there is one.
    ///
    /// # Errors
    /// The system's.
    pub fn holding(&mut self, addr: usize) -> io::Result<Option<Mapping>> {
        if self.text.is_none() {
            if let Some(answer) = query(&self.file, addr) {
                return Ok(answer);
            }
            self.text = Some(read(&mut self.file)?);
        }
        Ok(find(self.text.as_deref().unwrap_or_default(), addr))
    }
}

/// Returns the mapping that holds the address, without using the heap; `None` if the kernel can't
/// answer for one address, or if nothing is mapped there.
pub fn holding_without_heap(addr: usize) -> Option<Mapping> {
    query(&open().ok()?, addr)?
}

/// Opens the file, without the heap.
fn open() -> io::Result<File> {
    let is_first_thread = thread::id() == thread::process();
    // The standard library opens with `O_CLOEXEC`.
    File::open(if is_first_thread { "/proc/self/maps" } else { "/proc/thread-self/maps" })
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    // The kernel gives a page at a time, and walks its table anew each time.
    let mut text = Vec::with_capacity(4 * 4096);
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<ProcmapQuery>() == 104);

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u64 = 0xc068_6611;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;

/// Returns the mapping that holds the address. The outer `None` means that the kernel can't answer
/// for one address.
#[expect(clippy::option_option, reason = "`holding` tells both apart at once")]
fn query(file: &File, addr: usize) -> Option<Option<Mapping>> {
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: addr as u64,
        ..ProcmapQuery::default()
    };
    // SAFETY: the kernel fills in the structure, whose size it is told. The query asks for no name
    // and no build id.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if result != 0 {
        return (io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT)).then_some(None);
    }
    let has = |flag| query.vma_flags & flag != 0;
    let range = usize::try_from(query.vma_start).ok()?..usize::try_from(query.vma_end).ok()?;
    range.contains(&addr).then(|| {
        let rights = Rights { read: has(READABLE), write: has(WRITABLE), execute: has(EXECUTABLE) };
        Some(Mapping { range, rights })
    })
}

/// Returns the mapping that holds the address, from the text of a `maps` file. It skips lines that
/// it does not understand. Pure.
fn find(text: &[u8], addr: usize) -> Option<Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(parse).find(|mapping| mapping.range.contains(&addr))
}

/// Returns the mappings in the text of a `maps` file, ascending, with their names. It skips lines
/// that it does not understand. Pure.
pub fn mappings(text: &[u8]) -> impl Iterator<Item = (Range<usize>, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| Some((parse(line)?.range, line.rsplit(|byte| *byte == b' ').next()?)))
}

/// Returns the inode of the file that is mapped at an address, from the text of a `maps` file;
/// `None` if there is none. Pure.
pub fn inode(text: &[u8], addr: usize) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines.find(|line| parse(line).is_some_and(|it| it.range.contains(&addr)))?;
    let word = line.split(|byte| *byte == b' ').nth(4)?;
    str::from_utf8(word).ok()?.parse().ok().filter(|inode| *inode != 0)
}

/// Parses one line: `start-end rwxp offset dev inode name`.
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut words = line.split(|byte| *byte == b' ');
    let (start, end) = str::from_utf8(words.next()?).ok()?.split_once('-')?;
    let [read, write, execute, _shared] = *words.next()? else { return None };
    let number = |digits: &str| {
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        usize::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    Some(Mapping {
        range: number(start)?..number(end)?,
        rights: Rights { read: read == b'r', write: write == b'w', execute: execute == b'x' },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write;

    const SAMPLE: &[u8] = b"\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a name with spaces\n\
00452000-00453000 ---p 00000000 00:00 0 \n\
00e03000-00e24000 rw-s 00000000 00:00 0           [heap]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

    fn at(addr: usize) -> Option<(Range<usize>, String)> {
        find(SAMPLE, addr).map(|it| (it.range, format!("{:?}", it.rights)))
    }

    #[test]
    fn a_mapped_file_has_an_inode() {
        let inodes = [0x40_0000, 0x45_1fff, 0x45_2000, 0xe0_3000, 8].map(|addr| inode(SAMPLE, addr));
        assert_eq!(inodes, [Some(173_521), Some(173_521), None, None, None]);
    }

    #[test]
    fn finds_the_line_that_holds_the_address() {
        assert_eq!(at(0x40_0000), Some((0x40_0000..0x45_2000, "r-x".into())));
        assert_eq!(at(0x45_1fff), Some((0x40_0000..0x45_2000, "r-x".into())));
        assert_eq!(at(0x45_2000), Some((0x45_2000..0x45_3000, "---".into())));
        assert_eq!(at(0x45_3000), None);
        assert_eq!(at(0xe0_3000), Some((0xe0_3000..0xe2_4000, "rw-".into())));
        let last = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;
        assert_eq!(at(last.start), Some((last, "--x".into())));
    }

    #[test]
    #[cfg_attr(miri, ignore = "ioctl(2) by its number")]
    fn both_ways_give_the_same_answer() {
        let mut maps = Maps::open().unwrap();
        let mut text = Vec::new();
        open().unwrap().read_to_end(&mut text).unwrap();
        let heap = Box::new(0_u8);
        let addresses =
            [find as *const () as usize, SAMPLE.as_ptr().addr(), (&raw const *heap).addr(), 0x1000];
        for addr in addresses {
            // The heap's end may have moved in between.
            let facts = |it: Mapping| (it.range.start, it.rights);
            assert_eq!(maps.holding(addr).unwrap().map(facts), find(&text, addr).map(facts), "{addr:#x}");
        }
        let mut read = Maps { file: open().unwrap(), text: Some(text) };
        let code = read.holding(addresses[0]).unwrap().unwrap();
        assert_eq!(code.rights, Rights::TEXT);
        assert_eq!(read.holding(0x1000).unwrap(), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2)")]
    fn the_first_thread_is_answered_and_so_are_others_once_it_has_ended() {
        let has_answer = || {
            Maps::open().is_ok_and(|mut maps| matches!(maps.holding(open as *const () as usize), Ok(Some(_))))
        };
        // SAFETY: the child's only thread calls functions that the C library keeps usable there,
        // and then ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_answered = has_answer();
            std::thread::spawn(move || {
                while std::fs::read("/proc/self/maps").is_ok_and(|text| !text.is_empty()) {
                    std::thread::yield_now();
                }
                // SAFETY: ends the process.
                unsafe { libc::_exit(i32::from(!(is_answered && has_answer()))) };
            });
            // SAFETY: ends this thread alone. Its stack is not unwound.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let mut status = 0;
        // SAFETY: a number to be filled in.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    proptest! {
        #[test]
        fn never_panics(text: Vec<u8>, addr: usize) {
            let _ = find(&text, addr);
        }

        #[test]
        fn damaged_lines_never_panic(cut in 0..SAMPLE.len(), at in 0..SAMPLE.len(), byte: u8, addr: usize) {
            let mut text = SAMPLE.to_vec();
            text[at] = byte;
            let _ = find(&text[cut..], addr);
            let _ = find(&text[..cut], addr);
        }

        #[test]
        fn what_is_printed_is_found(
            lens in proptest::collection::vec((1_usize..50, 0_usize..3, any::<[bool; 4]>()), 1..30),
            page in 0_usize..1000,
        ) {
            let (mut text, mut next, mut wanted) = (String::new(), 0x1000, None);
            let addr = 0x1000 + page * 4096 + 5;
            for (pages, gap, [read, write, execute, is_shared]) in lens {
                let range = next..next + pages * 4096;
                let rights = Rights { read, write, execute };
                let shared = if is_shared { 's' } else { 'p' };
                let Range { start, end } = range;
                writeln!(text, "{start:08x}-{end:08x} {rights:?}{shared} 00000000 00:00 0 ").unwrap();
                next = range.end + gap * 4096;
                if range.contains(&addr) {
                    wanted = Some(Mapping { range, rights });
                }
            }
            prop_assert_eq!(find(text.as_bytes(), addr), wanted);
        }
    }
}
