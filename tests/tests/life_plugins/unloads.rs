//! A plugin that is unloaded before any step of any consumer, and at any moment.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::consumer::{DeliveryMode, Start};
use probe_runtime::control::Switch;
use probe_runtime::latency::FunctionLatency;
use probe_runtime::metrics::Exporter;
use probe_runtime::perf::PerfEvent;
use probe_runtime::profile::Budget;
use probe_runtime::registry::{ProbeId, discover_probes};
use probe_runtime::spec::attach_spec;
use probe_runtime::{
    Aggregate, Attachment, CallTree, Consumer, Count, Error, Event, Latency, Perf, ProbeSet, Profiler, Slow,
    Trace, Tracing, Trigger, probes, select, select_persistent,
};
use probe_tests::c_library;
use probe_tests::folder::Folder;
use probe_tests::instrumented::{shared, source};
use probe_tests::library::{Library, is_mapped};
use probe_tests::stops::Stops;
use probe_tests::text::Text;

use super::{churn, own, plugin};

/// A step of a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Prepare,
    Start,
    Attached,
    Join,
    StartLate,
}

/// Unloads a plugin before a step of its consumer, as another thread may.
struct Unloading<C> {
    consumer: C,
    step: Step,
    library: Mutex<Option<Library>>,
    /// Whether the plugin comes back after the step, once.
    is_to_return: AtomicBool,
    returned: Mutex<Option<Library>>,
    is_attached: AtomicBool,
    hits: AtomicU64,
}

impl<C: Consumer> Unloading<C> {
    fn new(consumer: C, step: Step) -> Self {
        let (library, is_to_return, returned) = Default::default();
        Self { consumer, step, library, is_to_return, returned, is_attached: false.into(), hits: 0.into() }
    }

    fn hold(&self, library: Library) {
        *self.library.lock().unwrap() = Some(library);
    }

    fn before(&self, step: Step) {
        if step == self.step {
            self.library.lock().unwrap().take().into_iter().for_each(Library::close);
        }
    }

    fn after(&self, step: Step) {
        if step == self.step && self.is_to_return.swap(false, Ordering::Relaxed) {
            discover_probes();
            *self.returned.lock().unwrap() = Some(Library::open(&plugin("plugin")));
            discover_probes();
        }
    }
}

impl<C: Consumer> Consumer for Unloading<C> {
    fn delivery_mode(&self) -> DeliveryMode {
        self.consumer.delivery_mode()
    }

    fn needs_thread(&self) -> bool {
        self.consumer.needs_thread()
    }

    fn needs_order(&self) -> bool {
        self.consumer.needs_order()
    }

    fn pairs_calls(&self) -> bool {
        self.consumer.pairs_calls()
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.before(Step::Prepare);
        self.consumer.prepare(probes)?;
        self.after(Step::Prepare);
        Ok(())
    }

    fn start(&self, probe: ProbeId) -> Start {
        let is_late = self.is_attached.load(Ordering::Relaxed);
        self.before(if is_late { Step::StartLate } else { Step::Start });
        self.consumer.start(probe)
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.before(Step::Attached);
        self.is_attached.store(true, Ordering::Relaxed);
        self.consumer.attached(switch)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.before(Step::Join);
        self.consumer.join(probes)?;
        self.after(Step::Join);
        Ok(())
    }

    fn hit(&self, event: &Event<'_>) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.consumer.hit(event);
    }
}

fn calls() -> ProbeSet {
    select_persistent("plugin::** kind=entry|exit, life_plugins::own").unwrap()
}

/// Attaches a consumer, and unloads the plugin before one of its steps.
fn unload_before<C: Consumer>(step: Step, consumer: C) -> Attachment<Unloading<C>> {
    let consumer = Unloading::new(consumer, step);
    let is_first = matches!(step, Step::Prepare | Step::Start | Step::Attached);
    if is_first {
        consumer.hold(Library::open(&plugin("plugin")));
    }
    let attached = calls().attach(consumer).unwrap();
    if !is_first {
        attached.hold(Library::open(&plugin("plugin")));
        discover_probes();
    }
    assert!(!is_mapped(&plugin("plugin")), "{step:?}");
    attached
}

/// Plays each step. All hits are delivered or counted, also those of the plugin that comes back,
/// and the consumer has its calls.
fn unload_before_each<C: Consumer>(name: &str, make: impl Fn() -> C, has_calls: impl Fn(&C) -> bool) {
    for step in [Step::Prepare, Step::Start, Step::Attached, Step::Join, Step::StartLate] {
        let attached = unload_before(step, make());
        assert_eq!(own(1), 2);
        let library = Library::open(&plugin("plugin"));
        discover_probes();
        assert_eq!(library.function("plugin_sum")(2), 3);
        // Two of each call: of `own`, of the function that the test calls, and of each that it
        // calls.
        let hits = attached.hits.load(Ordering::Relaxed) + attached.counts().total();
        // A profiler may have switched its probes off, since calls in its windows are enough.
        let is_exact = !["profile", "perf"].contains(&name);
        assert!(if is_exact { hits == 8 } else { hits <= 8 }, "{name}, {step:?}: {hits}");
        assert!(has_calls(&attached.consumer), "{name}, {step:?}");
        assert_eq!(attached.left_out_later(), None, "{name}, {step:?}");
        library.close();
        // The attachment reads its own data of a plugin that is gone again.
        assert_eq!(attached.probes().len(), 6, "{name}, {step:?}");
        assert_eq!(attached.detach().refused(), 0, "{name}, {step:?}");
    }
}

/// The plugin comes back before its probes are attached, which the consumer has not seen.
pub(super) fn and_back() {
    for step in [Step::Prepare, Step::Join] {
        let consumer = Unloading { is_to_return: true.into(), ..Unloading::new(Latency::new(), step) };
        let library = Library::open(&plugin("plugin"));
        let attached = if step == Step::Prepare {
            consumer.hold(library);
            calls().attach(consumer).unwrap()
        } else {
            let set = select_persistent("plugin::** kind=entry|exit").unwrap();
            library.close();
            discover_probes();
            let attached = set.attach(consumer).unwrap();
            attached.hold(Library::open(&plugin("plugin")));
            discover_probes();
            attached
        };
        let library = attached.returned.lock().unwrap().take().unwrap();
        assert_eq!(library.function("plugin_sum")(2), 3);
        let measured = attached.consumer.latencies();
        let calls = measured.function("plugin::each").map(FunctionLatency::calls);
        assert_eq!((calls, attached.left_out_later()), (Some(2), None), "{step:?}");
        drop(attached);
        library.close();
    }
}

fn readings(event: PerfEvent) -> Result<u64, i32> {
    if event == PerfEvent::TaskClock { Ok(0) } else { Err(libc::ENOENT) }
}

pub(super) fn before_each_step() {
    // Keeps its probes' names, and has counting blocks.
    let all = calls().attach(Count::new()).unwrap();
    unload_before_each("count", Count::new, |_| true);
    unload_before_each("own", || |_: &Event<'_>| (), |_| true);
    unload_before_each("latency", Latency::new, |it| {
        it.latencies().function("plugin::each").map(FunctionLatency::calls) == Some(2)
    });
    unload_before_each(
        "slow",
        || Slow::over(Duration::ZERO).at_most(0),
        |it| it.slow_calls().iter().any(|it| (it.path(), it.slow()) == ("plugin::each", 2)),
    );
    unload_before_each("call-tree", CallTree::new, |it| it.tree().to_string().contains("plugin::each"));
    unload_before_each(
        "sum",
        || Aggregate::new("latency").unwrap(),
        |it| it.groups().iter().any(|group| (group.path(), group.count()) == ("plugin::each", 2)),
    );
    unload_before_each("trace", Trace::recorder, |_| true);
    // Spans for which there is no subscriber.
    unload_before_each("tracing", Tracing::new, |it| (it.totals().disabled, it.totals().unpaired) == (4, 0));
    unload_before_each("trigger", || Trigger::over(Duration::from_secs(3600), |_| ()), |_| true);
    unload_before_each("profile", Profiler::new, |it| it.profile().function("plugin::each").is_some());
    unload_before_each(
        "perf",
        || Perf::new().with_counts(readings).budget(Budget::percent(1.0)),
        |it| it.event_counts().function("plugin::each").is_some(),
    );
    assert_eq!(all.total(), 11 * 5 * 8);
    drop(all);
    Text::of_this_process().assert_as_in_file();
}

const TEXTS: [&str; 8] = [
    "**=count", "**=latency", "**=slow(over=1h)", "**=call-tree", "**=profile", "**=perf",
    "**=trace(flight)", "**[latency >= 0s]=count",
];

/// Attaches each consumer, reads it, and detaches it.
fn attach_each(exporter: &Exporter) -> u64 {
    let set = || select_persistent("**").unwrap();
    for text in TEXTS {
        match attach_spec(text) {
            Ok(all) => {
                discover_probes();
                assert!(!all.to_string().is_empty(), "{text}");
                assert!(!all[0].to_json().is_empty(), "{text}");
            }
            // The kernel may count no events here.
            Err(error) => assert!(text.ends_with("=perf"), "{text}: {error}"),
        }
    }
    let watched = exporter.watch(set().attach(Latency::new()).unwrap());
    let counted = exporter.watch(set().attach(Count::new()).unwrap());
    let sums = set().attach(Aggregate::new("latency by(thread)").unwrap()).unwrap();
    let above = set().attach_if(&"latency >= 0s".parse().unwrap(), Count::new()).unwrap();
    let bridge = set().attach(Tracing::new()).unwrap();
    let trigger = set().attach(Trigger::over(Duration::from_secs(3600), |_| ())).unwrap();
    let told = set().attach(|event: &Event<'_>| assert_ne!(event.path(), "")).unwrap();
    assert!(exporter.collect().to_prometheus().contains("probe_hits_total"));
    assert!(!sums.to_string().is_empty() && !above.to_string().is_empty());
    assert_eq!((told.failure(), bridge.failure(), trigger.failure()), (None, None, None));
    assert!(!watched.probes().is_empty() && !counted.probes().is_empty());
    1
}

/// C with a hand-placed probe, which is a point.
const POINTS: &str = r#"
#include <stdint.h>
#include "probe.h"
uint64_t call(uint64_t x) {
    PROBE_I64("called", x);
    return x + 1;
}
"#;

/// C whose functions are discovered.
const HOOKS: &str = r"
#include <stdint.h>
static uint64_t __attribute__((noinline)) inner(uint64_t x) { return x + 1; }
uint64_t call(uint64_t x) { return inner(x); }
";

/// Threads load and unload plugins of each kind, while others attach all consumers to all probes.
pub(super) fn at_any_moment() {
    let folder = Folder::new("unloads");
    let points = folder.join("points.so");
    let text = source(&folder, "points.c", POINTS);
    c_library::compile("gcc", &["-shared", "-fPIC", "-O2"], &[&text], &points);
    let hooks = shared("gcc", &source(&folder, "hooks.c", HOOKS), "hooks.so", &["-O2"]);
    let plugins = [(plugin("plugin"), "plugin_sum"), (points, "call"), (hooks, "call")];
    let hits = select_persistent("life_plugins::own kind=entry").unwrap().attach(Count::new()).unwrap();
    let (stop, end, exporter) = (AtomicBool::new(false), Instant::now() + churn::time(), Exporter::new());
    let own_calls = thread::scope(|scope| {
        let stops = Stops(&stop);
        let loaders = plugins.each_ref().map(|(path, function)| {
            let stop = &stop;
            scope.spawn(move || {
                let mut loads = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let library = Library::open(path);
                    let function = library.function(function);
                    (0..loads % 4).for_each(|_| _ = function(2));
                    library.close();
                    assert_eq!(own(loads), loads + 1);
                    loads += 1;
                }
                loads
            })
        });
        let lister = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let own = probes().into_iter().filter(|probe| probe.path() == "life_plugins::own");
                assert_eq!(own.count(), 2);
                assert_eq!(select("life_plugins::own, **::nowhere").unwrap().len(), 2);
            }
        });
        // It has a thread of its own, which reads probes at any time.
        let profiler = scope.spawn(|| {
            let mut profilers = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                drop(select_persistent("**").unwrap().attach(Profiler::new()).unwrap());
                profilers += 1;
            }
            profilers
        });
        let mut rounds = 0;
        while rounds == 0 || Instant::now() < end {
            rounds += attach_each(&exporter);
        }
        drop(stops);
        lister.join().unwrap();
        let loads = loaders.map(|loader| loader.join().unwrap());
        let profilers = profiler.join().unwrap();
        println!("{rounds} rounds, {profilers} profilers, {loads:?} loads");
        loads.into_iter().sum::<u64>()
    });
    assert_eq!(hits.total(), own_calls);
    drop(hits);
    Text::of_this_process().assert_as_in_file();
}
