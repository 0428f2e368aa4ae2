//! Each way to keep a trace under threads, signals, forks, endings and outputs of the worst kind.
//!
//! Each call is two hits, and its entry has its number in its thread. So a reader can tell which
//! calls are missing, and each test checks: the present ones are in order, they nest, the gaps say
//! how many are missing, and written and lost hits are all hits.

mod crowds;
mod endings;
mod full;
mod handlers;
mod inside;
mod outputs;

use std::cell::Cell;
use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;

use probe_runtime::trace::TraceTotals;
use probe_runtime::{Attachment, Trace, probe, select};
use probe_trace::{FieldValue, Item, Kind, ThreadId, Trace as Read};

/// Plays a part in a child.
pub fn play(way: &str) {
    match way.split_once(' ') {
        Some(("fills", _)) => outputs::play(),
        Some(("full", way)) => full::play(way),
        _ => endings::play(way),
    }
}

#[probe(args(number))]
#[inline(never)]
fn outer(number: u64) -> u64 {
    black_box(inner(number))
}

#[probe]
#[inline(never)]
fn inner(number: u64) -> u64 {
    black_box(number)
}

/// Hits of a call.
const HITS: u64 = 4;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Makes calls with numbers that follow each other in this thread, from 1.
fn call(times: u64) {
    for _ in 0..times {
        CALLS.set(CALLS.get() + 1);
        outer(CALLS.get());
    }
}

/// The ways to keep a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keep {
    Latest,
    First,
    File,
}

impl Keep {
    const ALL: [Self; 3] = [Self::Latest, Self::First, Self::File];

    fn attach(self, path: &Path, ring: usize, rings: usize) -> Attachment<Trace> {
        let trace = match self {
            Self::Latest => Trace::recorder(),
            Self::First => Trace::first(),
            Self::File => Trace::to_file(path),
        };
        // Sites are known once they were there.
        call(1);
        select("trace::stressed::**").unwrap().attach(trace.ring_size(ring).total_size(ring * rings)).unwrap()
    }

    /// Ends the trace, whose file is whole then.
    fn finish(self, trace: Attachment<Trace>, path: &Path) -> TraceTotals {
        match self {
            Self::File => trace.finish().unwrap(),
            _ => trace.snapshot(path).unwrap(),
        }
    }
}

/// The hits of a file.
#[derive(Clone, Copy, Default, Debug)]
struct Found {
    events: u64,
    lost: u64,
    threads: u64,
}

/// The calls of one thread that are open, as far as the trace has their entries.
#[derive(Default)]
struct Open {
    /// Whether hits before may be missing: at the beginning of a recorder's trace, after a gap, and
    /// around hits that were suppressed.
    may_lack: bool,
    calls: Vec<(String, u64)>,
    last: u64,
    time: u64,
}

/// Checks the order of a file's items, the nesting of its calls, and that numbers of calls grow.
fn check(path: &Path, keep: Keep) -> Found {
    let mut trace = Read::open(&[path]).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    check_items(&mut trace, keep)
}

fn check_items(trace: &mut Read, keep: Keep) -> Found {
    // Those of threads that found no ring, or a full one, are in no gap.
    let lost = trace.totals().map_or(0, |it| it.without_ring);
    let mut found = Found { lost, ..Found::default() };
    let mut threads: HashMap<ThreadId, Open> = HashMap::new();
    let mut time = 0;
    for item in trace.items().map(Result::unwrap) {
        match item {
            Item::Thread(thread) => {
                let may_lack = keep == Keep::Latest;
                let before = threads.insert(thread.id, Open { may_lack, ..Open::default() });
                assert!(before.is_none(), "{thread:?} twice");
                found.threads += 1;
            }
            Item::Event(event) => {
                found.events += 1;
                assert!(time <= event.time, "{event:?} after {time}");
                time = event.time;
                let open = threads.get_mut(&event.thread).expect("a thread comes first");
                assert!(open.time <= event.time, "{event:?} after {}", open.time);
                open.time = event.time;
                let path = &event.definition.path;
                if event.definition.kind == Some(Kind::Entry) {
                    if let [FieldValue::U64(number)] = event.fields[..] {
                        assert!(open.last < number, "{number} after {}", open.last);
                        open.last = number;
                    }
                    open.calls.push((path.clone(), event.generation));
                    continue;
                }
                match open.calls.pop() {
                    Some((entered, _)) => assert_eq!(entered, *path),
                    None => assert!(open.may_lack, "{event:?} without an entry"),
                }
            }
            Item::Gap(gap) => {
                found.lost += gap.lost;
                assert!(gap.lost != 0 && gap.begin <= gap.end, "{gap:?}");
                // A thread all of whose hits were lost has no other item.
                let open = threads.entry(gap.thread).or_default();
                assert!(open.time <= gap.begin, "{gap:?} after {}", open.time);
                (open.time, open.may_lack) = (gap.end, true);
                open.calls.clear();
            }
            _ => (),
        }
    }
    found
}
