//! Calls that are under way on several stacks of one thread, and calls inside of calls of the same
//! function.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use probe_runtime::profile::Budget;
use probe_runtime::tracing::tracing_core::span::{Attributes, Id, Record};
use probe_runtime::tracing::tracing_core::{Dispatch, Event, Metadata, Subscriber, dispatcher};
use probe_runtime::{CallTree, Latency, Profiler, Tracing, probe, select};
use probe_tests::turn::turn;

struct Contexts(UnsafeCell<[MaybeUninit<libc::ucontext_t>; 3]>);

// SAFETY: one test uses them, on its thread.
unsafe impl Sync for Contexts {}

/// The test's own context, and those of two coroutines.
static CONTEXTS: Contexts = Contexts(UnsafeCell::new([MaybeUninit::uninit(); 3]));

fn context(of: usize) -> *mut libc::ucontext_t {
    CONTEXTS.0.get().cast::<libc::ucontext_t>().wrapping_add(of)
}

fn switch(from: usize, to: usize) {
    // SAFETY: both contexts were filled before.
    assert_eq!(unsafe { libc::swapcontext(context(from), context(to)) }, 0);
}

#[probe]
#[inline(never)]
fn outer(from: usize, to: usize) {
    switch(from, to);
    black_box(());
}

const ROUNDS: u64 = 50;
/// The time that the second coroutine waits in each call but its last.
const PAUSE: Duration = Duration::from_micros(200);

extern "C" fn slow() {
    for _ in 0..ROUNDS {
        outer(1, 2);
        let start = Instant::now();
        while start.elapsed() < PAUSE {}
    }
    switch(1, 0);
}

extern "C" fn fast() {
    loop {
        outer(2, 1);
    }
}

fn play() {
    let mut stacks = [vec![0_u8; 128 << 10], vec![0_u8; 128 << 10]];
    for ((of, body), stack) in [(1, slow as extern "C" fn()), (2, fast)].into_iter().zip(&mut stacks) {
        // SAFETY: the context is filled before it is gone to; its stack lives until `slow` is back.
        unsafe {
            assert_eq!(libc::getcontext(context(of)), 0);
            let context = &mut *context(of);
            context.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            context.uc_stack.ss_size = stack.len();
            context.uc_link = super::stacks::context(0);
            libc::makecontext(context, body, 0);
        }
    }
    switch(0, 1);
}

#[test]
fn coroutines_end_their_own_calls() {
    let _turn = turn();
    let probes = select("consumers::stacks::outer").unwrap();
    let (latency, tree) = (probes.attach(Latency::new()).unwrap(), probes.attach(CallTree::new()).unwrap());
    let profiler = Profiler::new().stepped().budget(Budget::UNLIMITED);
    let profiler = probes.attach(profiler).unwrap();
    play();
    let latencies = latency.latencies();
    let of = &latencies[0];
    // The last call of `fast` is still under way.
    assert_eq!((of.calls(), of.unpaired().total()), (2 * ROUNDS - 1, 0));
    let pause = u64::try_from(PAUSE.as_nanos()).unwrap();
    // Its time is within 1.6 % in the histogram.
    let long: u64 =
        { of.buckets() }.iter().filter(|(time, _)| *time >= pause * 98 / 100).map(|it| it.1).sum();
    assert!(long >= ROUNDS - 1, "{latencies}");
    // No call is inside of another one: the caller is the coroutine's body.
    assert!(of.total() >= (ROUNDS - 1) * pause, "{latencies}");
    let tree = tree.tree();
    assert_eq!((tree.len(), tree[0].calls(), tree[0].recursive_calls()), (1, 2 * ROUNDS - 1, 0), "{tree}");
    let profile = profiler.profile();
    let of = profile.function("consumers::stacks::outer").unwrap();
    let (total, own) = (of.total().unwrap(), of.own().unwrap());
    // Both calls of each pair are open at once.
    let (least, most) = ((ROUNDS - 1) * pause, 2 * latencies[0].total());
    let is_about = |time: f64| (least as f64..most as f64).contains(&time);
    assert_eq!((of.calls().value, of.samples()), ((2 * ROUNDS) as f64, 2 * ROUNDS - 1), "{profile}");
    assert!(is_about(total.value - total.error) && is_about(own.value - own.error), "{profile}");
}

/// Writes down the numbers of spans in the order in which they end.
#[derive(Clone, Default)]
struct Ended(Arc<(AtomicU64, Mutex<Vec<u64>>)>);

impl Subscriber for Ended {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.0.fetch_add(1, Relaxed) + 1)
    }

    fn try_close(&self, id: Id) -> bool {
        self.0.1.lock().unwrap().push(id.into_u64());
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn spans_of_coroutines_end_with_their_own_calls() {
    let _turn = turn();
    let tracing = select("consumers::stacks::outer").unwrap().attach(Tracing::new()).unwrap();
    let ended = Ended::default();
    dispatcher::with_default(&Dispatch::new(ended.clone()), play);
    // Each call lets the other coroutine continue, whose call began before.
    let calls = 2 * ROUNDS - 1;
    assert_eq!(*ended.0.1.lock().unwrap(), (1..=calls).collect::<Vec<_>>());
    assert_eq!((tracing.totals().spans, tracing.totals().unpaired), (calls + 1, 0));
}

#[probe]
#[inline(never)]
fn nested(depth: u64) -> u64 {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(20) {}
    if depth == 0 { 0 } else { 1 + nested(depth - 1) }
}

#[test]
fn a_recursion_counts_once_in_the_total() {
    let _turn = turn();
    let latency = select("consumers::stacks::nested").unwrap().attach(Latency::new()).unwrap();
    assert_eq!(nested(40), 40);
    let first = latency.latencies();
    // One outermost call, which is the longest.
    assert_eq!((first[0].calls(), first[0].total(), first[0].unpaired().total()), (41, first[0].max(), 0));
    // The mean is that of all calls.
    assert!(first[0].mean() * 41 > 10 * first[0].total(), "{first}");
    assert!(first[0].own() <= first[0].total(), "{first}");
    assert_eq!(nested(5), 5);
    let since = latency.latencies().since(&first);
    assert_eq!(since[0].calls(), 6);
    assert!(since[0].total() < since[0].mean() * 6 && since[0].total() >= 6 * 20_000, "{since}");
}
