//! Time stamps as the system's time: on all threads and processors, and of two processes that write
//! at once.

use std::fs;
use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_tests::turn::turn;
use probe_trace::layout::{block, reading};
use probe_trace::{FieldValue, Item, Trace as Read};

/// Hits with the system's time just before.
#[probe(args(before))]
#[inline(never)]
fn timed(before: u64) {
    black_box(before);
}

const THREADS: u64 = 3;
const HITS: u64 = 400;

/// `CLOCK_MONOTONIC` in nanoseconds.
fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Moves this thread to the `nth` of the processors that it could use at first. Elsewhere than on
/// Linux the system may move it.
fn move_to(nth: usize, allowed: &[usize]) {
    #[cfg(target_os = "linux")]
    // SAFETY: a set of processors is plain bits, and the system reads at most its size.
    unsafe {
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(allowed[nth % allowed.len()], &mut only);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only), 0);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (nth, allowed);
}

/// Returns the processors that this thread may use.
fn allowed() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: the system fills in at most the set's size; each number is within the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        (0..8 * size_of::<libc::cpu_set_t>()).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
    #[cfg(not(target_os = "linux"))]
    vec![0]
}

/// Traces threads that change the processor at each hit.
fn record(path: &Path) {
    timed(0);
    let trace = Trace::to_file(path).ring_size(16 << 10);
    let trace = select("**::clocks::timed kind=entry").unwrap().attach(trace).unwrap();
    let allowed = allowed();
    thread::scope(|scope| {
        for first in 0..THREADS {
            let allowed = &allowed;
            scope.spawn(move || {
                (first..first + HITS).for_each(|nth| {
                    move_to(usize::try_from(nth).unwrap(), allowed);
                    timed(monotonic());
                });
            });
        }
    });
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, THREADS * HITS);
}

/// The part of the other process.
pub fn record_as_asked() {
    record(Path::new(&std::env::var_os("TRACE_FILE").unwrap()));
}

#[test]
fn stamps_are_the_systems_time_on_all_processors_and_in_all_processes() {
    let _turn = turn();
    let folder = Folder::new("trace-clocks");
    let [own, other] = ["own", "other"].map(|name| folder.join(name).with_extension("probetrace"));
    let mut child =
        scenario::start("clocks").env("TRACE_FILE", &other).stdout(Stdio::null()).spawn().unwrap();
    record(&own);
    assert!(child.wait().unwrap().success());

    let mut trace = Read::open(&[own, other]).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    // Beyond the error that the files tell: the kernel slews its clock between two readings, and a
    // stamp is read up to some 50 ns early.
    let off = trace.clock_error().unwrap() + 1_000;
    let items: Vec<_> = trace.items().map(Result::unwrap).collect();
    let events: Vec<_> = (items.iter())
        .filter_map(|item| match item {
            Item::Event(event) => match event.fields[..] {
                [FieldValue::U64(before)] => Some((event.thread, event.time, before)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert!(events.windows(2).all(|two| two[0].1 <= two[1].1), "in the order of time");
    let mut threads: Vec<_> = events.iter().map(|(thread, ..)| *thread).collect();
    threads.sort();
    threads.dedup();
    assert_eq!(threads.len() as u64, 2 * THREADS);
    for thread in threads {
        let own: Vec<_> = events.iter().filter(|(of, ..)| *of == thread).collect();
        assert!(own.len() as u64 <= HITS, "{}", own.len());
        for two in own.windows(2) {
            // The next hit's reading comes after this hit.
            let ((_, time, before), (_, _, after)) = (two[0], two[1]);
            assert!(
                before - off <= *time && *time <= after + off,
                "{time} is not from {before} to {after}, to {off} ns"
            );
        }
    }
}

#[test]
fn a_machine_that_slept_is_noticed() {
    const SLEPT: u64 = 3_600_000_000_000;
    let _turn = turn();
    let folder = Folder::new("trace-slept");
    let path = folder.join("slept.probetrace");
    record(&path);
    let mut file = fs::read(&path).unwrap();
    let was = Read::read([("file", Cursor::new(file.clone()))]).unwrap();
    // The last block is a reading. Its last words are the clocks that continue in sleep.
    let words = |file: &[u8], from_end: usize| {
        let at = file.len() - 8 * from_end;
        u64::from_le_bytes(file[at..at + 8].try_into().unwrap())
    };
    let [monotonic, real] =
        [reading::MONOTONIC, reading::REAL].map(|word| words(&file, reading::WORDS - word));
    let block = file.len() - 8 * (block::WORDS + reading::WORDS) + 8 * block::KIND_AT;
    assert_eq!(file[block..block + 8], block::READING.to_le_bytes());
    for word in [reading::BOOT, reading::REAL] {
        let from_end = reading::WORDS - word;
        let (at, slept) = (file.len() - 8 * from_end, words(&file, from_end) + SLEPT);
        file[at..at + 8].copy_from_slice(&slept.to_le_bytes());
    }
    let trace = Read::read([("file", Cursor::new(file))]).unwrap();
    let [problem] = trace.problems() else { panic!("{:?}", trace.problems()) };
    assert!(problem.starts_with("file: the machine slept for 3600 s, which times leave out"), "{problem}");
    // It was between two readings, at any time.
    assert!(was.clock_error().unwrap() < 200_000_000, "{:?}", was.clock_error());
    assert!(trace.clock_error().unwrap() >= 200_000_000, "{:?}", trace.clock_error());
    // The calendar continues in sleep.
    assert_eq!(trace.wall_time(monotonic - 1), was.wall_time(monotonic - 1));
    assert_eq!(trace.wall_time(monotonic), real + SLEPT);
}
