//! The most that a file of n bytes can cost: memory in proportion to n, and few readings of each
//! byte. Each file here makes the most of one part of the format.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_trace::Trace;
use probe_trace::calls::Calls;
use probe_trace::export::export;
use probe_trace::layout::{block, event, field, header, sub_buffer};

use crate::judge::{FORMATS, judge};
use crate::made::{File, definition, definition_at, stacks};

/// Bytes of memory for each byte of a file, at most. The worst are a future that never ends, for 24
/// bytes, and a call that never ends, for 8.
const FACTOR: usize = 64;
/// Bytes of memory in any case.
const ALWAYS: usize = 512 << 10;

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
fn peak(work: impl FnOnce()) -> usize {
    let (before, _) = MEMORY.get();
    MEMORY.set((before, before));
    work();
    (MEMORY.get().1 - before).cast_unsigned()
}

/// A file in memory, which counts the bytes that are read and the calls that read or seek.
struct Source {
    content: Cursor<Arc<[u8]>>,
    costs: Arc<AtomicU64>,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(into)?;
        self.costs.fetch_add(read as u64 + 1, Ordering::Relaxed);
        Ok(read)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.costs.fetch_add(1, Ordering::Relaxed);
        self.content.seek(to)
    }
}

/// Reads and exports the file within the bounds.
fn check(file: File) {
    let content: Arc<[u8]> = file.0.into();
    let length = content.len();
    assert!(length > 50_000, "{length} bytes are too few to tell");
    let bound = |what: &str, memory: usize| {
        assert!(memory <= FACTOR * length + ALWAYS, "{what}: {memory} bytes for {length}");
    };
    let costs = Arc::new(AtomicU64::new(0));
    let source = || Source { content: Cursor::new(Arc::clone(&content)), costs: Arc::clone(&costs) };
    let open = || Trace::read([("it", source())]).unwrap();
    bound("items", peak(|| assert!(open().items().all(|item| item.is_ok()))));
    // The blocks' heads once, the content once.
    assert!(costs.load(Ordering::Relaxed) <= 3 * length as u64, "{costs:?} for {length}");
    bound("calls", peak(|| assert!(Calls::new(open().items()).all(|step| step.is_ok()))));
    for format in FORMATS {
        bound("an export", peak(|| export(format, None, open().items(), io::sink()).unwrap()));
    }
    // And by all other rules.
    judge(&[&content], &FORMATS);
}

const ENTRY: u8 = 1;
const EXIT: u8 = 2;

fn bare(probe: u32, ticks: u32) -> u64 {
    event::word(probe, 0, ticks)
}

#[test]
fn blocks_of_unknown_kinds() {
    let mut file = File::new();
    (0..4000).for_each(|kind| file.block(1000 + kind, 0, b""));
    check(file);
}

#[test]
fn damaged_blocks() {
    let mut file = File::new();
    (0..4000).for_each(|at| file.block(block::SUB_BUFFER + at % 2, 0, b"short"));
    (0..2000).for_each(|_| file.block(block::DEFINITIONS, 0, b"short"));
    let trace = Trace::read([("it", Cursor::new(file.0.clone()))]).unwrap();
    let problems = trace.problems();
    assert!(problems[8].ends_with(": 5992 more blocks are damaged"), "{problems:?}");
    check(file);
}

#[test]
fn rings_with_little_in_them() {
    let mut file = File::new();
    file.definitions(&[definition(0, ENTRY, 0, "a::f", &[])]);
    (0..2000).for_each(|ring| file.sub_buffer(ring, 0, &[], &[bare(0, 1)]));
    check(file);
}

#[test]
fn a_ring_that_each_time_another_thread_has() {
    let mut file = File::new();
    let thread = |number| [(sub_buffer::THREAD, number), (sub_buffer::LOST_BEFORE, number)];
    (0..2000).for_each(|number| file.sub_buffer(0, number, &thread(number), &[]));
    check(file);
}

#[test]
fn definitions_with_nothing_in_them() {
    let mut file = File::new();
    let definitions: Vec<_> = (0..3000).map(|probe| definition(probe, ENTRY, 0, "", &[])).collect();
    file.definitions(&definitions);
    file.definitions(&[definition(0, ENTRY, 0, "", &vec![""; 65_000])]);
    check(file);
}

#[test]
fn long_names_of_many_events() {
    let path = "\u{1}".repeat(60_000);
    let mut file = File::new();
    file.definitions(&[definition(0, ENTRY, 0, &path, &[]), definition(1, EXIT, 0, &path, &[])]);
    let records: Vec<_> = (0..2000).map(|at| bare(at % 2, at)).collect();
    file.sub_buffer(0, 0, &[], &records);
    check(file);
}

#[test]
fn long_names_of_fields_of_many_events() {
    let name = "n".repeat(30_000);
    let mut file = File::new();
    file.definitions(&[definition(0, 0, 0, "a::p", &[name.as_str(); 3])]);
    let types = u64::from_le_bytes([field::ABSENT; 8]);
    let records: Vec<_> = (0..1000).flat_map(|at| [event::word(0, 1, at), types]).collect();
    file.sub_buffer(0, 0, &[], &records);
    check(file);
}

/// Returns a file with many hits of one stack, whose calls have this name.
fn with_stack(name: &str, calls: usize) -> File {
    let mut file = File::new();
    file.definitions(&[definition(0, ENTRY, 0, "a::f", &["stack"])]);
    file.block(block::STACKS, 0, &stacks(&[name], &[(7, &vec![0; calls])]));
    let types = u64::from(field::STACK);
    let records: Vec<_> = (0..2000).flat_map(|at| [event::word(0, 2, at), types, 7]).collect();
    file.sub_buffer(0, 0, &[], &records);
    file
}

#[test]
fn deep_stacks_of_many_events() {
    check(with_stack("f", 20_000));
}

#[test]
fn long_stacks_of_many_events() {
    check(with_stack(&"f".repeat(4000), 2000));
}

#[test]
fn long_names_that_are_forgotten_at_each_gap() {
    let mut file = File::new();
    file.definitions(&[definition(0, 0, 0, &"p".repeat(30_000), &[])]);
    for number in 0..500 {
        let head = [(sub_buffer::LOST_BEFORE, number), (sub_buffer::WRITTEN_BEFORE, number)];
        file.sub_buffer(0, number, &head, &[bare(0, 1)]);
    }
    check(file);
}

#[test]
fn places_that_share_a_path() {
    let mut file = File::new();
    let definitions: Vec<_> =
        (0..2000).map(|probe| definition_at(probe, [0, 0], "a::p", probe, &[])).collect();
    file.definitions(&definitions);
    let records: Vec<_> = (0..8000).map(|at| bare(at % 2000, at)).collect();
    file.sub_buffer(0, 0, &[], &records);
    check(file);
}

/// Distinct stacks, all of them deep, of long names.
#[test]
fn stacks_that_differ() {
    let mut file = File::new();
    let of = |probe: u32| format!("a::{}{probe}", "f".repeat(1000));
    let definitions: Vec<_> =
        (0..8).map(|at| definition(at, ENTRY + u8::from(at > 3), 0, &of(at % 4), &[])).collect();
    file.definitions(&definitions);
    // Three thousand deep, then up and down at the end, in all orders of four functions.
    let mut records: Vec<_> = (0..3000).map(|at| bare(at % 4, at)).collect();
    for at in 0..500_u32 {
        let way: Vec<_> = (0..6).map(|digit| at >> (2 * digit) & 3).collect();
        records.extend(way.iter().map(|probe| bare(*probe, 4000 + 2 * at)));
        records.extend(way.iter().rev().map(|probe| bare(4 + *probe, 4001 + 2 * at)));
    }
    file.sub_buffer(0, 0, &[], &records);
    check(file);
}

#[test]
fn calls_and_futures_that_never_end() {
    let mut file = File::new();
    file.definitions(&[
        definition(0, ENTRY, 0, "a::f", &[]),
        definition(1, ENTRY, 2, "a::task", &["future"]),
    ]);
    let futures = (0..3000).flat_map(|at| [event::word(1, 2, at), field::U64.into(), at.into()]);
    let records: Vec<_> = futures.chain((0..9000).map(|at| bare(0, at))).collect();
    file.sub_buffer(0, 0, &[], &records);
    for thread in 1..4 {
        file.sub_buffer(thread, 0, &[], &vec![bare(0, 0); 4000]);
    }
    check(file);
}

#[test]
fn events_with_very_many_fields() {
    let mut file = File::new();
    file.definitions(&[definition(0, 0, 0, "a::p", &vec!["f"; 8184])]);
    let types = u64::from_le_bytes([field::ABSENT; 8]);
    for ring in 0..16 {
        let mut records = vec![event::word(0, 1023, 0)];
        records.resize(1024, types);
        file.sub_buffer(ring, 0, &[], &records);
    }
    check(file);
}

#[test]
fn times_at_the_ends_of_their_range() {
    let mut file = File::new();
    file.definitions(&[definition(0, ENTRY, 0, "a::f", &[]), definition(1, EXIT, 0, "a::f", &[])]);
    let wild = [0, u64::MAX, 1 << 63, u64::MAX];
    for (ring, (at, other)) in (0..).zip(wild.into_iter().zip(wild.into_iter().rev())) {
        file.words(block::READING, 0, &[at, u64::MAX, other, at, 0]);
        let base = [(sub_buffer::BASE, at), (sub_buffer::LOST_BEFORE, u64::MAX), (sub_buffer::GAP_END, at)];
        file.sub_buffer(ring, 0, &base, &[bare(0, 1), bare(1, u32::MAX)].repeat(1000));
        file.words(block::RING, ring, &[u64::MAX; 16]);
    }
    file.words(block::UNSEEN, 0, &[u64::MAX; 2]);
    let trace = Trace::read([("it", Cursor::new(file.0.clone()))]).unwrap();
    let totals = trace.totals().unwrap();
    assert_eq!((totals.lost(), totals.emitted()), (u64::MAX, u64::MAX));
    check(file);
}

/// A file that is as long as a file can be, has one block of that length, and otherwise zeros.
struct Sparse {
    beginning: Vec<u8>,
    at: u64,
}

const ENDLESS: u64 = 1 << 62;

impl Read for Sparse {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(self.at).unwrap().min(self.beginning.len());
        let known = self.beginning.len().min(from + into.len()) - from;
        into.fill(0);
        into[..known].copy_from_slice(&self.beginning[from..from + known]);
        self.at += into.len() as u64;
        Ok(into.len())
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(_) => ENDLESS,
            SeekFrom::Current(_) => unimplemented!("the reader knows where it is"),
        };
        Ok(self.at)
    }
}

#[test]
fn sizes_that_a_sparse_file_claims() {
    let largest = 1 << 30;
    for (kind, bytes) in [
        (block::PROGRAM, ENDLESS / 2),
        (block::DEFINITIONS, ENDLESS / 2),
        (block::SUB_BUFFER, ENDLESS / 2),
        (block::RING, ENDLESS / 2),
        (block::READING, ENDLESS / 2),
        (block::OFF, ENDLESS / 2),
        (block::OFF, 1 << 40),
        (99, ENDLESS / 2),
        (block::SUB_BUFFER, largest),
    ] {
        let mut file = File::new().header(header::SUB_BUFFER_WORDS, largest / 8);
        file.0.extend(crate::made::bytes(&[block::MAGIC, kind, bytes, 0]));
        let source = Sparse { beginning: file.0, at: 0 };
        let memory = peak(|| {
            let mut trace = Trace::read([("it", source)]).unwrap();
            assert!(!trace.problems().is_empty(), "the rest is no block");
            // All words of a sub-buffer of zeros are events without a definition.
            if bytes != largest {
                assert_eq!(trace.items().count(), 0);
            }
        });
        assert!(memory < ALWAYS, "{kind} {bytes}: {memory}");
    }
}
