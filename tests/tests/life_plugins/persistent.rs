//! Probes of plugins that are loaded after a persistent attachment was made.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::latency::FunctionLatency;
use probe_runtime::registry::{ProbeState, discover_probes};
use probe_runtime::spec::register;
use probe_runtime::{
    CallTree, Consumer, Count, Error, Event, Kind, Latency, ProbeSet, Slow, Trace, Tracing, Trigger,
    init_from_env, select, select_persistent,
};
use probe_tests::joined::Joined;
use probe_tests::library::Library;
use probe_tests::stops::Stops;
use probe_tests::text::Text;

use super::{own, plugin};

/// The hits of `plugin_sum(n)`: entry, exit and point of `each`, and entry and exit of itself.
fn hits_of(n: u64) -> u64 {
    3 * n + 2
}

/// Probes join counts; they come, go and come back.
pub(super) fn counted() {
    let nothing = select("plugin::**").unwrap_err();
    assert!(matches!(nothing, Error::NoMatch { .. }), "{nothing}");
    let hits = select_persistent("plugin::**, **::nowhere").unwrap().attach(Count::new()).unwrap();
    let plain = select("**::own").unwrap().attach(Count::new()).unwrap();
    let paused = select_persistent("plugin::each").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().unmatched().len(), hits.probes().len()), (0, 2, 0));
    assert_eq!(paused.pause().patched(), 0);

    let library = Library::open(&plugin("plugin"));
    let sum = library.function("plugin_sum");
    assert_eq!(sum(7), 28);
    assert_eq!(hits.late_report().patched(), 5, "it notices the plugin, and the probes join first");
    assert_eq!((hits.total(), hits.probes().len(), hits.left_out_later()), (0, 5, None));
    assert_eq!(sum(10), 55);
    assert_eq!((hits.total(), hits.counts().hits("plugin::each", Kind::Entry)), (hits_of(10), Some(10)));
    assert_eq!((paused.total(), paused.resume().refused()), (0, 0));
    assert_eq!(sum(2), 3);
    assert_eq!((hits.total(), paused.total()), (hits_of(10) + hits_of(2), 4));
    assert_eq!((hits.pause().patched(), sum(1), hits.total()), (3, 1, hits_of(10) + hits_of(2)));
    assert_eq!((hits.resume().patched(), sum(1), paused.total()), (3, 1, 8));
    let before = hits_of(10) + hits_of(2) + hits_of(1);
    library.close();
    discover_probes();
    assert_eq!(hits.total(), before, "counts of an unloaded plugin stay");
    assert!(hits.probes().iter().all(|probe| probe.state() == ProbeState::Unloaded));

    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(3), 6);
    assert_eq!((hits.total(), hits.probes().len()), (before + hits_of(3), 5));
    // Selected while it is unloaded, attached afterwards.
    library.close();
    let set = select_persistent("plugin::each kind=exit").unwrap();
    assert!(set.is_empty() && set.room() > 0);
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    let exits = set.attach(Count::new()).unwrap();
    assert_eq!(library.function("plugin_sum")(4), 10);
    assert_eq!((exits.total(), plain.total()), (4, 0));
    drop((hits, paused));
    assert_eq!((library.function("plugin_sum")(1), exits.total()), (1, 5));
    assert_eq!((exits.detach().patched(), plain.detach().patched()), (1, 2));
    library.close();
    Text::of_this_process().assert_as_in_file();
}

/// Each consumer gets ready for probes that join.
pub(super) fn each_consumer() {
    let selector = "plugin::**, **::own";
    let set = || select_persistent(selector).unwrap();
    let latency = set().attach(Latency::new()).unwrap();
    let tree = set().attach(CallTree::new()).unwrap();
    let _trigger = set().attach(Trigger::over(Duration::from_secs(3600), |_| ())).unwrap();
    let slow = set().attach(Slow::over(Duration::ZERO).at_most(0)).unwrap();
    let bridge = set().attach(Tracing::new()).unwrap();
    let flight = set().attach(Trace::recorder()).unwrap();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = |ending: &str| folder.join(format!("persistent-{}.{ending}", std::process::id()));
    let (native, perfetto) = (file("probetrace"), file("pftrace"));
    let to_native = set().attach(Trace::to_file(&native)).unwrap();
    let to_perfetto = set().attach(Trace::to_file(&perfetto)).unwrap();
    own(1);
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!((library.function("plugin_sum")(5), own(1)), (15, 2));

    let calls = |path: &str| latency.latencies().function(path).map(FunctionLatency::calls);
    assert_eq!(["plugin::each", "life_plugins::own"].map(calls), [Some(5), Some(2)]);
    assert_eq!((latency.latencies().left_out().len(), latency.left_out_later()), (0, None));
    let text = tree.to_string();
    assert!(text.contains("plugin::each") && text.contains("life_plugins::own"), "{text}");
    let measured = slow.slow_calls();
    let seen: Vec<_> = measured.iter().map(|it| (it.path(), it.calls(), it.slow())).collect();
    assert_eq!(seen, [("plugin::each", 5, 5), ("life_plugins::own", 2, 2), ("plugin::plugin_sum", 1, 1)]);
    assert_eq!((measured.unsaid(), measured.lost(), measured.left_out().len()), (8, 0, 0));
    assert_eq!(slow.left_out_later(), None);
    assert_eq!((bridge.totals().unpaired, bridge.totals().disabled), (0, 2 + 5 + 1 + 5));

    let events = 2 * 2 + hits_of(5);
    assert_eq!((flight.totals().written, flight.left_out_later()), (events, None));
    let snapshot = file("snapshot.probetrace");
    flight.snapshot(&snapshot).unwrap();
    drop((to_native, to_perfetto));
    for path in [&native, &snapshot] {
        let mut trace = probe_trace::Trace::open(&[path]).unwrap();
        let mut of_each = 0;
        let mut all = 0_u64;
        for item in trace.items() {
            let probe_trace::Item::Event(event) = item.unwrap() else { continue };
            let definition = &event.definition;
            all += 1;
            of_each += u64::from(definition.path.ends_with("plugin::each"));
        }
        assert_eq!((all, of_each), (events, 2 * 5), "{}", path.display());
    }
    let bytes = fs::read(&perfetto).unwrap();
    let has = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(has("each") && has("own"));
    [native, perfetto, snapshot].iter().for_each(|path| fs::remove_file(path).unwrap());
    library.close();
}

/// The program makes no operation once the variable is read.
pub(super) fn by_themselves() {
    register::<Joined>().unwrap();
    let guard = init_from_env().unwrap();
    let library = Library::open(&plugin("plugin"));
    let begun = Instant::now();
    while Joined::hits() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "its probes do not join");
        assert_eq!(library.function("plugin_sum")(2), 3);
        thread::yield_now();
    }
    assert_eq!(library.function("plugin_sum")(2), 3);
    library.close();
    drop(guard);
    assert!(Joined::hits() >= 3);
}

/// Tells how often it was asked to join, and refuses if told to.
#[derive(Default)]
struct Joining {
    asked: AtomicU64,
    seen: AtomicU64,
    hits: AtomicU64,
    refuses: AtomicBool,
    panics: AtomicBool,
}

impl Consumer for Joining {
    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.seen.store(probes.len() as u64, Ordering::Relaxed);
        // It may use this crate.
        discover_probes();
        assert!(!self.panics.load(Ordering::Relaxed), "as asked");
        if self.refuses.load(Ordering::Relaxed) { Err(Error::Consumer("no room".into())) } else { Ok(()) }
    }

    fn hit(&self, _event: &Event<'_>) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn refused() {
    for (panics, reason) in [(false, "no room"), (true, "the consumer panicked")] {
        let set = select_persistent("plugin::**, **::own").unwrap();
        let consumer = set.attach(Joining::default()).unwrap();
        consumer.refuses.store(true, Ordering::Relaxed);
        consumer.panics.store(panics, Ordering::Relaxed);
        let library = Library::open(&plugin("plugin"));
        discover_probes();
        assert_eq!((library.function("plugin_sum")(3), own(1)), (6, 2));
        let left_out = consumer.left_out_later();
        assert_eq!(left_out, Some(format!("5 probes that appeared later are left out: {reason}")));
        assert_eq!((consumer.hits.load(Ordering::Relaxed), consumer.probes().len()), (2, 2));
        assert_eq!([&consumer.asked, &consumer.seen].map(|it| it.load(Ordering::Relaxed)), [1, 5]);
        library.close();
    }
}

/// Threads hit, and make and drop persistent attachments, while a plugin comes and goes.
pub(super) fn running() {
    let hits = select_persistent("plugin::**, **::own kind=entry").unwrap().attach(Count::new()).unwrap();
    let latency = select_persistent("plugin::**, **::own").unwrap().attach(Latency::new()).unwrap();
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut sums, mut last) = (0, 0);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    own(1);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let consumer = Arc::new(Joining::default());
                let weak = Arc::downgrade(&consumer);
                let attached = select_persistent("plugin::each").unwrap().attach(consumer).unwrap();
                discover_probes();
                drop(attached);
                assert_eq!(Weak::strong_count(&weak), 0, "dropped by the end of detaching");
            }
        });
        for _ in 0..60 {
            let library = Library::open(&plugin("plugin"));
            discover_probes();
            assert_eq!(library.function("plugin_sum")(2), 3);
            sums += 1;
            last = sums;
            library.close();
        }
        drop(stops);
    });
    let of = |path| hits.counts().hits(path, Kind::Entry);
    assert_eq!(of("life_plugins::own"), Some(calls.load(Ordering::Relaxed)));
    assert_eq!((of("plugin::each"), last), (Some(2 * sums), 60));
    let measured = latency.latencies();
    assert_eq!(measured.function("plugin::each").map(FunctionLatency::calls), Some(2 * sums));
    assert_eq!((hits.left_out_later(), latency.left_out_later()), (None, None));
    drop((hits, latency));
    Text::of_this_process().assert_as_in_file();
}

/// A forked child's probes join there.
pub(super) fn forked() {
    let hits = select_persistent("plugin::**").unwrap().attach(Count::new()).unwrap();
    // SAFETY: the child calls the runtime and the dynamic linker alone, from its only thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let library = Library::open(&plugin("plugin"));
        discover_probes();
        let is_right = library.function("plugin_sum")(2) == 3 && hits.total() == hits_of(2);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((status, hits.total()), (0, 0));
}
