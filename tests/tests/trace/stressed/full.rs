//! A disk without room: a file system of 192 KiB, which only a child sees.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use std::thread;

use probe_runtime::trace::TraceTotals;
use probe_runtime::{Trace, select};
use probe_tests::folder::Folder;
use probe_tests::scenario::{self, in_a_child};
use probe_trace::Trace as Read;

use super::super::live;
use super::{HITS, Keep, call, check, check_items};

/// Bytes of the disk.
const DISK: u64 = 192 << 10;
/// Mounts it over the folder for temporary files, and becomes another program.
const MOUNT: &str = r#"mount -t tmpfs -o size=192k none "$TMPDIR" && exec "$@""#;

/// Plays a part where temporary files are on the small disk. Returns the lines that say that a
/// trace can't be written; `None` where nobody may mount a file system.
fn on_a_small_disk(way: &str) -> Option<Vec<String>> {
    let own_mounts: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let may_mount = |options: &&[&str]| {
        let folder = Folder::new("trace-may-mount");
        let mut command = Command::new("unshare");
        command.args(*options).args(["sh", "-c", MOUNT, "sh", "true"]).env("TMPDIR", &*folder);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let Some(options) = own_mounts.into_iter().find(may_mount) else {
        eprintln!("skipped: this process may not mount a file system of its own");
        return None;
    };
    let tool = [&["unshare"], options, &["sh", "-c", MOUNT, "sh"]].concat();
    let output = scenario::under(&tool, &format!("stressed full {way}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{way}: {}", scenario::said(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    Some(stderr.lines().filter(|line| line.contains("can't be written")).map(str::to_owned).collect())
}

/// The error's text.
fn no_room(path: &Path) -> String {
    format!(
        "the trace can't be written to {}: No space left on device (os error 28); \
         make room there, or choose a file on another disk",
        path.display()
    )
}

pub fn play(way: &str) {
    let folder = Folder::new("disk");
    match way {
        "drained" => drained(&folder.join("full.probetrace")),
        "of many threads" => of_many_threads(&folder.join("full.probetrace")),
        "for perfetto" => for_perfetto(&folder.join("full.pftrace")),
        "mapped" => mapped(&folder),
        _ => snapshots(&folder),
    }
}

/// Traces to a file until the disk is full, and on.
fn fill(path: &Path) -> TraceTotals {
    // Room for all calls between two flushes.
    let trace = Keep::File.attach(path, 16 << 10, 8);
    let mut calls = 0;
    while trace.flush().is_ok() {
        call(100);
        calls += 100;
    }
    assert!(calls > 1_000, "the disk has room for more than {calls} calls");
    // All that no flush has written.
    assert!((1..=100 * HITS).contains(&trace.totals().lost), "{:?}", trace.totals());
    call(1_000);
    let totals = trace.totals();
    assert_eq!(totals.written + totals.lost, (calls + 1_000) * HITS);
    // At most a ring has room.
    assert!(totals.lost > 2_000, "{totals:?}");
    assert_eq!(trace.finish().unwrap_err().to_string(), no_room(path));
    // But for the last part of a ring, and a page.
    assert!(fs::metadata(path).unwrap().len() > DISK - (12 << 10));
    totals
}

/// Attaches to the full disk, then after there is room again.
fn once_more(path: &Path) -> u64 {
    let trace = Trace::to_file(path.with_file_name("more.probetrace"));
    let error = select("trace::stressed::**").unwrap().attach(trace).unwrap_err().to_string();
    assert_eq!(error, no_room(&path.with_file_name("more.probetrace")));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing stays");
    fs::remove_file(path).unwrap();
    let trace = Keep::File.attach(path, 4 << 10, 8);
    call(5);
    let totals = trace.finish().unwrap();
    assert_eq!((totals.written, totals.lost), (5 * HITS, 0));
    totals.written
}

fn drained(path: &Path) {
    let totals = fill(path);
    let mut trace = Read::open(&[path]).unwrap();
    let shown = trace.problems().join("\n");
    assert!(shown.contains("the file had to end before the trace"), "{shown}");
    let found = check_items(&mut trace, Keep::File);
    assert_eq!((found.events, found.lost), (totals.written, totals.lost));
    // A bare event takes a word, one with a number three.
    assert!(found.events > DISK / 8 / 3, "{found:?}");
    // It has the file open, whose room is free afterwards.
    drop(trace);
    let written = once_more(path);
    assert_eq!(check(path, Keep::File).events, written);
}

/// Fills the disk with the hits of a hundred threads, which all continue.
fn of_many_threads(path: &Path) {
    const THREADS: u64 = 100;
    // More than a ring has room for.
    const MANY: u64 = 200;
    let trace = Keep::File.attach(path, 4 << 10, 101);
    let (turn, is_over) = (&Barrier::new(101), &AtomicBool::new(false));
    let mut rounds = 0;
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (begin, has_begun) = mpsc::channel();
            scope.spawn(move || {
                // Rings at both ends have lost hits when the file is flushed.
                call(if (3..THREADS - 3).contains(&number) { 1 } else { MANY });
                begin.send(()).unwrap();
                loop {
                    turn.wait();
                    if is_over.load(Relaxed) {
                        break;
                    }
                    call(1);
                    turn.wait();
                }
            });
            has_begun.recv().unwrap();
        }
        // Two rounds come after the disk is full.
        let mut since = 0;
        while since < 3 {
            turn.wait();
            turn.wait();
            rounds += 1;
            since += u64::from(since != 0 || trace.flush().is_err());
        }
        is_over.store(true, Relaxed);
        turn.wait();
    });
    let totals = trace.totals();
    let emitted = ((rounds + 1) * THREADS + 6 * (MANY - 1)) * HITS;
    assert_eq!(totals.written + totals.lost, emitted, "{rounds} rounds");
    assert!(totals.lost >= 2 * THREADS * HITS, "{totals:?}");
    assert_eq!(trace.finish().unwrap_err().to_string(), no_room(path));
    let mut trace = Read::open(&[path]).unwrap();
    let told = trace.totals().unwrap();
    assert_eq!((told.written, told.lost()), (totals.written, totals.lost));
    let found = check_items(&mut trace, Keep::File);
    assert_eq!((found.events, found.lost), (totals.written, totals.lost));
}

fn for_perfetto(path: &Path) {
    let totals = fill(path);
    let hits = live::events(path).iter().filter(|it| [live::BEGIN, live::END].contains(&it.kind)).count();
    assert_eq!(hits as u64, totals.written);
    // Each packet is right: the calls' numbers follow each other.
    let numbers = |path| live::events(path).into_iter().flat_map(|event| event.numbers).collect::<Vec<_>>();
    let found = numbers(path);
    assert!(found.len() > 1_000, "{} calls", found.len());
    assert_eq!(found.windows(2).find(|two| two[1] != two[0] + 1), None);
    once_more(path);
    assert_eq!(live::ends(path), 10);
    let again = numbers(path);
    assert_eq!(again.len(), 5);
}

/// Fills the disk with something else.
fn stuff(path: &Path) {
    let mut file = File::create(path).unwrap();
    while let Ok(written) = file.write(&[1; 4096]) {
        assert_ne!(written, 0);
    }
    assert_eq!(file.write(&[1]).unwrap_err().kind(), ErrorKind::StorageFull);
}

fn mapped(folder: &Path) {
    let path = folder.join("rings.probetrace");
    let attach = |rings: usize| {
        let trace = Trace::recorder().ring_size(4 << 10).total_size(rings * (4 << 10)).in_file(&path);
        call(1);
        select("trace::stressed::**").unwrap().attach(trace)
    };
    let error = attach(1 << 20).unwrap_err().to_string();
    assert_eq!(error, no_room(&path));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing stays");
    // Its room is reserved, so a disk that gets full afterwards takes nothing from it.
    let trace = attach(8).unwrap();
    let other = folder.join("other");
    stuff(&other);
    call(10_000);
    let totals = trace.totals();
    assert_eq!((totals.written, totals.lost), (10_000 * HITS, 0));
    let latest = |read: &mut Read| check_items(read, Keep::Latest).events;
    assert!(latest(&mut Read::open(&[&path]).unwrap()) > 100);
    // A child has no file then, but its events.
    let status = in_a_child(|| {
        call(10);
        assert_eq!(trace.totals().written, 10 * HITS);
        let said = trace.to_string();
        let why = "can't be made, so the events are in memory: No space left on device";
        assert!(said.contains(why), "{said}");
        fs::remove_file(&other).unwrap();
        let snapshot = folder.join("snapshot.probetrace");
        trace.snapshot(&snapshot).unwrap();
        assert_eq!(latest(&mut Read::open(&[&snapshot]).unwrap()), 10 * HITS);
    });
    assert_eq!(status, 0);
    call(1);
    assert_eq!(trace.finish().unwrap().written, 10_001 * HITS);
    assert!(check(&path, Keep::Latest).events > 100);
}

fn snapshots(folder: &Path) {
    let path = folder.join("snapshot.probetrace");
    // More than the disk, once the ring is full.
    let trace = Keep::Latest.attach(&path, 1 << 20, 1);
    call(10);
    assert_eq!(trace.snapshot(&path).unwrap().written, 10 * HITS);
    call(20_000);
    assert_eq!(trace.snapshot(&path).unwrap_err().to_string(), no_room(&path));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing stays");
    assert_eq!(check(&path, Keep::Latest).events, 10 * HITS, "the one before is whole");
    call(10);
    let totals = trace.totals();
    assert_eq!((totals.written, totals.lost), (20_020 * HITS, 0));
}

#[test]
fn a_trace_that_fills_the_disk_can_be_read_up_to_there() {
    for way in ["drained", "of many threads", "for perfetto"] {
        let Some(said) = on_a_small_disk(way) else { return };
        // The thread that writes has said it at once, in one line.
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("No space left on device"), "{said:?}");
    }
}

#[test]
fn rings_in_a_file_have_their_room_from_the_beginning() {
    let said = on_a_small_disk("mapped");
    assert_eq!(said.unwrap_or_default(), [""; 0]);
}

#[test]
fn a_snapshot_without_room_leaves_the_one_before() {
    let said = on_a_small_disk("snapshots");
    assert_eq!(said.unwrap_or_default(), [""; 0]);
}
