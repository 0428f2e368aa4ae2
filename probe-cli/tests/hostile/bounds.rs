//! The most that a file of n bytes can cost: memory in proportion to n, and a bound for files that
//! claim more than they have. Each file here makes the most of one part of the format.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;

use probe_cli::audit::audit;
use probe_cli::elf::{Image, Source};
use probe_cli::probe_tables::ObjectProbes;

use crate::judge::{Seen, read};
use crate::made::{DEFINITION, Made, note};

/// Bytes of memory for each byte of a file, at most: a definition becomes a probe with its texts.
const FACTOR: usize = 24;
/// Bytes of memory in any case: blocks of the file, and findings.
const ALWAYS: usize = 1 << 20;

thread_local! {
    /// Bytes that this thread has now, and those that it had at most.
    static MEMORY: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// Counts each thread's memory.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

impl Counting {
    fn add(bytes: isize) {
        // A thread that ends may have none any more.
        let _ = MEMORY.try_with(|memory| {
            let (now, most) = memory.get();
            memory.set((now + bytes, most.max(now + bytes)));
        });
    }
}

// SAFETY: the system's allocator does the work. The counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Self::add(-layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Returns the most memory that the work has at once, beside what there was.
pub fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let (before, _) = MEMORY.get();
    MEMORY.set((before, before));
    let value = work();
    ((MEMORY.get().1 - before).cast_unsigned(), value)
}

/// Reads the file within the bounds.
fn check(file: Vec<u8>) -> Result<Seen, String> {
    let length = file.len();
    let (memory, seen) = peak(|| read(file));
    assert!(memory <= FACTOR * length + ALWAYS, "{memory} bytes for {length}");
    seen
}

#[test]
fn many_probes_cost_in_proportion() {
    let many = 20_000;
    let seen = check(Made::with_probes(many).bytes()).unwrap();
    assert_eq!((seen.probes, seen.sites, seen.findings), (20_000, 20_000, 0));
}

#[test]
fn a_million_notes() {
    let mut made = Made::with_probes(2);
    made.notes = note(9, &[]).repeat(1_000_000);
    let seen = check(made.bytes()).unwrap();
    assert_eq!((seen.probes, seen.findings), (2, 1), "they are of a later version");
    // Notes of others.
    let other = [5_u32, 3, 7].map(u32::to_le_bytes).concat();
    made.notes = [other.as_slice(), b"Some\0\0\0\0abc\0"].concat().repeat(1_000_000);
    assert_eq!(check(made.bytes()).unwrap().sites, 2);
}

/// A hundred findings are kept, and the others counted.
#[test]
fn a_million_damaged_records() {
    let mut made = Made::with_probes(1);
    made.records = [1, 4, 9, 0].repeat(1_000_000);
    let seen = check(made.bytes()).unwrap();
    assert_eq!((seen.sites, seen.findings), (0, 101));
}

#[test]
fn definitions_that_share_one_long_text() {
    let mut made = Made::new();
    let long = "x".repeat(60_000);
    made.text = long.into_bytes();
    for number in 0..5_000_usize {
        made.probe("a::f", 0);
        // All of its names are the text.
        let lens = &mut made.definitions[number * DEFINITION + 32..][..2];
        lens.copy_from_slice(&60_000_u16.to_le_bytes());
    }
    let places = made.places();
    for number in 0..5_000 {
        let place = places.definitions + number * DEFINITION as u64 + 40;
        made.relocations.push([place, 8, places.text]);
    }
    let error = check(made.bytes()).unwrap_err();
    assert!(error.contains("its definitions have far more text than the file"), "{error}");
}

#[test]
fn sites_at_one_place() {
    let mut made = Made::with_probes(1);
    let places = made.places();
    made.records = Vec::new();
    for number in 0..10_000 {
        let record = places.records + 16 * number;
        made.records.extend([1, 16, 1, 0]);
        for (field, to) in [(4, places.text + 1), (8, places.text + 8), (12, places.text + 16)] {
            made.records.extend(crate::made::relative(record + field, to));
        }
    }
    // The definition has moved behind the longer table.
    let moved = made.places().definitions;
    made.text[20..24].copy_from_slice(&crate::made::relative(places.text + 24, moved));
    let seen = check(made.bytes()).unwrap();
    assert_eq!((seen.sites, seen.findings), (10_000, 9_999));
}

#[test]
fn program_headers_without_end() {
    let mut file = Made::with_probes(1).bytes();
    file[56..58].fill(0xff);
    assert!(check(file.clone()).is_err());
    // Each of them is a note, of the whole file.
    let length = file.len() as u64;
    file[32..40].copy_from_slice(&length.to_le_bytes());
    let mut header = Vec::new();
    header.extend(4_u32.to_le_bytes());
    header.extend(4_u32.to_le_bytes());
    for number in [0, 0, 0, length, length, 4_u64] {
        header.extend(number.to_le_bytes());
    }
    file.extend(header.repeat(0xffff));
    assert_eq!(check(file).unwrap().probes, 0, "nothing is loaded");
}

/// A file as long as can be: a small file, then zeros.
struct Sparse(Vec<u8>);

impl Source for Sparse {
    fn length(&self) -> io::Result<u64> {
        Ok(1 << 62)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        into.fill(0);
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        let many = into.len().min(self.0.len() - at);
        into[..many].copy_from_slice(&self.0[at..][..many]);
        Ok(())
    }
}

/// Reads what claims to be an endless file.
fn sparse(change: impl FnOnce(&mut Vec<u8>, usize)) -> Result<u64, String> {
    let made = Made::with_probes(2);
    let note = usize::try_from(made.places().note).unwrap() + 24;
    let mut file = made.bytes();
    // All of it is loaded.
    for at in [64 + 32, 64 + 40] {
        file[at..at + 8].copy_from_slice(&(1_u64 << 61).to_le_bytes());
    }
    change(&mut file, note);
    let (memory, seen) = peak(|| {
        let image = Image::read("it", Box::new(Sparse(file))).map_err(|error| error.to_string())?;
        let object = ObjectProbes::of(&image).map_err(|error| error.to_string())?;
        let audit = audit(&image, &object).map_err(|error| error.to_string())?;
        Ok(object.sites + audit.findings.count)
    });
    assert!(memory < 160 << 20, "{memory}");
    seen
}

#[test]
fn sizes_that_a_sparse_file_claims() {
    let put = |file: &mut Vec<u8>, at: usize, number: u64| {
        file[at..at + 8].copy_from_slice(&number.to_le_bytes());
    };
    assert_eq!(sparse(|_, _| ()), Ok(2));
    // Records up to 2^60; the two good ones, then one without a size.
    let error = sparse(|file, note| put(file, note + 8, 1 << 60)).unwrap_err();
    assert!(error.contains("more than any program has"), "{error}");
    assert_eq!(sparse(|file, note| put(file, note + 8, 1 << 29)), Ok(3));
    let error = sparse(|file, _| put(file, 64 + 56 + 32, 1 << 60)).unwrap_err();
    assert!(error.contains("its notes have 1152921504606846976 bytes"), "{error}");
    // A symbol table of 2^60 bytes of zeros, whose section header lies in the file's end.
    let symbols = sparse(|file, _| {
        let at = file.len().next_multiple_of(64);
        put(file, 40, at as u64);
        file[58..62].copy_from_slice(&[64, 0, 1, 0]);
        file.resize(at + 64, 0);
        file[at + 4] = 2;
        put(file, at + 24, 4096);
        put(file, at + 32, 1 << 60);
    });
    let error = symbols.unwrap_err();
    assert!(error.contains("its symbol table has 1152921504606846976 bytes"), "{error}");
}
