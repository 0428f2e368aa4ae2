//! `Perf` while threads come and go, the process forks, or runs out of descriptors: nothing leaks,
//! and nothing of the program's is touched. Children of this process, since all of it is the
//! process's: descriptors, limits.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Barrier;
use std::thread;

use probe_runtime::perf::FunctionEvents;
use probe_runtime::perf::PerfEvent::{PageFaults, TaskClock};
use probe_runtime::{Attachment, Perf, probe, select};
use probe_tests::scenario::{in_a_child, pass, to_play};

#[probe]
#[inline(never)]
fn work(inside: &dyn Fn()) {
    inside();
}

fn nothing() {
    work(&|| ());
}

/// Events that user space can't read, so the runtime keeps descriptors.
fn attach() -> Attachment<Perf> {
    select("consumers::perf_life::work").unwrap().attach(Perf::of([PageFaults, TaskClock])).unwrap()
}

fn counted(perf: &Perf) -> (u64, u64) {
    let counts = perf.event_counts();
    let of = |of: fn(&FunctionEvents) -> u64| counts.iter().map(of).sum();
    (of(FunctionEvents::counted), of(FunctionEvents::uncounted))
}

/// Descriptors of events, and pages of them.
fn open() -> (usize, usize) {
    let link = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.unwrap().path());
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| link(entry).ok());
    let descriptors = links.filter(|link| link.to_string_lossy().contains("[perf_event]")).count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("[perf_event]")).count())
}

#[test]
fn threads_leave_nothing() {
    pass("threads", &[]);
}

fn threads() {
    let perf = attach();
    nothing();
    let own = open();
    assert_eq!(own, (1, 2), "a descriptor, and a page for each event");
    let barrier = Barrier::new(8);
    let all = || {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    nothing();
                    barrier.wait();
                    nothing();
                    barrier.wait();
                });
            }
        });
    };
    for round in 0..5 {
        all();
        // A thread is joined before the C library has told of its end, so those of the round before
        // may be open, too; no older ones.
        assert!(open().0 <= 17, "round {round}: {:?}", open());
    }
    let is_closed = (0..1000).any(|_| {
        thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(counted(&perf), (1 + 5 * 16, 0));
        open() == own
    });
    assert!(is_closed, "a report closes what was left: {:?}", open());
    drop(perf);
    assert_eq!(open(), (0, 0));
}

#[test]
fn a_child_counts_for_itself() {
    pass("fork", &[]);
}

fn fork() {
    let mut perf = Some(attach());
    nothing();
    nothing();
    let forked = std::cell::Cell::new(-1);
    // A call is under way in both.
    // SAFETY: the child calls what a child of a program with threads may, and the runtime.
    work(&|| forked.set(unsafe { libc::fork() }));
    if forked.get() == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let perf = perf.take().unwrap();
            assert_eq!(counted(&perf), (2, 1), "the call that was under way has no counts");
            assert_eq!(open(), (1, 2), "its own, and none of its parent's");
            (0..10).for_each(|_| nothing());
            assert_eq!(counted(&perf), (12, 1));
            assert_eq!(perf.failure(), None);
            thread::scope(|scope| _ = scope.spawn(nothing));
            assert_eq!(counted(&perf), (13, 1));
            // And a child of its own, at rest.
            assert_eq!(
                in_a_child(|| {
                    nothing();
                    assert_eq!(counted(&perf), (14, 1));
                }),
                0
            );
            drop(perf);
            assert_eq!(open(), (0, 0));
        }));
        exit(i32::from(result.is_err()));
    }
    assert_eq!(wait_for(forked.get()), 0, "its assertion is on stderr");
    let perf = perf.take().unwrap();
    assert_eq!(counted(&perf), (3, 0));
    nothing();
    assert_eq!((counted(&perf), open()), ((4, 0), (1, 2)));
}

/// By the bare system call, of which the C library, and so the runtime, is not told.
#[test]
fn a_child_that_nobody_was_told_of_counts_for_itself() {
    pass("bare-fork", &[]);
}

fn bare_fork() {
    let perf = attach();
    nothing();
    // SAFETY: the child calls a function that is a hit, and ends.
    let child = unsafe { libc::syscall(libc::SYS_fork) };
    if child == 0 {
        nothing();
        nothing();
        exit(0);
    }
    assert_eq!(wait_for(i32::try_from(child).unwrap()), 0);
    nothing();
    assert_eq!(counted(&perf), (2, 0));
}

#[test]
fn signal_handlers_may_hit() {
    pass("signals", &[]);
}

extern "C" fn handle(_: libc::c_int) {
    nothing();
}

/// As a thread's first hit, and in the middle of others: then it is told of, and in no sum.
fn signals() {
    let perf = attach();
    // SAFETY: a function, which hits a probe; and signals of this process.
    let raise = || unsafe { assert_eq!(libc::raise(libc::SIGUSR1), 0) };
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGUSR1, handle as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    thread::scope(|scope| _ = scope.spawn(raise));
    work(&raise);
    assert_eq!((counted(&perf), perf.suppressed()), ((3, 0), 0));
    let (signals, calls) = (2_000, 20_000);
    // SAFETY: no pointers.
    let process = unsafe { libc::getpid() };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..signals {
                // SAFETY: as above.
                assert_eq!(unsafe { libc::kill(process, libc::SIGUSR1) }, 0);
                thread::yield_now();
            }
        });
        (0..calls).for_each(|_| nothing());
    });
    let counts = perf.event_counts();
    let unpaired = counts[0].unpaired();
    // A signal that comes while another of its kind is waiting is none; a hit in the middle of a
    // hit is not delivered.
    assert_eq!((unpaired.total(), counts[0].uncounted(), perf.suppressed() % 2), (0, 0, 0), "{perf}");
    let whole = counts[0].counted() + perf.suppressed() / 2;
    assert!((3 + calls..=3 + calls + signals).contains(&whole), "{perf}");
}

#[test]
fn without_a_descriptor_a_thread_is_not_counted() {
    pass("descriptors", &[]);
}

fn descriptors() {
    let perf = attach();
    nothing();
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a limit, which is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    thread::spawn(|| (0..5).for_each(|_| nothing())).join().unwrap();
    nothing();
    // Nobody can be attached that could not count its own thread.
    let refused =
        select("consumers::perf_life::work").unwrap().attach(Perf::of([PageFaults])).unwrap_err().to_string();
    assert!(
        refused.contains("page-faults: there is no file descriptor left; raise RLIMIT_NOFILE"),
        "{refused}"
    );
    drop(files);
    thread::spawn(nothing).join().unwrap();
    let counts = perf.event_counts();
    assert_eq!((counts[0].counted(), counts[0].uncounted()), (3, 5));
    assert_eq!((counts[0].calls().value.to_bits(), counts.threads_without_events()), (8.0_f64.to_bits(), 1));
    let said = "1 thread was without events: there is no file descriptor left; raise RLIMIT_NOFILE";
    assert!(perf.to_string().contains(said), "{perf}");
    assert!(perf.to_string().contains("uncounted"), "{perf}");
}

#[test]
fn what_the_program_closes_and_opens_is_its_own() {
    pass("closed", &[]);
}

fn closed() {
    let perf = attach();
    nothing();
    let [descriptor] = numbers()[..] else { panic!("one descriptor is kept") };
    // As daemons do that close all they don't know.
    // SAFETY: this program does not use the descriptor's file.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    nothing();
    assert_eq!(counted(&perf), (1, 1));
    let file = File::open("/dev/zero").unwrap();
    let moved = if file.as_raw_fd() == descriptor {
        file
    } else {
        // SAFETY: its number is free.
        unsafe {
            assert_eq!(libc::dup2(file.as_raw_fd(), descriptor), descriptor);
            File::from_raw_fd(descriptor)
        }
    };
    nothing();
    assert_eq!(counted(&perf), (1, 2));
    assert_eq!(perf.event_counts().threads_without_events(), 1);
    drop(perf);
    assert_eq!(open(), (0, 0));
    assert!(moved.metadata().is_ok(), "it is still open");
    let _ = moved.into_raw_fd();
}

#[test]
fn a_daemon_s_own_files_are_not_read() {
    pass("daemon", &[]);
}

/// Numbers of descriptors of events.
fn numbers() -> Vec<i32> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let is_event = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|it| it.to_string_lossy().contains("[perf_event]"))
    };
    entries.filter(is_event).map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect()
}

fn limit_descriptors(soft: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = soft;
    // SAFETY: a limit, which is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

fn daemon() {
    limit_descriptors(100);
    let perf = attach();
    nothing();
    assert_eq!(numbers(), [50], "the lowest of the upper half");
    // SAFETY: what these are the descriptors of is not used by this program.
    (3..100).for_each(|descriptor| _ = unsafe { libc::close(descriptor) });
    let mut pipes = Vec::new();
    for _ in 0..20 {
        let mut ends = [-1; 2];
        // SAFETY: a place for two descriptors, and bytes that are read.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::write(ends[1], [0xaa_u8; 100].as_ptr().cast(), 100), 100);
        }
        pipes.push(ends[0]);
    }
    (0..3).for_each(|_| nothing());
    for pipe in pipes {
        let mut waiting = 0;
        // SAFETY: a place for the answer.
        assert_eq!(unsafe { libc::ioctl(pipe, libc::FIONREAD, &raw mut waiting) }, 0);
        assert_eq!(waiting, 100);
    }
    assert_eq!(counted(&perf), (1, 3));
    assert_eq!(perf.event_counts().threads_without_events(), 1);
    // Another thread has events.
    thread::spawn(nothing).join().unwrap();
    assert_eq!(counted(&perf), (2, 3));
}

#[test]
fn without_a_high_number_a_low_one_is_kept() {
    pass("low", &[]);
}

fn low() {
    let perf = attach();
    limit_descriptors(64);
    let mut files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // Two become free: the second is for a moment.
    files.sort_by_key(AsRawFd::as_raw_fd);
    let low: Vec<_> = files.drain(..2).map(|file| file.as_raw_fd()).collect();
    nothing();
    assert_eq!((numbers(), counted(&perf)), (vec![low[0]], (1, 0)));
}

fn wait_for(child: libc::pid_t) -> libc::c_int {
    let mut status = -1;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

fn exit(status: i32) -> ! {
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(status) }
}

/// Plays the scenario that the environment asks for.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match to_play().as_str() {
        _ if !has_events() => eprintln!("left out: the kernel has no events for this process"),
        "threads" => threads(),
        "fork" => fork(),
        "bare-fork" => bare_fork(),
        "signals" => signals(),
        "descriptors" => descriptors(),
        "closed" => closed(),
        "daemon" => daemon(),
        "low" => low(),
        other => panic!("there is no scenario {other}"),
    }
}

/// Whether the kernel lets this process count anything.
fn has_events() -> bool {
    select("consumers::perf_life::work").unwrap().attach(Perf::of([PageFaults])).is_ok()
}
