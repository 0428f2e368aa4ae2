//! Forks beside running threads, and processes that become another program or end at once.

use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, path::PathBuf, thread};

use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_tests::turn::turn;
use probe_trace::{FieldValue, Item, Trace as Read};

use super::{HITS, Keep, call, check};

/// Calls before the file is flushed, and calls after that.
const FLUSHED: u64 = 1_000;
const LATER: u64 = 500;

/// Ends in one of these ways while a trace is under way, or finishes it.
pub fn play(way: &str) {
    let path = PathBuf::from(std::env::var_os("TRACE_FILE").unwrap());
    let trace = Keep::File.attach(&path, 4 << 20, 8);
    call(FLUSHED);
    if way == "finish" {
        assert_eq!(trace.finish().unwrap().written, FLUSHED * HITS);
        return;
    }
    trace.flush().unwrap();
    call(LATER);
    if way == "exec" {
        let error = scenario::start("stressed finish").env("TRACE_FILE", path.with_extension("next")).exec();
        panic!("{error}");
    }
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) };
}

#[test]
fn what_was_flushed_stays_after_exec_and_exit() {
    let folder = Folder::new("trace-endings");
    for way in ["exec", "_exit"] {
        let path = folder.join(format!("{way}.probetrace"));
        let output = scenario::start(&format!("stressed {way}")).env("TRACE_FILE", &path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut trace = Read::open(&[&path]).unwrap();
        // The numbers of calls follow each other; the last one has no exit yet, or is whole.
        let numbers = numbers(trace.items().map(Result::unwrap));
        let many = numbers.len() as u64;
        assert!((FLUSHED..=FLUSHED + LATER).contains(&many), "{way}: {many}");
        assert!(numbers.iter().zip(2..).all(|(number, expected)| *number == expected), "{way}");
        // The program after exec(2) has a file of its own.
        let next = path.with_extension("next");
        assert_eq!(next.exists(), way == "exec");
        if next.exists() {
            assert_eq!(check(&next, Keep::File).events, FLUSHED * HITS);
        }
    }
}

/// The numbers of the calls.
fn numbers(items: impl Iterator<Item = Item>) -> Vec<u64> {
    let number = |item| match item {
        Item::Event(event) => match event.fields[..] {
            [FieldValue::U64(number)] => Some(number),
            _ => None,
        },
        _ => None,
    };
    items.filter_map(number).collect()
}

#[test]
fn forks_beside_running_threads() {
    const FORKS: u64 = 10;
    let _turn = turn();
    let folder = Folder::new("trace-forks");
    let path = folder.join("parent.probetrace");
    for keep in [Keep::Latest, Keep::File] {
        let trace = keep.attach(&path, 64 << 10, 32);
        let is_over = AtomicBool::new(false);
        let mut calls = 0;
        thread::scope(|scope| {
            let others: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut calls = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            call(100);
                            calls += 100;
                        }
                        calls
                    })
                })
                .collect();
            for number in 0..FORKS {
                call(10);
                let childs = folder.join(format!("child-{number}.probetrace"));
                let status = scenario::in_a_child(|| {
                    call(20);
                    if keep == Keep::Latest {
                        trace.snapshot(&childs).unwrap();
                    } else {
                        // The file is the parent's.
                        trace.flush().unwrap();
                    }
                });
                assert_eq!(status, 0, "{keep:?} {number}");
                if keep == Keep::Latest {
                    // All of this thread so far, the child's calls last.
                    let mut trace = Read::open(&[&childs]).unwrap();
                    let found = numbers_of_this_thread(&mut trace);
                    assert!(found.len() >= 20 && found.is_sorted(), "{found:?}");
                    assert_eq!(found.last().copied(), Some(super::CALLS.get() + 20));
                    fs::remove_file(childs).unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
            calls = FORKS * 10 + others.into_iter().map(|other| other.join().unwrap()).sum::<u64>();
        });
        let totals = keep.finish(trace, &path);
        // No hit of a child is among them.
        assert_eq!(totals.written + totals.lost, calls * HITS, "{keep:?}: {totals:?}");
        let found = check(&path, keep);
        assert!(keep == Keep::Latest || (found.events, found.lost) == (totals.written, totals.lost));
    }
}

/// The numbers of the calls of the thread that forks.
fn numbers_of_this_thread(trace: &mut Read) -> Vec<u64> {
    // SAFETY: returns a number.
    let tid = u64::from(unsafe { libc::gettid() }.cast_unsigned());
    let is_own = |item: &Item| matches!(item, Item::Event(event) if event.thread.tid == tid);
    numbers(trace.items().map(Result::unwrap).filter(is_own))
}
