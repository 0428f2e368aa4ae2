//! Profilers with a thread of their own, whose functions come with a plugin.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::perf::{FunctionEvents, PerfEvent};
use probe_runtime::profile::{Budget, Estimated};
use probe_runtime::registry::discover_probes;
use probe_runtime::spec::Spec;
use probe_runtime::{Perf, Profiler, select_persistent};
use probe_tests::library::Library;
use probe_tests::text::Text;

use super::{own, plugin};

thread_local! {
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

/// Counts one event more at each reading of a thread.
fn readings(event: PerfEvent) -> Result<u64, i32> {
    if event != PerfEvent::TaskClock {
        return Err(libc::ENOENT);
    }
    READINGS.set(READINGS.get() + 1);
    Ok(READINGS.get())
}

/// Plays until the profiler's thread has admitted the function, whose calls are each timed then.
/// Returns how often it has played.
fn until_timed(play: impl Fn(), samples: impl Fn() -> u64) -> u64 {
    let (start, mut times) = (Instant::now(), 0);
    while samples() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "no call is timed");
        play();
        times += 1;
        thread::yield_now();
    }
    times
}

/// Waits until the profiler's thread has admitted the function.
fn until_admitted(calls: impl Fn() -> Estimated) -> Estimated {
    let start = Instant::now();
    loop {
        let known = calls();
        if !known.is_at_least() {
            return known;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{known:?}");
        thread::yield_now();
    }
}

pub(super) fn joined() {
    let set = || select_persistent("plugin::**, **::own").unwrap();
    let each = set().attach(Profiler::new().budget(Budget::UNLIMITED)).unwrap();
    let within = set().attach(Profiler::new().budget(Budget::percent(50.0))).unwrap();
    let events = Perf::new().with_counts(readings).budget(Budget::UNLIMITED);
    let events = set().attach(events).unwrap();
    // As `PROBES` and `probectl` attach.
    let named = "plugin::each=profile(budget=50%)".parse::<Spec>().unwrap().attach().unwrap();
    own(1);
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    let sum = library.function("plugin_sum");
    let known = |it: &Profiler| it.profile().function("plugin::each").cloned();
    let samples = |it: &Profiler| known(it).map_or(0, |it| it.samples());
    let times = until_timed(|| assert_eq!(sum(5), 15), || samples(&each));
    let counted = || events.event_counts().function("plugin::each").map_or(0, FunctionEvents::counted);
    let more = until_timed(|| assert_eq!(sum(5), 15), counted);
    let calls = |it: &Profiler| until_admitted(|| known(it).unwrap().calls());
    let all = Estimated { value: 5.0 * (times + more) as f64, error: 0.0 };
    assert_eq!([calls(&each), calls(&within)], [all; 2]);
    let counts = events.event_counts();
    let of_each = counts.function("plugin::each").unwrap();
    assert_eq!(of_each.calls(), all);
    // A call's two hits read it once each.
    assert_eq!(of_each.total(PerfEvent::TaskClock), Some(of_each.counted()));
    let text = within.to_string();
    assert!(text.contains("plugin::each") && text.contains("life_plugins::own"), "{text}");
    assert_eq!(calls(named[0].attachment::<Profiler>().unwrap()), all);
    assert_eq!([each.left_out_later(), within.left_out_later(), events.left_out_later()], [None, None, None]);

    // Unloaded and loaded again, it is the same function.
    library.close();
    discover_probes();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(3), 6);
    let again = Estimated { value: all.value + 3.0, ..all };
    assert_eq!([calls(&each), calls(&within)], [again; 2]);
    assert_eq!(each.profile().len(), 3);
    drop((each, within, events, named));
    library.close();
    Text::of_this_process().assert_as_in_file();
}
