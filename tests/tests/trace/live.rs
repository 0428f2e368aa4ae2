//! Traces for Perfetto that grow while the program runs.

use std::fs;
use std::process::Stdio;
use std::sync::Barrier;
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_tests::folder::Folder;
pub use probe_tests::perfetto::{BEGIN, END, ends, events, lost};
use probe_tests::random::Random;
use probe_tests::turn::turn;
use probe_tests::{scenario, whole};

#[probe(args(x))]
#[inline(never)]
fn shown(x: u64) -> u64 {
    std::hint::black_box(x)
}

#[test]
fn a_trace_has_the_latest_calls_while_the_program_goes_on() {
    let _turn = turn();
    let folder = Folder::new("trace-live");
    let path = folder.join("live.pftrace");
    shown(0);
    let trace = select("trace::live::shown").unwrap().attach(Trace::to_file(&path)).unwrap();
    for x in 1..=3 {
        shown(x);
        // Nobody asks for it: it comes by itself.
        while ends(&path) as u64 != x {
            thread::yield_now();
        }
    }
    shown(4);
    let totals = trace.flush().unwrap();
    assert_eq!((totals.written, totals.lost), (8, 0));
    assert_eq!(events(&path).len(), 8, "a flush has all of them");
    shown(5);
    trace.finish().unwrap();
    let events = events(&path);
    let numbers: Vec<_> = events.iter().flat_map(|event| &event.numbers).copied().collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert!(events.windows(2).all(|two| two[0].time <= two[1].time), "{events:?}");
}

#[test]
fn each_hit_of_each_thread_is_written_or_lost() {
    let _turn = turn();
    let folder = Folder::new("trace-live-threads");
    let path = folder.join("threads.pftrace");
    shown(0);
    let trace = Trace::to_file(&path).ring_size(4096);
    let trace = select("trace::live::shown").unwrap().attach(trace).unwrap();
    let (threads, calls) = (8, 5_000);
    // None takes the ring of another one, which it may have left full.
    let all = Barrier::new(threads);
    let work = || {
        all.wait();
        (0..calls).for_each(|x| _ = shown(x));
        all.wait();
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (totals, threads) = (trace.finish().unwrap(), threads as u64);
    let events = events(&path);
    assert_eq!(totals.written + totals.lost, 2 * threads * calls);
    assert_eq!(lost(&events), totals.lost);
    // A call whose exit is lost ends at the gap; an exit whose entry is lost is no end.
    let begun = events.iter().filter(|event| event.kind == BEGIN).count();
    assert_eq!(begun, ends(&path));
    let mut tracks: Vec<_> = events.iter().map(|event| event.track).collect();
    tracks.sort_unstable();
    tracks.dedup();
    assert_eq!(tracks.len() as u64, threads);
    for track in tracks {
        let own: Vec<_> = events.iter().filter(|event| event.track == track).collect();
        assert!(own.windows(2).all(|two| two[0].time <= two[1].time), "a thread's times are in order");
    }
}

#[test]
fn a_killed_process_leaves_what_it_has_written() {
    let _turn = turn();
    let kills = if whole::is_asked_for() { 200 } else { 20 };
    let folder = Folder::new("trace-live-killed");
    let mut random = Random::new(0x11fe);
    for number in 0..kills {
        let path = folder.join(format!("{number}.pftrace"));
        let mut child =
            scenario::start("hits for ever").env("TRACE_FILE", &path).stdout(Stdio::null()).spawn().unwrap();
        let length = 1024 + random.below(400_000);
        while fs::metadata(&path).map_or(0, |it| it.len()) < length {
            assert_eq!(child.try_wait().unwrap(), None, "it hits until it is killed");
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let events = events(&path);
        let (mut last, mut open) = (0, 0);
        for event in &events {
            match event.kind {
                BEGIN => {
                    open += 1;
                    assert!(event.numbers[0] > last, "{} after {last}", event.numbers[0]);
                    last = event.numbers[0];
                }
                END => open -= 1,
                _ => (),
            }
            assert!(open == 0 || open == 1, "{open} calls are open at once");
        }
        assert!(last > 0, "{length} bytes, and no call");
    }
}
