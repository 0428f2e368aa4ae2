//! Calls, paired: by a meter of the test's own, whose clock is the program's: a number that the
//! program adds to. So every sum is known, to the last tick. Through the public interface alone, as
//! any consumer may be written. A process of its own: it counts how much a thread may have under
//! way.

mod futures;

use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use probe_runtime::calls::{CallEnd, Calls, LazyCalls, Meter, Unpaired};
use probe_runtime::consumer::Local;
use probe_runtime::{Attachment, Consumer, Error, Event, Kind, ProbeSet, probe, select};
#[cfg(unix)]
use probe_tests::scenario::in_a_child;
// Tests that call the same functions, or switch their sites, take turns.
use probe_tests::turn::turn;

thread_local! {
    /// The time, and how much work was done: both are measured.
    static NOW: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
}

/// Time passes.
fn spend(ticks: u64) {
    let [time, work] = NOW.get();
    NOW.set([time + ticks, work + 1]);
}

/// The sums for each function.
type Sums = [AtomicU64; 7];

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Measured {
    calls: u64,
    total: u64,
    busy: u64,
    /// Of all that ended, polls too.
    elapsed: u64,
    own: u64,
    work: u64,
    /// The sum of the depths, which are the notes.
    depth: u64,
}

#[derive(Default)]
struct Exact(LazyCalls<2, Self>);

impl Meter<2> for Exact {
    type Head = ();
    type Part = Sums;

    const NOTES: bool = true;

    fn read(&self, _: Local<'_, (), ()>) -> [u64; 2] {
        NOW.get()
    }

    fn read_inline(&self) -> Option<[u64; 2]> {
        Some(NOW.get())
    }

    fn begin(&self, _: Local<'_, (), ()>, _: usize, outer: u64) -> u64 {
        outer + 1
    }

    fn end(&self, ended: &CallEnd<'_, 2, (), Sums>) {
        let whole = ended.completed.map_or([0; 3], |call| [1, call.total[0], call.busy[0]]);
        let [calls, total, busy] = whole;
        let more = [calls, total, busy, ended.elapsed[0], ended.own()[0], ended.own()[1], ended.note];
        for (sum, more) in ended.part.iter().zip(more) {
            sum.store(sum.load(Relaxed) + more, Relaxed);
        }
    }
}

impl Consumer for Exact {
    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.0.prepare(probes)
    }

    fn hit(&self, event: &Event<'_>) {
        self.0.hit(event, self);
    }
}

fn attach(selector: &str) -> Attachment<Exact> {
    select(selector).unwrap().attach(Exact::default()).unwrap()
}

trait Results {
    fn calls_of(&self) -> &Calls<2, Exact>;

    fn number(&self, path: &str) -> usize {
        let found = self.calls_of().functions().iter().position(|function| function.path() == path);
        found.unwrap_or_else(|| panic!("{path} is none of {:?}", self.calls_of().functions()))
    }

    fn of(&self, path: &str) -> Measured {
        let mut sums = [0; 7];
        for part in self.calls_of().parts(self.number(path)) {
            sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part.load(Relaxed));
        }
        let [calls, total, busy, elapsed, own, work, depth] = sums;
        Measured { calls, total, busy, elapsed, own, work, depth }
    }

    fn unpaired(&self, path: &str) -> Unpaired {
        self.calls_of().unpaired(self.number(path))
    }

    fn assert_all_paired(&self) {
        for (number, function) in self.calls_of().functions().iter().enumerate() {
            assert_eq!(self.calls_of().unpaired(number), Unpaired::default(), "{function:?}");
        }
        assert_eq!(self.calls_of().lost(), 0);
    }
}

impl Results for Attachment<Exact> {
    fn calls_of(&self) -> &Calls<2, Exact> {
        self.0.get().unwrap()
    }
}

mod nested {
    use super::*;

    #[probe]
    pub fn outer() {
        spend(10);
        for n in 0..3 {
            inner(n);
        }
        spend(5);
    }

    #[probe]
    pub fn inner(n: u64) {
        spend(100 + n);
        leaf();
    }

    #[probe]
    pub fn leaf() {
        spend(7);
    }
}

#[test]
fn what_is_inside_is_not_its_callers() {
    let exact = attach("consumers::calls::nested::*");
    nested::outer();
    nested::inner(0);
    let outer = Measured { calls: 1, total: 339, busy: 339, elapsed: 339, own: 15, work: 2, depth: 1 };
    let inner = Measured { calls: 4, total: 431, busy: 431, elapsed: 431, own: 403, work: 4, depth: 7 };
    let leaf = Measured { calls: 4, total: 28, busy: 28, elapsed: 28, own: 28, work: 4, depth: 11 };
    let found = ["outer", "inner", "leaf"].map(|name| exact.of(&format!("consumers::calls::nested::{name}")));
    assert_eq!(found, [outer, inner, leaf]);
    exact.assert_all_paired();
}

mod recursive {
    use super::*;

    #[probe]
    pub fn sum(n: u64) -> u64 {
        spend(1);
        if n == 0 { 0 } else { n + sum(n - 1) }
    }
}

#[test]
fn the_innermost_call_ends_first() {
    let exact = attach("consumers::calls::recursive::sum");
    assert_eq!(recursive::sum(9), 45);
    let found = exact.of("consumers::calls::recursive::sum");
    assert_eq!((found.calls, found.total, found.own, found.depth), (10, 55, 10, 55));
    exact.assert_all_paired();
}

mod unwinding {
    use super::*;

    #[probe]
    pub fn outer() -> bool {
        spend(1);
        let caught = catch_unwind(|| middle(3)).is_err();
        spend(1);
        caught
    }

    #[probe(ret)]
    fn middle(n: u64) -> u64 {
        spend(10);
        panics(n) + 1
    }

    #[probe]
    fn panics(n: u64) -> u64 {
        spend(100);
        std::panic::resume_unwind(Box::new(n));
    }
}

#[test]
fn a_panic_ends_the_calls_that_it_passes() {
    let exact = attach("consumers::calls::unwinding::*");
    assert!(unwinding::outer());
    let of = |name: &str| exact.of(&format!("consumers::calls::unwinding::{name}"));
    assert_eq!((of("outer").total, of("outer").own), (112, 2));
    assert_eq!((of("middle").total, of("middle").own, of("panics").total), (110, 10, 100));
    exact.assert_all_paired();
}

mod switched {
    use super::*;

    #[probe]
    pub fn outer(within: &mut dyn FnMut()) {
        spend(1);
        within();
        inner(&mut || {});
    }

    #[probe]
    pub fn inner(within: &mut dyn FnMut()) {
        spend(10);
        within();
    }
}

#[test]
fn a_call_that_began_before_has_no_entry() {
    let _turn = turn();
    let mut exact = None;
    switched::outer(&mut || exact = Some(attach("consumers::calls::switched::*")));
    let exact = exact.unwrap();
    assert_eq!(
        exact.unpaired("consumers::calls::switched::outer"),
        Unpaired { without_entry: 1, ..Unpaired::default() }
    );
    assert_eq!(exact.of("consumers::calls::switched::outer"), Measured::default());
    assert_eq!(exact.of("consumers::calls::switched::inner").total, 10);
    switched::outer(&mut || ());
    assert_eq!(exact.of("consumers::calls::switched::outer").total, 11);
}

#[test]
fn a_call_that_spans_a_pause_is_not_paired() {
    let _turn = turn();
    let exact = attach("consumers::calls::switched::*");
    // Its exit falls into the pause, and the next exit is another call's.
    switched::outer(&mut || {
        assert!(exact.pause().refused() == 0);
    });
    assert!(exact.resume().refused() == 0);
    switched::outer(&mut || ());
    let once = Unpaired { without_exit: 1, ..Unpaired::default() };
    assert_eq!(exact.unpaired("consumers::calls::switched::outer"), once);
    assert_eq!(exact.of("consumers::calls::switched::outer").total, 11);
    // Both are seen; calls in between are not.
    switched::outer(&mut || {
        let _ = exact.pause();
        switched::inner(&mut || ());
        let _ = exact.resume();
    });
    let both = Unpaired { without_entry: 1, without_exit: 2, ..Unpaired::default() };
    assert_eq!(exact.unpaired("consumers::calls::switched::outer"), both);
    // `inner`: twice whole above, and once after it was resumed.
    assert_eq!(exact.of("consumers::calls::switched::inner").calls, 2);
}

#[test]
fn a_call_that_spans_a_hold_of_another_probe_is_not_paired() {
    let _turn = turn();
    let exact = attach("consumers::calls::switched::*");
    let inner = select("consumers::calls::switched::inner").unwrap();
    switched::outer(&mut || drop(inner.hold().unwrap()));
    let both = Unpaired { without_entry: 1, without_exit: 1, ..Unpaired::default() };
    assert_eq!(exact.unpaired("consumers::calls::switched::outer"), both);
    assert_eq!(exact.of("consumers::calls::switched::inner").calls, 1);
    // Other attachments are not disturbed.
    switched::outer(&mut || drop(select("consumers::calls::nested::*").unwrap().hold().unwrap()));
    assert_eq!(exact.of("consumers::calls::switched::outer").calls, 1);
}

mod deep {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn down(n: u64) -> u64 {
        if n == 0 {
            spend(1);
            return 0;
        }
        1 + down(n - 1)
    }
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    const ROOM: u64 = 8192;
    let exact = attach("consumers::calls::deep::down");
    let run = || thread::Builder::new().stack_size(64 << 20).spawn(|| deep::down(ROOM + 99)).unwrap().join();
    for times in 1..=2 {
        assert_eq!(run().unwrap(), ROOM + 99);
        assert_eq!(exact.of("consumers::calls::deep::down").calls, times * ROOM);
        assert_eq!(exact.calls_of().lost(), times * 100);
        assert_eq!(exact.unpaired("consumers::calls::deep::down"), Unpaired::default());
    }
}

mod partly {
    use super::*;

    #[probe]
    pub fn whole() {
        half();
    }

    #[probe]
    pub fn half() {}
}

#[test]
fn a_function_without_its_exit_is_left_out() {
    let exact = attach("consumers::calls::partly::whole, consumers::calls::partly::half kind=entry");
    partly::whole();
    assert_eq!(exact.of("consumers::calls::partly::whole").calls, 1);
    let left_out = exact.calls_of().left_out();
    let [left_out] = &left_out[..] else { panic!("{:?}", exact.calls_of()) };
    assert_eq!(left_out.missing, [Kind::Exit]);
    assert_eq!(
        left_out.to_string(),
        "consumers::calls::partly::half is left out: its exit was not selected, or the program does not have it"
    );
}

mod threads {
    use super::*;

    #[probe]
    pub fn work() {
        spend(3);
    }
}

#[test]
fn threads_come_and_go_and_their_sums_stay() {
    let exact = attach("consumers::calls::threads::work");
    for _ in 0..5 {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| threads::work()));
            }
        });
    }
    let found = exact.of("consumers::calls::threads::work");
    assert_eq!((found.calls, found.total), (20_000, 60_000));
    exact.assert_all_paired();
}

mod forked {
    use super::*;

    #[probe]
    pub fn work(within: &mut dyn FnMut()) {
        spend(4);
        within();
    }
}

#[cfg(unix)]
#[test]
fn a_child_goes_on_with_what_it_has() {
    let exact = attach("consumers::calls::forked::work");
    forked::work(&mut || ());
    // In the middle of a call, which ends in both.
    forked::work(&mut || {
        let status = in_a_child(|| {
            thread::spawn(|| forked::work(&mut || ())).join().unwrap();
            assert_eq!(exact.of("consumers::calls::forked::work").calls, 2);
            assert!(exact.pause().refused() == 0);
        });
        assert_eq!(status, 0);
    });
    assert_eq!(exact.of("consumers::calls::forked::work").total, 8);
    exact.assert_all_paired();
}
