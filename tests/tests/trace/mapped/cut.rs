//! Files that somebody else cuts off, disks without room, and files that can't hold rings.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread;

use probe_runtime::{Error, Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::random::Random;
use probe_tests::scenario;
use probe_tests::turn::turn;
use probe_tests::whole;
use probe_trace::Trace as Read;

use super::super::torn::{change_anywhere, cut_off_anywhere, readable};
use super::{attach, counted, stories};

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_file_that_is_cut_off_costs_events_and_no_process() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-cut");
    let mut random = Random::new(0xc07);
    for round in 0..20 {
        let path = folder.join(format!("{round}.probetrace"));
        let trace = attach(Trace::recorder().ring_size(1 << 16).total_size(1 << 18).in_file(&path));
        let calls = random.below(20_000);
        (0..calls).for_each(|x| _ = counted(x));
        let length = if round == 0 { 0 } else { random.below(60_000) };
        cut(&path, length);
        // Long enough to come to each part of the ring.
        thread::scope(|scope| {
            (0..2).for_each(|_| _ = scope.spawn(|| (0..20_000).for_each(|x| _ = counted(x))));
        });
        (calls..calls + 20_000).for_each(|x| _ = counted(x));
        let totals = trace.totals();
        assert_eq!(totals.written + totals.lost, 2 * (calls + 60_000), "each is counted");
        // The rest of the file is right; `stories` looks.
        if length >= 512 {
            let read = Read::open(&[&path]).unwrap();
            assert!(
                read.problems().iter().any(|it| it.ends_with("and are left out")),
                "{:?}",
                read.problems()
            );
            drop(stories(&path));
        }
        let said = trace.to_string();
        let problem = format!("another program has cut {} off", path.display());
        assert!(said.contains(&problem), "{said}");
        // A snapshot is of the memory, and has the latest.
        let snapshot = folder.join("snapshot");
        trace.snapshot(&snapshot).unwrap();
        assert!(stories(&snapshot).values().any(|story| story.numbers.last() == Some(&(calls + 19_999))));
        assert!(trace.finish().unwrap_err().to_string().starts_with(&problem));
    }
}

#[test]
fn a_file_that_is_emptied_and_grows_again_has_later_events() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-emptied");
    let path = folder.join("emptied.probetrace");
    let trace = attach(Trace::recorder().ring_size(1 << 14).total_size(1 << 16).in_file(&path));
    let whole = path.metadata().unwrap().len();
    (0..100).for_each(|x| _ = counted(x));
    let front = fs::read(&path).unwrap()[..4096].to_vec();
    cut(&path, 0);
    cut(&path, whole);
    (100..5_000).for_each(|x| _ = counted(x));
    // As somebody who restores the file may do.
    OpenOptions::new().write(true).open(&path).unwrap().write_at(&front, 0).unwrap();
    let story = stories(&path).into_values().next().unwrap();
    assert_eq!(story.numbers.last(), Some(&4_999));
    drop(trace);
}

/// Cuts off a mapping of its own.
pub fn foreign() {
    let folder = Folder::new("trace-mapped-foreign");
    let trace = attach(Trace::recorder().in_file(folder.join("rings")));
    let own = OpenOptions::new().read(true).write(true).create_new(true).open(folder.join("own")).unwrap();
    own.set_len(4096).unwrap();
    let descriptor = own.as_raw_fd();
    // SAFETY: a new mapping.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0) };
    own.set_len(0).unwrap();
    counted(1);
    // SAFETY: it is mapped; the kernel raises a signal, as this test wants.
    println!("{}", unsafe { start.cast::<u8>().read_volatile() });
    drop(trace);
}

#[test]
fn another_mapping_that_is_cut_off_ends_the_process_as_ever() {
    let _turn = turn();
    let output = scenario::play("mapped foreign", &[]);
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}", scenario::said(&output));
}

#[probe]
#[inline(never)]
fn step() {}

#[test]
fn a_disk_without_room_is_an_error_when_it_is_attached() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-full");
    step();
    let attach = |trace: Trace| -> Result<_, Error> { select("**::cut::step").unwrap().attach(trace) };
    // 32 TiB.
    let path = folder.join("large.probetrace");
    let error = attach(Trace::recorder().ring_size(1 << 40).total_size(1 << 45).in_file(&path)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("the trace can't be written to {}: ", path.display())), "{text}");
    assert!(
        ["No space left", "File too large", "Cannot allocate"].iter().any(|it| text.contains(it)),
        "{text}"
    );
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "nothing stays");
    let text = |trace: Trace| attach(trace).unwrap_err().to_string();
    let missing = text(Trace::recorder().in_file("/missing/folder/x.probetrace"));
    assert!(missing.contains("/missing/folder/x.probetrace: No such file"), "{missing}");
    let device = text(Trace::recorder().in_file("/dev/null"));
    assert!(device.ends_with("/dev/null: only regular files can hold rings"), "{device}");
    let drained = text(Trace::to_file(folder.join("a")).in_file(folder.join("b")));
    assert!(
        drained.ends_with("its rings are emptied to a file; `recorder` and `first` keep theirs"),
        "{drained}"
    );
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "nothing stays");
}

#[test]
fn attaching_replaces_a_file_and_leaves_its_owner_alone() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-replaced");
    let path = folder.join("rings.probetrace");
    let one = attach(Trace::recorder().ring_size(4096).total_size(1 << 16).in_file(&path));
    counted(1);
    fs::hard_link(&path, folder.join("first")).unwrap();
    let set = select("**::mapped::counted").unwrap();
    let other = set.attach(Trace::recorder().ring_size(4096).total_size(1 << 16).in_file(&path)).unwrap();
    counted(2);
    assert_eq!((one.finish().unwrap().written, other.finish().unwrap().written), (4, 2));
    assert_eq!(super::numbers(&path), [2]);
    assert_eq!(super::numbers(&folder.join("first")), [1, 2]);
}

#[test]
fn a_reader_beside_running_threads_sees_whole_events() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-live");
    let path = folder.join("rings.probetrace");
    let trace = attach(Trace::recorder().ring_size(4096).total_size(1 << 16).in_file(&path));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for x in 1.. {
                counted(x);
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut seen = 0;
        while seen < 20_000 {
            seen += stories(&path).into_values().map(|story| story.events).sum::<u64>();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    trace.finish().unwrap();
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-torn");
    let path = folder.join("torn.probetrace");
    let trace = attach(Trace::recorder().ring_size(4096).total_size(4096).in_file(&path));
    (0..200).for_each(|x| _ = counted(x));
    drop(trace);
    assert!(readable(&path).unwrap() > 100);
    cut_off_anywhere(&path);
}

#[test]
fn changed_bytes_do_no_harm() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-changed");
    let path = folder.join("changed.probetrace");
    let trace = attach(Trace::recorder().ring_size(4096).total_size(4096).in_file(&path));
    (0..200).for_each(|x| _ = counted(x));
    drop(trace);
    change_anywhere(&path, if whole::is_asked_for() { 100_000 } else { 2_000 });
}
