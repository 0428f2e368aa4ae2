//! Forked children: each process has a file of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use probe_runtime::{Attachment, Trace};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::Trace as Read;

use super::{attach, counted, numbers, stories, wait};

fn recorder(path: &Path) -> Attachment<Trace> {
    attach(Trace::recorder().ring_size(1 << 14).total_size(1 << 18).in_file(path))
}

/// Forks by the C library, with its hooks, or by a bare system call, without.
fn fork(by_library: bool) -> libc::pid_t {
    if by_library {
        // SAFETY: the child takes no lock of another thread's.
        return unsafe { libc::fork() };
    }
    // SAFETY: as fork(2), but for the C library's hooks.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, i64::from(libc::SIGCHLD), 0_i64, 0_i64, 0_i64, 0_i64) };
    libc::pid_t::try_from(child).unwrap()
}

fn leave(is_right: bool) -> ! {
    // SAFETY: ends the child at once.
    unsafe { libc::_exit(i32::from(!is_right)) }
}

fn child_of(path: &Path, child: libc::pid_t) -> PathBuf {
    let name = path.to_str().unwrap().replace(".probetrace", &format!("-{child}.probetrace"));
    name.into()
}

#[test]
fn a_child_writes_to_a_file_of_its_own() {
    let _turn = turn();
    for by_library in [true, false] {
        let folder = Folder::new("trace-mapped-fork");
        let path = folder.join("rings.probetrace");
        let trace = recorder(&path);
        (1..=10).for_each(|x| _ = counted(x));
        let child = fork(by_library);
        if child == 0 {
            (11..=5000).for_each(|x| _ = counted(x));
            leave(true);
        }
        wait(child);
        (11..=20).for_each(|x| _ = counted(x));
        let totals = trace.finish().unwrap();
        assert_eq!((totals.written, totals.lost), (40, 0));
        assert_eq!(numbers(&path), (1..=20).collect::<Vec<_>>());
        let own = numbers(&child_of(&path, child));
        assert_eq!(own.last(), Some(&5000), "{by_library}");
        assert!(own.len() > 300 && own[0] > 11, "it has the latest: {}", own.len());
        let read = Read::open(&[child_of(&path, child)]).unwrap();
        let [problem] = read.problems() else { panic!("{:?}", read.problems()) };
        assert!(problem.contains("the process did not finish the trace"), "{problem}");
    }
}

#[test]
fn a_child_without_hits_makes_no_file_and_one_that_ends_closes_its_own() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-children");
    let path = folder.join("rings-%p.probetrace");
    let mut trace = Some(recorder(&path));
    counted(1);
    let children = [0, 1, 2].map(|way| {
        let child = fork(true);
        if child == 0 {
            let trace = trace.take().unwrap();
            if way == 0 {
                leave(trace.totals().written == 0);
            }
            counted(7);
            if way == 1 {
                // Threads of a child have rings, too.
                thread::scope(|scope| _ = scope.spawn(|| counted(8)));
                leave(trace.finish().is_ok_and(|totals| (totals.written, totals.lost) == (4, 0)));
            }
            let grandchild = fork(true);
            if grandchild == 0 {
                counted(9);
                leave(
                    trace.snapshot(path.with_file_name("snapshot")).is_ok_and(|totals| totals.written == 2),
                );
            }
            wait(grandchild);
            counted(8);
            leave(true);
        }
        wait(child);
        child
    });
    drop(trace);
    let of = |process: u32| folder.join(format!("rings-{process}.probetrace"));
    assert_eq!(numbers(&of(std::process::id())), [1]);
    let [silent, closed, parent] = children.map(|child| of(child.unsigned_abs()));
    assert!(!silent.exists());
    let all: Vec<_> = stories(&closed).into_values().flat_map(|story| story.numbers).collect();
    assert_eq!(all, [7, 8]);
    assert_eq!(Read::open(&[closed]).unwrap().problems(), &[] as &[String]);
    assert_eq!(numbers(&parent), [7, 8]);
    assert_eq!(numbers(&folder.join("snapshot")), [9]);
    // Three of them, the grandchild's, and its snapshot.
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 5);
}

#[test]
fn children_of_busy_threads_leave_their_parents_files_alone() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-busy");
    let path = folder.join("rings.probetrace");
    let trace = recorder(&path);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for first in [1, 1 << 32] {
            let is_over = &is_over;
            scope.spawn(move || {
                for x in first.. {
                    counted(x);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for round in 0..20 {
            let child = fork(round % 2 == 0);
            if child == 0 {
                (1 << 40..(1 << 40) + 50).for_each(|x| _ = counted(x));
                leave(true);
            }
            wait(child);
            // This thread has no hit in the parent.
            assert_eq!(numbers(&child_of(&path, child)), (1 << 40..(1 << 40) + 50).collect::<Vec<_>>());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let totals = trace.finish().unwrap();
    let stories = stories(&path);
    assert_eq!((stories.len(), totals.lost), (2, 0));
    assert!(
        stories.values().all(|story| story.numbers.iter().all(|x| x >> 40 == 0) && story.gaps.is_empty())
    );
}

#[test]
fn a_child_that_can_make_no_file_records_in_memory() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-no-file");
    let (inner, outside) = (folder.join("inner"), folder.join("snapshot"));
    fs::create_dir(&inner).unwrap();
    let trace = recorder(&inner.join("rings.probetrace"));
    counted(1);
    fs::rename(&inner, folder.join("moved")).unwrap();
    let child = fork(true);
    if child == 0 {
        counted(2);
        let text = trace.to_string();
        let says = text.contains("can't be made, so the events are in memory: No such file or directory");
        leave(says && trace.snapshot(&outside).is_ok_and(|totals| (totals.written, totals.lost) == (2, 0)));
    }
    wait(child);
    counted(2);
    drop(trace);
    assert_eq!(numbers(&outside), [2]);
    assert_eq!(numbers(&folder.join("moved/rings.probetrace")), [1, 2]);
}

#[test]
fn a_child_without_room_for_a_file_leaves_none() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-no-room");
    let trace = recorder(&folder.join("rings.probetrace"));
    counted(1);
    let child = fork(true);
    if child == 0 {
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        // SAFETY: a limit of this child, which is read, and a signal that it ignores.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        counted(2);
        let text = trace.to_string();
        leave(text.contains("can't be made, so the events are in memory: File too large"));
    }
    wait(child);
    let files: Vec<_> = fs::read_dir(&*folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["rings.probetrace"]);
}
