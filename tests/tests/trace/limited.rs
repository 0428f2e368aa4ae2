//! Files that may not grow any further: hits are lost, and counted, until a reader gives room back.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use probe_runtime::{Attachment, Trace, point, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::Item;

/// Bytes of the ring, and the limit of the file.
const RING: usize = 32 << 10;
const LIMIT: u64 = 256 << 10;
/// More hits than the ring has room for.
const MANY: u64 = 3 * (RING as u64) / 8;

fn hit(number: u64) {
    point!("filled", number);
}

fn attach(path: &Path) -> Attachment<Trace> {
    let trace = Trace::to_file(path).ring_size(RING).file_limit(LIMIT);
    select("trace::limited::filled").unwrap().attach(trace).unwrap()
}

/// Bytes that the file takes on the disk.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Hits until something is so. Returns the number of hits.
fn hit_until(mut is_so: impl FnMut() -> bool) -> u64 {
    let (begin, mut hits) = (Instant::now(), 0);
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(100), "it does not happen");
        (hits..hits + 100).for_each(hit);
        hits += 100;
    }
    hits
}

/// Fills the file to its limit, and hits further. Returns the number of hits.
fn fill(trace: &Attachment<Trace>, path: &Path) -> u64 {
    let before = hit_until(|| taken(path) >= LIMIT);
    let lost = trace.totals().lost;
    (0..MANY).for_each(hit);
    // The ring may have been empty.
    assert!(trace.totals().lost - lost >= MANY - RING as u64 / 8, "{:?}", trace.totals());
    // A part of the ring more; for Perfetto, the whole ring, whose events take more there.
    assert!(taken(path) <= LIMIT + 4 * RING as u64, "{}", taken(path));
    before + MANY
}

#[test]
fn each_hit_is_written_or_lost() {
    let _turn = turn();
    let folder = Folder::new("trace-limited");
    let path = folder.join("full.probetrace");
    let trace = attach(&path);
    let hits = fill(&trace, &path);
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, hits);
    let (mut events, mut lost) = (0, 0);
    for item in super::items(&path) {
        match item {
            Item::Event(_) => events += 1,
            Item::Gap(gap) => lost += gap.lost,
            _ => (),
        }
    }
    assert_eq!((events, lost), (totals.written, totals.lost));
}

#[test]
fn it_goes_on_where_there_is_room() {
    let _turn = turn();
    let folder = Folder::new("trace-room");
    for name in ["room.probetrace", "room.pftrace"] {
        let path = folder.join(name);
        let trace = attach(&path);
        let mut hits = fill(&trace, &path);
        let length = fs::metadata(&path).unwrap().len();
        let file = File::options().write(true).open(&path).unwrap();
        let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: no pointers; the descriptor is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), flags, 4096, length.cast_signed() - 4096) } != 0 {
            println!("left out: the file system makes no holes");
            return;
        }
        hits += hit_until(|| fs::metadata(&path).unwrap().len() > length + LIMIT / 2);
        let totals = trace.finish().unwrap();
        assert_eq!(totals.written + totals.lost, hits, "{name}");
    }
}
