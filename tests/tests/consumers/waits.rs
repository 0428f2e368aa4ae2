//! `Latency` and `CallTree` that split wall time into CPU time and waits: the parts add up, and
//! agree with what the kernel counts for the thread.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use probe_runtime::latency::{Latencies, Split};
use probe_runtime::{CallTree, Consumer, Latency, ProbeSet, Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::sandbox::{argument, deny};
use probe_tests::scenario::{in_a_child, pass, to_play};
use probe_tests::turn::turn;
use probe_trace::{Item, Off, Trace as Read};

#[probe]
#[inline(never)]
fn outer() -> Counted {
    spin();
    nap();
    inner(3)
}

#[probe]
#[inline(never)]
fn inner(depth: u32) -> Counted {
    nap();
    if depth == 0 { spin() } else { inner(depth - 1) }
}

#[probe]
#[inline(never)]
fn nap() {
    thread::sleep(Duration::from_millis(1));
}

/// The kernel's numbers of this thread.
#[derive(Clone, Copy, Debug)]
struct Counted {
    blocked: u64,
    ready: u64,
    cpu: u64,
}

#[probe]
#[inline(never)]
fn spin() -> Counted {
    let begin = Counted::now();
    (0..200_000_u64).for_each(|n| _ = black_box(n));
    Counted::now().less(begin)
}

/// More waits than the kernel keeps between two hits.
#[probe]
#[inline(never)]
fn nap_often() {
    (0..2_000).for_each(|_| thread::sleep(Duration::from_nanos(1)));
}

impl Counted {
    fn now() -> Self {
        // SAFETY: all fields are numbers, and the kernel is given places for them.
        let (usage, time) = unsafe {
            let (mut usage, mut time): (libc::rusage, libc::timespec) = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time), 0);
            (usage, time)
        };
        let number = |it: i64| u64::try_from(it).unwrap();
        let cpu = number(time.tv_sec) * 1_000_000_000 + number(time.tv_nsec);
        Self { blocked: number(usage.ru_nvcsw), ready: number(usage.ru_nivcsw), cpu }
    }

    fn less(self, begin: Self) -> Self {
        Self {
            blocked: self.blocked - begin.blocked,
            ready: self.ready - begin.ready,
            cpu: self.cpu - begin.cpu,
        }
    }
}

fn set() -> ProbeSet {
    select("consumers::waits::*").unwrap()
}

/// Says if the system does not permit it.
fn permitted<T>(attached: Result<T, probe_runtime::Error>) -> Option<T> {
    attached.inspect_err(|error| eprintln!("not permitted: {error}")).ok()
}

/// Says if threads got no records: their user may lock little memory.
fn all_have_records(latencies: &Latencies) -> bool {
    let table = latencies.to_string();
    let refused = table.lines().find(|line| line.contains(" are unknown: locked memory is used up"));
    refused.inspect(|note| eprintln!("{note}")).is_none()
}

fn sum(split: Split) -> u64 {
    split.cpu + split.blocked + split.ready + split.unknown
}

/// Times are rounded to nanoseconds, each by itself.
fn adds_up(split: Split, wall: u64) {
    assert!(sum(split).abs_diff(wall) <= 1, "{split:?} of {wall}");
}

fn split(latencies: &Latencies, name: &str) -> [Split; 2] {
    let it = latencies.function(&format!("consumers::waits::{name}")).unwrap();
    let (all, own) = (it.split().unwrap(), it.own_split().unwrap());
    adds_up(all, it.total());
    adds_up(own, it.own());
    [all, own]
}

#[test]
fn the_parts_of_wall_time_add_up() {
    let _turn = turn();
    let Some(latency) = permitted(set().attach(Latency::new().cpu())) else { return };
    let Some(tree) = permitted(set().attach(CallTree::new().cpu())) else { return };
    let before = Counted::now();
    let inside = outer();
    let after = Counted::now();
    let latencies = latency.latencies();
    let [outer, outer_own] = split(&latencies, "outer");
    let [nap, _] = split(&latencies, "nap");
    let [inner, inner_own] = split(&latencies, "inner");
    let [spin, _] = split(&latencies, "spin");
    assert_eq!((outer.unknown, nap.unknown), (0, 0));
    assert!(nap.blocked > 0 && nap.cpu < latencies.function("consumers::waits::nap").unwrap().total());
    // Each wait is of one function itself.
    assert_eq!(outer.blocked, outer_own.blocked + inner_own.blocked + nap.blocked + spin.blocked);
    assert_eq!(outer.ready, outer_own.ready + inner_own.ready + nap.ready + spin.ready);
    // Calls inside of calls of the function count once.
    assert!(inner.blocked <= outer.blocked && inner.blocked > inner_own.blocked, "{inner:?} {outer:?}");
    // The kernel's own sums lie inside and around. Its clock of the thread leaves out what a host
    // takes, and has a part of each switch, which may come between its two numbers.
    let switches = (inside.blocked + inside.ready + 1) * 20_000;
    assert!(spin.cpu + spin.cpu / 1_000 + 1_000 + switches >= inside.cpu, "{spin:?} {inside:?}");
    let around = after.less(before);
    assert!(around.blocked >= 5, "{around:?}");
    assert!(around.ready != 0 || outer.ready == 0, "{outer:?} {around:?}");
    // The tree has the same calls; both have hit.
    let found = tree.tree();
    for node in &found {
        adds_up(node.split().unwrap(), node.total());
        adds_up(node.own_split().unwrap(), node.own());
    }
    let root = found.iter().find(|node| node.name() == "consumers::waits::outer").unwrap();
    let below: u64 = found.iter().map(|node| node.own_split().unwrap().blocked).sum();
    assert_eq!((root.depth(), root.split().unwrap().blocked), (0, below));
    // Nothing was lost between two readings.
    let none = latency.latencies().since(&latencies);
    assert_eq!(none.iter().map(|it| sum(it.split().unwrap())).sum::<u64>(), 0);
}

#[test]
fn reports_have_the_parts() {
    let _turn = turn();
    let Some(latency) = permitted(set().attach(Latency::new().cpu())) else { return };
    let Some(tree) = permitted(set().attach(CallTree::new().cpu())) else { return };
    nap();
    let latencies = latency.latencies();
    let table = latencies.to_string();
    let heading: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    let expected = [
        "function", "calls", "self", "self", "cpu", "total", "cpu", "blocked", "ready", "mean", "p50", "p99",
        "max",
    ];
    assert_eq!(heading, expected, "{table}");
    let columns =
        "cpu_ns,blocked_ns,ready_ns,unknown_ns,self_cpu_ns,self_blocked_ns,self_ready_ns,self_unknown_ns";
    for csv in [latencies.to_csv(), tree.tree().to_csv()] {
        assert!(csv.lines().next().unwrap().ends_with(columns), "{csv}");
    }
    let blocked = split(&latencies, "nap")[0].blocked;
    assert!(latencies.to_json().contains(&format!("\"blocked_ns\":{blocked},")), "{}", latencies.to_json());
    let text = tree.tree().to_string();
    let heading = "total   share  cpu  blocked  ready  self  self cpu  calls  call tree";
    let shown: Vec<_> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(shown, heading.split_whitespace().collect::<Vec<_>>(), "{text}");
    // Without the option, there are no such columns.
    let plain = set().attach(Latency::new()).unwrap();
    nap();
    let plain = plain.latencies();
    assert!(!plain.to_csv().contains("cpu_ns") && plain[0].split().is_none());
}

#[test]
fn calls_whose_waits_are_lost_are_no_cpu_time() {
    let _turn = turn();
    let Some(latency) = permitted(set().attach(Latency::new().cpu())) else { return };
    nap_often();
    nap();
    let latencies = latency.latencies();
    let wall = latencies.function("consumers::waits::nap_often").unwrap().total();
    let [often, _] = split(&latencies, "nap_often");
    assert_eq!(often, Split { unknown: wall, ..Split::default() });
    // Later calls are known again.
    assert_eq!(split(&latencies, "nap")[0].unknown, 0);
    let table = latencies.to_string();
    assert!(table.lines().next().unwrap().contains("unknown"), "{table}");
}

#[test]
fn threads_of_a_forked_child_have_records_of_their_own() {
    let _turn = turn();
    let Some(latency) = permitted(set().attach(Latency::new().cpu())) else { return };
    nap();
    let before = latency.latencies();
    let status = in_a_child(|| {
        // The first hit lets the kernel write records of this thread.
        nap();
        nap();
        let since = latency.latencies().since(&before);
        let [all, _] = split(&since, "nap");
        let is_known = all.blocked > 0 && all.unknown == 0;
        assert!(is_known || !all_have_records(&latency.latencies()), "{all:?}");
    });
    assert_eq!(status, 0);
    nap();
    let latencies = latency.latencies();
    assert!(split(&latencies, "nap")[0].unknown == 0 || !all_have_records(&latencies));
}

/// Threads that come and go leave their memory to others.
#[test]
fn many_threads_have_their_own_waits() {
    let _turn = turn();
    let Some(latency) = permitted(set().attach(Latency::new().cpu())) else { return };
    for _ in 0..20 {
        thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(nap)));
    }
    let latencies = latency.latencies();
    let [all, own] = split(&latencies, "nap");
    assert_eq!(latencies.function("consumers::waits::nap").unwrap().calls(), 160);
    assert_eq!(all, own);
    assert!(all.unknown == 0 && all.blocked > 0 || !all_have_records(&latencies), "{all:?}");
}

#[test]
fn what_is_not_permitted_is_an_error() {
    pass("denied", &[]);
}

fn refused<C: Consumer>(consumer: C) -> String {
    set().attach(consumer).map(drop).unwrap_err().to_string()
}

fn denied() {
    let attached = set().attach(Latency::new().cpu());
    deny(libc::SYS_perf_event_open, argument(0), 0, 0);
    let errors =
        [refused(Latency::new().cpu()), refused(CallTree::new().cpu()), refused(Trace::recorder().threads())];
    for error in errors {
        assert!(error.contains("the kernel tells no waits of threads: not permitted: "), "{error}");
    }
    // A thread that comes later has no records, and its calls are measured without.
    let Some(latency) = permitted(attached) else { return };
    thread::spawn(nap).join().unwrap();
    let latencies = latency.latencies();
    let [nap, _] = split(&latencies, "nap");
    assert!(nap.unknown > 0 && sum(nap) == nap.unknown, "{nap:?}");
    let table = latencies.to_string();
    assert!(table.contains("waits of 1 thread are unknown: not permitted"), "{table}");
}

#[test]
fn a_limit_on_locked_memory_is_named() {
    pass("unmapped", &[]);
}

#[test]
fn a_file_has_what_proc_tells_instead() {
    pass("polled", &[]);
}

/// Reads one byte by the system call itself, so that nothing else waits.
#[probe]
#[inline(never)]
fn receive(pipe: i32) {
    let mut byte = 0_u8;
    // SAFETY: a place for one byte.
    assert_eq!(unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) }, 1);
}

/// The waits in `receive`, and the times of its entry and its exit.
fn received(file: &Path) -> (Vec<Off>, Vec<u64>) {
    let mut trace = Read::open(&[file]).unwrap();
    let (mut waits, mut times) = (Vec::new(), Vec::new());
    for item in trace.items().map(Result::unwrap) {
        match item {
            Item::Off(off) => waits.push(off),
            Item::Event(event) if event.definition.path.ends_with("::receive") => times.push(event.time),
            _ => (),
        }
    }
    waits.retain(|off| times.first().is_some_and(|entry| off.begin >= *entry));
    (waits, times)
}

fn polled() {
    deny(libc::SYS_perf_event_open, argument(0), 0, 0);
    let folder = Folder::new("waits-polled");
    let file = folder.join("polled.probetrace");
    let trace = set().attach(Trace::to_file(&file).threads()).unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    let pipe = reader.as_raw_fd();
    let is_read =
        |off: &Off| off.call.as_ref().is_some_and(|call| call.to_string() == format!("read({pipe})"));
    thread::scope(|scope| {
        scope.spawn(|| receive(pipe));
        // Until two looks have found it.
        let mut seen = 0;
        while seen < 2 {
            trace.flush().unwrap();
            let (waits, times) = received(&file);
            seen += usize::from(!waits.is_empty());
            let continues = |off: &Off| is_read(off) && off.is_polled && !off.is_ready && off.end.is_none();
            assert!(waits.len() <= times.len() && waits.iter().all(continues), "{waits:?}");
        }
        writer.write_all(&[1]).unwrap();
    });
    let report = trace.to_string();
    assert!(report.contains("looks into /proc") && report.contains("not permitted"), "{report}");
    trace.finish().unwrap();
    let (waits, times) = received(&file);
    let [entry, exit] = times[..] else { panic!("{times:?}") };
    let [Off { begin, end: Some(end), .. }] = waits[..] else { panic!("{waits:?}") };
    assert!(is_read(&waits[0]) && waits[0].is_polled, "{waits:?}");
    assert!(entry <= begin && begin < end && end <= exit, "{entry} {begin}..{end} {exit}");
}

/// Files are mapped privately, but for the records.
fn unmapped() {
    let attached = set().attach(Latency::new().cpu());
    deny(libc::SYS_mmap, argument(3), u32::MAX, libc::MAP_SHARED.unsigned_abs());
    if permitted(attached).is_some() {
        let limit = "locked memory is used up: raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK";
        let expected = format!("the kernel tells no waits of threads: {limit}");
        assert!(refused(Latency::new().cpu()).contains(&expected), "{}", refused(Latency::new().cpu()));
    }
}

#[test]
#[ignore = "no test: others play it, in children"]
fn scenario() {
    match &*to_play() {
        "denied" => denied(),
        "unmapped" => unmapped(),
        "polled" => polled(),
        other => panic!("{other}"),
    }
}
