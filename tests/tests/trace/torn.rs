//! Files that end too soon, and files that somebody has changed: the readable part is read, and
//! nothing else happens.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use probe_runtime::{Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::random::Random;
use probe_tests::turn::turn;
use probe_tests::whole;
use probe_trace::{Item, Trace as Read};

#[probe(args(*))]
#[inline(never)]
fn sent(number: u64, to: &str) -> u64 {
    number + to.len() as u64
}

/// Makes a file with some events.
fn make(path: &Path) -> u64 {
    sent(0, "");
    let trace = select("trace::torn::sent").unwrap().attach(Trace::to_file(path).ring_size(4096)).unwrap();
    (0..40).for_each(|number| _ = sent(number, "somebody"));
    trace.finish().unwrap().written
}

/// Returns the events that can be read; `None` if the file is no trace.
pub fn readable(path: &Path) -> Option<u64> {
    let mut trace = Read::open(&[path]).ok()?;
    let items = trace.items().take(100_000);
    Some(items.filter(|item| matches!(item, Ok(Item::Event(_)))).count() as u64)
}

/// Shortens a file byte by byte. Of each length, a reader gets no more events than of the one
/// before.
pub fn cut_off_anywhere(path: &Path) {
    let mut before = readable(path).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for length in (0..file.metadata().unwrap().len()).rev() {
        file.set_len(length).unwrap();
        let events = readable(path);
        assert!(events.is_some() || length < 512, "the header is whole");
        assert!(events.unwrap_or_default() <= before, "{length} bytes: {events:?} after {before}");
        before = events.unwrap_or_default();
    }
    assert_eq!(before, 0);
}

/// Changes bytes of a file, and reads what became of it, this many times.
pub fn change_anywhere(path: &Path, inputs: usize) {
    let good = fs::read(path).unwrap();
    // A file that is emptied first waits for the disk when it is closed (ext4).
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let mut random = Random::new(0xbad);
    let mut read = 0;
    for _ in 0..inputs {
        let mut bytes = good.clone();
        for _ in 0..=random.below(4) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            // Words of numbers that mean much: none, all bits, and any.
            match random.below(4) {
                0 => bytes[at] = 0,
                1 => bytes[at] = u8::MAX,
                2 => bytes[at & !7..].iter_mut().take(8).for_each(|byte| *byte = u8::MAX),
                _ => bytes[at] ^= 1 << random.below(8),
            }
        }
        file.write_all_at(&bytes, 0).unwrap();
        read += readable(path).unwrap_or_default();
    }
    assert!(read > 0);
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    let _turn = turn();
    let folder = Folder::new("trace-torn");
    let path = folder.join("torn.probetrace");
    let written = make(&path);
    assert_eq!(readable(&path), Some(written));
    cut_off_anywhere(&path);
}

#[test]
fn changed_bytes_do_no_harm() {
    let _turn = turn();
    let folder = Folder::new("trace-changed");
    let path = folder.join("changed.probetrace");
    make(&path);
    change_anywhere(&path, if whole::is_asked_for() { 100_000 } else { 5_000 });
}
