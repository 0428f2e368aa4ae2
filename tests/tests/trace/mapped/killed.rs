//! Processes that are killed at any moment.

use std::env;
use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use probe_runtime::Trace;
use probe_tests::folder::Folder;
use probe_tests::random::Random;
use probe_tests::turn::turn;
use probe_tests::{scenario, whole};

use super::{Story, attach, counted, stories};

/// Threads of the killed process.
const THREADS: usize = 3;

/// The killed process's own account, in a file: for each thread, the last call that began, and the
/// last one that ended.
fn account(path: &Path) -> &'static [[AtomicU64; 2]; THREADS] {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(4096).unwrap();
    let (rights, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
    // SAFETY: a new mapping, which stays.
    let start = unsafe { libc::mmap(ptr::null_mut(), 4096, rights, libc::MAP_SHARED, descriptor, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: zeroed atomics, in a page.
    unsafe { &*start.cast() }
}

/// Hits until the process is killed.
pub fn hits_for_ever(way: &str) {
    let folder = env::var("TRACE_FOLDER").unwrap();
    let (path, own) = (format!("{folder}/rings"), format!("{folder}/account"));
    let account = account(Path::new(&own));
    let trace = if way == "first" { Trace::first() } else { Trace::recorder() };
    let trace = attach(trace.ring_size(4096).total_size(64 * 4096).in_file(path));
    thread::scope(|scope| {
        for (number, [began, ended]) in account.iter().enumerate() {
            scope.spawn(move || {
                for x in 1.. {
                    began.store(x, Ordering::Relaxed);
                    if way == "threads" && x % 16 == 0 {
                        // Its own events: the number of its starter, and a few.
                        let first = (number as u64 + 1) << 32 | x;
                        thread::spawn(move || (first..first + 10).for_each(|x| _ = counted(x)))
                            .join()
                            .unwrap();
                    }
                    counted(x);
                    ended.store(x, Ordering::Release);
                }
            });
        }
    });
    drop(trace);
}

/// Kills a process at any moment, and reads its rings.
fn kill(way: &str, random: &mut Random, check: impl Fn(&[[u64; 2]; THREADS], &[Story])) {
    let folder = Folder::new("trace-mapped-killed");
    let mut command = scenario::start(&format!("mapped for ever {way}"));
    let mut child = command.env("TRACE_FOLDER", &*folder).stdout(Stdio::null()).spawn().unwrap();
    let account = loop {
        assert_eq!(child.try_wait().unwrap(), None, "it hits until it is killed");
        if folder.join("account").metadata().is_ok_and(|it| it.len() != 0) {
            break account(&folder.join("account"));
        }
        thread::yield_now();
    };
    // At some number of calls, which depends on no time, and somewhere between two of them.
    let calls = random.below(3_000);
    while account[0][0].load(Ordering::Relaxed) < calls {
        assert_eq!(child.try_wait().unwrap(), None, "it hits until it is killed");
    }
    (0..random.below(500)).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
    let path = folder.join("rings");
    if !path.exists() {
        // It was killed while it attached.
        return assert_eq!(calls, 0);
    }
    let stories = stories(&path).into_values().collect::<Vec<_>>();
    let account = account.each_ref().map(|own| own.each_ref().map(|it| it.load(Ordering::Relaxed)));
    check(&account, &stories);
    // Others read the file, too.
    assert!(fs::metadata(path).unwrap().len() > 64 * 4096);
}

fn kills() -> u64 {
    if whole::is_asked_for() { 200 } else { 20 }
}

/// The story of the calls that this thread began and ended, by the first of its numbers.
fn of<'a>(stories: &'a [Story], number: usize, account: &[[u64; 2]; THREADS]) -> &'a Story {
    let [began, ended] = account[number];
    let is_own = |story: &&Story| story.numbers.last().is_some_and(|last| (ended..=began).contains(last));
    let mut own = stories.iter().filter(is_own);
    own.next().unwrap_or_else(|| panic!("{account:?}: {stories:?}"))
}

#[test]
fn a_recorder_has_all_up_to_the_kill() {
    let _turn = turn();
    let mut random = Random::new(0xdead);
    for _ in 0..kills() {
        kill("recorder", &mut random, |account, stories| {
            for (number, [_, ended]) in account.iter().enumerate().filter(|(_, [_, ended])| *ended != 0) {
                let story = of(stories, number, account);
                assert_eq!(story.gaps, [], "{story:?}");
                // Two of four parts are there in any case, or everything.
                let all = story.numbers.first() == Some(&1);
                assert!(all || story.events > 70, "{ended}: {story:?}");
                // The last call that ended has its exit.
                let open = u64::from(story.numbers.last() != Some(ended));
                let ends = story.exits as u64;
                let begun = story.numbers.len() as u64;
                assert!(ends + open >= begun, "{account:?}: {story:?}");
            }
        });
    }
}

#[test]
fn a_trace_of_the_first_counts_the_others_up_to_the_kill() {
    let _turn = turn();
    let mut random = Random::new(0xbead);
    for _ in 0..kills() {
        kill("first", &mut random, |account, stories| {
            assert!(stories.len() <= THREADS);
            let begun = account.iter().filter(|[_, ended]| *ended != 0).count();
            assert!(stories.len() >= begun, "{account:?}: {stories:?}");
            let mut hits: Vec<_> = stories
                .iter()
                .map(|story| {
                    assert_eq!(story.numbers.first(), Some(&1));
                    assert!(
                        story.gaps.len() <= 1 && story.gaps.iter().all(|(before, _)| *before == story.events)
                    );
                    story.events + story.gaps.iter().map(|(_, lost)| lost).sum::<u64>()
                })
                .collect();
            // Each is written or lost, but for the one in which the process was killed.
            hits.sort_unstable();
            let mut known: Vec<_> = account.iter().filter(|[began, _]| *began != 0).collect();
            known.sort_unstable();
            known.iter().rev().zip(hits.iter().rev()).for_each(|([began, ended], hits)| {
                assert!((2 * ended..=2 * began).contains(hits), "{account:?}: {hits}");
            });
        });
    }
}

#[test]
fn threads_that_come_and_go_leave_whole_stories() {
    let _turn = turn();
    let mut random = Random::new(0xfeed);
    for _ in 0..kills() {
        kill("threads", &mut random, |_, stories| {
            // Of those that have ended, all or the last of their ten calls.
            let short = stories.iter().filter(|story| story.numbers.first().is_some_and(|it| it >> 32 != 0));
            let open = short
                .filter(|story| story.numbers.last().unwrap() & 15 != 9 || story.exits < story.numbers.len());
            assert!(open.count() <= THREADS, "{stories:?}");
        });
    }
}
