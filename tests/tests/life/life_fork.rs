//! Forks while consumers are attached that need a thread: the child leaves those behind, and says
//! so; all else continues, in both processes, with exact counts.
//! A process of its own: it forks, which is no good beside other tests' threads.
#![cfg(unix)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use probe_runtime::patch::{RefusalReason, Visibility};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Consumer, Count, Event, Kind, point, select};
use probe_tests::random::Random;
use probe_tests::scenario::in_a_child;
use probe_tests::stops::Stops;
use probe_tests::text::Text;

#[inline(never)]
fn work(x: u64) -> u64 {
    point!("work");
    x + 1
}

#[inline(never)]
fn lonely(x: u64) -> u64 {
    point!("lonely");
    x + 1
}

/// Hands each hit to a thread of its own.
struct Hands {
    calls: AtomicU64,
    to: Sender<()>,
}

impl Consumer for Hands {
    fn needs_thread(&self) -> bool {
        true
    }

    fn hit(&self, _event: &Event<'_>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.to.send(()).unwrap();
    }
}

/// Is as good in a child.
#[derive(Default)]
struct Calls(AtomicU64);

impl Consumer for Calls {
    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const LEFT_BEHIND: &str =
    "left behind in the parent of this forked process, with the thread that the consumer needs";

struct Attached {
    tally: Attachment<Count>,
    calls: Attachment<Calls>,
    hands: Attachment<Hands>,
    lonely: Attachment<Hands>,
}

fn child(Attached { tally, calls, hands, lonely: alone }: Attached, text: &Text) {
    let made = hands.calls.load(Ordering::Relaxed);
    // Nobody else listens there: its one site is latent already, before any operation; the other's
    // is active.
    let active = text.differences().len().div_ceil(5);
    assert_eq!(active, usize::from(cfg!(not(probe_portable))), "{:?}", text.differences());
    assert_eq!((hands.failure(), alone.failure()), (Some(LEFT_BEHIND), Some(LEFT_BEHIND)));
    assert_eq!((tally.failure(), calls.failure()), (None, None));
    for x in 0..5 {
        assert_eq!((work(x), lonely(x)), (x + 1, x + 1));
    }
    assert_eq!((hands.calls.load(Ordering::Relaxed), alone.calls.load(Ordering::Relaxed)), (made, 0));
    assert_eq!((tally.total(), calls.0.load(Ordering::Relaxed)), (made + 5, made + 5));
    assert_eq!((hands.suppressed(), calls.suppressed()), (0, 0));
    assert_eq!(
        (tally.probes()[0].state(), alone.probes()[0].state()),
        (ProbeState::Active, ProbeState::Held)
    );

    let refused = alone.resume();
    assert_eq!((refused.patched(), refused.refused()), (0, 1));
    assert_eq!(*refused.refusals()[0].reason(), RefusalReason::Failed);
    assert!(refused.to_string().contains("its consumer has failed"), "{refused}");
    assert_eq!(alone.detach().unchanged(), 1);
    drop(hands);

    // Its own, with a thread of its own, is as good as any.
    let (to, from) = channel();
    let own = select("life::life_fork::lonely").unwrap();
    let own = own.attach(Hands { calls: AtomicU64::new(0), to }).unwrap();
    let thread = thread::spawn(move || from.recv());
    lonely(1);
    assert_eq!(thread.join().unwrap(), Ok(()));
    assert_eq!((own.failure(), own.calls.load(Ordering::Relaxed)), (None, 1));
    drop((own, tally, calls));
    text.assert_as_in_file();
}

#[test]
fn the_child_leaves_behind_what_needs_a_thread() {
    let text = Text::of_this_process();
    let (to, from) = channel();
    let thread = thread::spawn(move || from.iter().count());
    let hands = |to: &Sender<()>| Hands { calls: AtomicU64::new(0), to: to.clone() };
    let work_set = select("life::life_fork::work").unwrap();
    let attached = Attached {
        tally: work_set.attach(Count::new()).unwrap(),
        calls: work_set.attach(Calls::default()).unwrap(),
        hands: work_set.attach(hands(&to)).unwrap(),
        lonely: select("life::life_fork::lonely").unwrap().attach(hands(&to)).unwrap(),
    };
    drop(to);
    work(1);
    let mut attached = Some(attached);
    assert_eq!(in_a_child(|| child(attached.take().unwrap(), &text)), 0, "its assertion is on stderr");
    let Attached { tally, calls, hands, lonely: alone } = attached.take().unwrap();

    assert_eq!((hands.failure(), alone.failure()), (None, None));
    assert_eq!((work(1), lonely(1)), (2, 2));
    assert_eq!((tally.total(), calls.0.load(Ordering::Relaxed)), (2, 2));
    assert_eq!((hands.calls.load(Ordering::Relaxed), alone.calls.load(Ordering::Relaxed)), (2, 1));
    assert_eq!((alone.pause().patched(), alone.resume().patched()), (1, 1));
    assert_eq!(alone.detach().patched(), 1);
    drop((hands, tally, calls));
    assert_eq!(thread.join().unwrap(), 3, "the child's hits are not among them");
    text.assert_as_in_file();
    forks_at_any_time(&text);
}

/// Forks while others attach, toggle, panic in consumers and hit.
fn forks_at_any_time(text: &Text) {
    let stop = AtomicBool::new(false);
    let tally = select("life::life_fork::work").unwrap().attach(Count::new()).unwrap();
    let (to, from) = channel();
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let thread = scope.spawn(move || from.iter().count());
        let toggler = scope.spawn(|| {
            let mut random = Random::new(7);
            while !stop.load(Ordering::Relaxed) {
                let visibility =
                    [Visibility::Synchronous, Visibility::Eventual][usize::from(random.below(2) == 0)];
                let set = select("life::life_fork::*").unwrap().visibility(visibility);
                let hands = set.attach(Hands { calls: AtomicU64::new(0), to: to.clone() }).unwrap();
                assert_eq!(hands.pause().refused() + hands.resume().refused(), 0);
                assert_eq!(hands.failure(), None);
                assert_eq!(hands.detach().refused(), 0);
            }
            drop(to);
        });
        let worker = scope.spawn(|| {
            let mut calls = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                assert_eq!((work(1), lonely(1)), (2, 2));
                calls += 1;
            }
            calls
        });
        for _ in 0..100 {
            let status = in_a_child(|| {
                let before = tally.total();
                assert_eq!((work(1), lonely(1)), (2, 2));
                assert_eq!(tally.total(), before + 1);
                let all = select("life::life_fork::*").unwrap().attach(Count::new()).unwrap();
                assert_eq!((work(1), lonely(1)), (2, 2));
                assert_eq!((all.total(), tally.total()), (2, before + 2));
                assert_eq!(all.counts().hits("life::life_fork::lonely", Kind::Point), Some(1));
            });
            assert_eq!(status, 0);
        }
        drop(stops);
        toggler.join().unwrap();
        // First the worker's end: its last hit may be on its way.
        let calls = worker.join().unwrap();
        assert_eq!(tally.total(), calls);
        thread.join().unwrap();
    });
    assert_eq!(tally.detach().patched(), 1);
    text.assert_as_in_file();
}
