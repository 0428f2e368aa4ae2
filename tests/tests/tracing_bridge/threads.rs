//! Spans of many threads: each thread leaves its spans in order, and every span is closed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use probe_runtime::tracing::tracing_core::dispatcher::with_default;
use probe_runtime::tracing::tracing_core::span::{Attributes, Id};
use probe_runtime::tracing::tracing_core::{Dispatch, Subscriber};
use probe_runtime::{Tracing, probe, select};
use probe_tests::turn::turn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Checks the order on each thread, and counts.
#[derive(Clone, Default)]
pub struct Checked(Arc<[AtomicU64; 3]>);

impl Checked {
    /// Spans that were made, left out of order, and closed.
    pub fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|at: usize| self.0[at].load(Relaxed))
    }

    pub fn subscriber(&self) -> Dispatch {
        Dispatch::new(Registry::default().with(self.clone()))
    }
}

thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Checked {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.0[0].fetch_add(1, Relaxed);
        // The span around it is the call around it, on this thread.
        let parent = context.span(id).and_then(|span| span.parent().map(|parent| parent.id()));
        let entered = ENTERED.with_borrow(|entered| entered.last().cloned());
        if parent != entered {
            self.0[1].fetch_add(1, Relaxed);
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let last = ENTERED.with_borrow_mut(Vec::pop);
        if last.as_ref() != Some(id) {
            self.0[1].fetch_add(1, Relaxed);
        }
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.0[2].fetch_add(1, Relaxed);
    }
}

#[probe(args(depth))]
#[inline(never)]
fn nest(depth: u32) {
    if depth > 1 {
        nest(depth - 1);
    }
}

const THREADS: u64 = 8;
const CALLS: u64 = 500;

#[test]
fn each_thread_leaves_what_it_entered() {
    let _turn = turn();
    nest(1);
    let shown = select("tracing_bridge::threads::nest").unwrap().attach(Tracing::new()).unwrap();
    let checked = Checked::default();
    let subscriber = checked.subscriber();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| with_default(&subscriber, || (0..CALLS).for_each(|_| nest(3))));
        }
    });
    assert_eq!(checked.counts(), [THREADS * CALLS * 3, 0, THREADS * CALLS * 3]);
    assert_eq!(shown.totals().unpaired, 0);
}

#[test]
fn a_span_belongs_to_the_subscriber_of_its_entry() {
    let _turn = turn();
    nest(1);
    let shown = select("tracing_bridge::threads::nest").unwrap().attach(Tracing::new()).unwrap();
    let [first, second] = [Checked::default(), Checked::default()];
    with_default(&first.subscriber(), || {
        nest(1);
        with_default(&second.subscriber(), || nest(2));
        nest(1);
    });
    drop(shown);
    assert_eq!((first.counts(), second.counts()), ([2, 0, 2], [2, 0, 2]));
}

/// Waits until the test continues.
#[probe]
#[inline(never)]
fn waits(turns: &Turns) {
    turns.inside.send(()).unwrap();
    turns.go_on.recv().unwrap();
}

/// How a call waits until the test continues.
struct Turns {
    inside: Sender<()>,
    go_on: Receiver<()>,
}

#[test]
fn a_consumer_that_ends_on_another_thread_leaves_its_spans_at_the_next_hit() {
    let _turn = turn();
    nest(1);
    let (inside, is_inside) = channel();
    let (go_on, goes_on) = channel();
    let turns = Turns { inside, go_on: goes_on };
    // The first call of a probe makes it known.
    go_on.send(()).unwrap();
    waits(&turns);
    is_inside.recv().unwrap();
    let [first, _second] = ["waits", "nest"].map(|name| {
        select(&format!("tracing_bridge::threads::{name}")).unwrap().attach(Tracing::new()).unwrap()
    });
    let checked = Checked::default();
    let subscriber = checked.subscriber();
    thread::scope(|scope| {
        let (checked, subscriber) = (&checked, &subscriber);
        let thread = scope.spawn(move || {
            with_default(subscriber, || {
                waits(&turns);
                // The span of the call before is not the parent of this one.
                nest(2);
                assert_eq!(checked.counts(), [3, 0, 3]);
            });
        });
        is_inside.recv().unwrap();
        drop(first);
        assert_eq!(checked.counts(), [1, 0, 0]);
        go_on.send(()).unwrap();
        thread.join().unwrap();
    });
}
