//! `Perf` with event counts that the test sets, so that every sum is known on any machine: calls,
//! recursion, panics, futures, threads, missing events, sampling, and the text of reports.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::{panic, thread};

use probe_runtime::perf::PerfEvent::{
    BranchMisses, CacheMisses, ContextSwitches, Cycles, Instructions, PageFaults, TaskClock,
};
use probe_runtime::perf::{EventCounts, NoEvents, PerfEvent};
use probe_runtime::profile::{Budget, Estimated};
use probe_runtime::{Attachment, Error, Perf, Profiler, probe, select};

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;

thread_local! {
    /// The counts of this thread.
    static NOW: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    /// Whether it can't be read any more.
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// Some work: cycles, and instructions.
fn work(cycles: u64, instructions: u64) {
    let [had_cycles, had_instructions] = NOW.get();
    NOW.set([had_cycles + cycles, had_instructions + instructions]);
}

/// A machine with two counters.
fn two(event: PerfEvent) -> Result<u64, i32> {
    match event {
        _ if IS_BROKEN.get() => Err(EMFILE),
        Cycles => Ok(NOW.get()[0]),
        Instructions => Ok(NOW.get()[1]),
        _ => Err(ENOENT),
    }
}

fn attach(selector: &str) -> Attachment<Perf> {
    select(selector).unwrap().attach(Perf::new().with_counts(two)).unwrap()
}

fn exactly(calls: u32) -> Estimated {
    Estimated { value: calls.into(), error: 0.0 }
}

/// Calls; cycles in all and in the function itself; the same of instructions.
fn of(counts: &EventCounts, path: &str) -> [u64; 5] {
    let it = counts.function(path).unwrap();
    let sums = [it.total(Cycles), it.own(Cycles), it.total(Instructions), it.own(Instructions)];
    let [a, b, c, d] = sums.map(Option::unwrap);
    [it.counted(), a, b, c, d]
}

mod nested {
    use super::work;

    #[probe_runtime::probe]
    pub fn outer(depth: u32) {
        work(10, 20);
        inner();
        if depth != 0 {
            outer(depth - 1);
        }
        work(1, 3);
        inner();
    }

    #[probe_runtime::probe]
    pub fn inner() {
        work(100, 50);
    }
}

#[test]
fn what_is_inside_is_not_the_function_s_own() {
    let perf = attach("consumers::perf::nested::*");
    nested::outer(0);
    let counts = perf.event_counts();
    assert_eq!(of(&counts, "consumers::perf::nested::outer"), [1, 211, 11, 123, 23]);
    assert_eq!(of(&counts, "consumers::perf::nested::inner"), [2, 200, 200, 100, 100]);
    // Inside of itself it counts twice; its own is counted once.
    nested::outer(1);
    let counts = perf.event_counts();
    assert_eq!(of(&counts, "consumers::perf::nested::outer"), [3, 211 + 422 + 211, 33, 123 + 246 + 123, 69]);
    assert_eq!(of(&counts, "consumers::perf::nested::inner"), [6, 600, 600, 300, 300]);
    let inner = counts.function("consumers::perf::nested::inner").unwrap();
    assert_eq!((inner.calls(), inner.uncounted(), inner.unpaired().total()), (exactly(6), 0, 0));
    assert_eq!((inner.mean(Cycles), inner.mean_own(Instructions)), (Some(100.0), Some(50.0)));
    assert_eq!((inner.ipc(), inner.total(CacheMisses), inner.mean(TaskClock)), (Some(0.5), None, None));
    assert_eq!(counts.events().collect::<Vec<_>>(), [Cycles, Instructions]);
    let missing: Vec<_> = counts.missing().iter().map(|it| (it.event(), it.error())).collect();
    assert_eq!(missing, [(CacheMisses, ENOENT), (BranchMisses, ENOENT)]);
    assert_eq!((counts.share().to_bits(), counts.threads_without_events()), (1.0_f64.to_bits(), 0));
    assert!(!counts.takes_system_calls() && counts.lost() == 0 && counts.left_out().is_empty());
}

mod threads {
    use super::work;

    #[probe_runtime::probe]
    pub fn each(n: u64) {
        work(n, 2 * n);
    }
}

#[test]
fn threads_add_up() {
    let perf = attach("consumers::perf::threads::*");
    thread::scope(|scope| {
        for n in 1..=4 {
            scope.spawn(move || (0..1000).for_each(|_| threads::each(n)));
        }
    });
    assert_eq!(
        of(&perf.event_counts(), "consumers::perf::threads::each"),
        [4000, 10_000, 10_000, 20_000, 20_000]
    );
}

mod panics {
    use super::work;

    #[probe_runtime::probe]
    pub fn outer() {
        work(1, 1);
        let caught = std::panic::catch_unwind(inner);
        assert!(caught.is_err());
        work(1, 1);
    }

    #[probe_runtime::probe]
    pub fn inner() {
        work(5, 7);
        std::panic::panic_any("on purpose");
    }
}

#[test]
fn a_panic_ends_a_call() {
    let perf = attach("consumers::perf::panics::*");
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    panics::outer();
    panic::set_hook(hook);
    let counts = perf.event_counts();
    assert_eq!(of(&counts, "consumers::perf::panics::outer"), [1, 7, 2, 9, 2]);
    assert_eq!(of(&counts, "consumers::perf::panics::inner"), [1, 5, 5, 7, 7]);
}

mod futures {
    use super::*;

    #[probe]
    pub async fn twice() {
        work(3, 30);
        let mut is_ready = false;
        poll_fn(|_| if std::mem::replace(&mut is_ready, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        work(4, 40);
    }
}

#[test]
fn of_a_future_polls_are_counted() {
    let perf = attach("consumers::perf::futures::*");
    let mut future = pin!(futures::twice());
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    work(1000, 1000);
    assert!(future.as_mut().poll(&mut context).is_ready());
    assert_eq!(of(&perf.event_counts(), "consumers::perf::futures::twice"), [1, 7, 7, 70, 70]);
}

mod broken {
    use super::*;

    #[probe]
    pub fn outer(breaks: bool) {
        work(1, 1);
        inner();
        IS_BROKEN.set(breaks);
        inner();
    }

    #[probe]
    pub fn inner() {
        work(2, 2);
    }
}

/// Unreadable calls are counted separately, in no sum; nor are calls that began earlier.
#[test]
fn calls_without_counts_are_told_apart() {
    let perf = attach("consumers::perf::broken::*");
    broken::outer(false);
    broken::outer(true);
    broken::outer(true);
    IS_BROKEN.set(false);
    broken::outer(false);
    let counts = perf.event_counts();
    // In the second round the first of the inner calls could be read, in the third none.
    let [outer, inner] =
        ["outer", "inner"].map(|name| counts.function(&format!("consumers::perf::broken::{name}")).unwrap());
    assert_eq!((outer.counted(), outer.uncounted(), outer.calls()), (2, 2, exactly(4)));
    assert_eq!((inner.counted(), inner.uncounted(), inner.calls()), (5, 3, exactly(8)));
    assert_eq!((outer.total(Cycles), outer.own(Cycles)), (Some(10), Some(2)));
    assert_eq!((inner.total(Cycles), inner.own(Cycles)), (Some(10), Some(10)));
    assert!(counts.to_string().lines().next().unwrap().ends_with("uncounted"), "{counts}");
}

/// A machine without counters.
fn software(event: PerfEvent) -> Result<u64, i32> {
    if event.is_hardware() { Err(ENOENT) } else { Ok(NOW.get()[0]) }
}

mod machines {
    #[probe_runtime::probe]
    pub fn any() {
        super::work(7, 0);
    }
}

#[test]
fn a_machine_without_counters_goes_on_with_the_kernel_s() {
    let set = select("consumers::perf::machines::*").unwrap();
    let perf = set.attach(Perf::new().with_counts(software)).unwrap();
    machines::any();
    let counts = perf.event_counts();
    assert_eq!(counts.events().collect::<Vec<_>>(), [TaskClock, PageFaults, ContextSwitches]);
    assert_eq!(counts[0].total(PageFaults), Some(7));
    assert_eq!(
        counts.to_string(),
        "function                        calls  task-clock/call  self/call  page-faults/call  self/call  \
         context-switches/call  self/call\n\
         consumers::perf::machines::any      1             7 ns       7 ns                 7          7  \
         \x20                   7          7\n\
         not counted: cycles, instructions, cache-misses, branch-misses: this machine has no counter for it"
    );
    // Asked for by name, each is missed for itself.
    let some = Perf::of([Cycles, PageFaults]).with_counts(software);
    let perf = set.attach(some).unwrap();
    assert_eq!(perf.event_counts().events().collect::<Vec<_>>(), [PageFaults]);
    assert_eq!(perf.event_counts().missing().len(), 1);
}

#[test]
fn with_nothing_to_count_nothing_is_attached() {
    let set = select("consumers::perf::machines::*").unwrap();
    let refused = |perf: Perf| match set.attach(perf) {
        Err(Error::Consumer(error)) if error.is::<NoEvents>() => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(Perf::of([Cycles, Instructions]).with_counts(software)),
        "no event can be counted here; cycles, instructions: this machine has no counter for it; \
         the kernel's own events need no counter: task-clock, page-faults, context-switches"
    );
    let none =
        refused(Perf::new().with_counts(|event| Err(if event.is_hardware() { ENOENT } else { EACCES })));
    assert!(
        none.starts_with(
            "no event can be counted here; cycles, instructions, cache-misses, branch-misses: this "
        ) && none.contains("; task-clock, page-faults, context-switches: not permitted"),
        "{none}"
    );
    assert_eq!(refused(Perf::of([])), "no event can be counted here; name some");
    let is_latent =
        |probe: &probe_runtime::ProbeInfo| probe.state() == probe_runtime::registry::ProbeState::Latent;
    assert!(set.probes().iter().all(is_latent), "nothing has changed");
}

mod reported {
    use super::work;

    #[probe_runtime::probe]
    pub fn outer() {
        work(1000, 1500);
        inner();
        inner();
    }

    #[probe_runtime::probe]
    pub fn inner() {
        work(3, 1);
    }
}

#[test]
fn reports_say_what_was_counted() {
    let perf = attach("consumers::perf::reported::*");
    reported::outer();
    let counts = perf.event_counts();
    assert_eq!(
        perf.to_string(),
        "function                          calls   IPC  cycles/call  self/call  instructions/call  self/call\n\
         consumers::perf::reported::outer      1  1.49         1006       1000               1502       1500\n\
         consumers::perf::reported::inner      2  0.33            3          3                  1          1\n\
         not counted: cache-misses, branch-misses: this machine has no counter for it"
    );
    let csv = counts.to_csv();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "function,file,line,future,calls,calls_error,counted,uncounted,cycles,cycles_self,instructions,\
         instructions_self,ipc,without_entry,without_exit,cancelled,pending"
    );
    let line = counts.function("consumers::perf::reported::inner").unwrap().function().line();
    assert_eq!(
        lines[2],
        format!("consumers::perf::reported::inner,{},{line},false,2,0,2,0,6,6,2,2,0.3333,0,0,0,0", file!())
    );
    let json = counts.to_json();
    for part in [
        r#""calls":2,"calls_error":0,"counted":2,"uncounted":0,"cycles":6,"cycles_self":6,"instructions":2"#,
        r#"{"event":"cache-misses","reason":"this machine has no counter for it"}"#,
        r#""system_calls":false,"share":1,"threads_without_events":0,"left_out":["#,
    ] {
        assert!(json.contains(part), "{json}");
    }
}

static SAMPLED: AtomicU64 = AtomicU64::new(0);

mod sampled {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn hot() {
        SAMPLED.fetch_add(1_000, Relaxed);
        work(7, 21);
    }

    #[probe]
    #[inline(never)]
    pub fn rare() {
        work(5, 5);
        hot();
    }
}

/// Holds regardless of the events that the machine can count.
#[test]
fn a_budget_of_nothing_is_refused() {
    for perf in [Perf::new(), Perf::of([])] {
        let perf = perf.budget(Budget::percent(0.0));
        let error = select("consumers::perf::sampled::*").unwrap().attach(perf).map(|_| ()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a `budget` of 0 % leaves nothing to sample with; set `Budget::percent(1.0)`, say, or `Budget::UNLIMITED`"
        );
    }
}

/// The profiler says which calls; their events are exact, the number of all is estimated.
#[test]
fn under_a_budget_a_sample_is_counted() {
    let profiler = Profiler::with_clock(|| SAMPLED.load(Relaxed)).stepped();
    let profiler = profiler.budget(Budget::calls_per_second(100_000.0));
    let perf = Perf::new().with_counts(two).sampled(profiler);
    let perf = select("consumers::perf::sampled::*").unwrap().attach(perf).unwrap();
    let profiler = perf.profiler().unwrap();
    let hot = || {
        for _ in 0..100_000 {
            sampled::hot();
            profiler.poll();
        }
    };
    hot();
    sampled::rare();
    hot();
    let counts = perf.event_counts();
    let [hot, rare] =
        ["hot", "rare"].map(|name| counts.function(&format!("consumers::perf::sampled::{name}")).unwrap());
    assert_eq!((rare.counted(), rare.total(Cycles), rare.total(Instructions)), (1, Some(12), Some(26)));
    assert_eq!((rare.calls(), rare.own(Cycles)), (exactly(1), None));
    let samples = hot.counted();
    assert!((10..100_000).contains(&samples), "a sample: {counts}");
    assert_eq!((hot.total(Cycles), hot.total(Instructions)), (Some(7 * samples), Some(21 * samples)));
    assert_eq!((hot.mean(Cycles), hot.ipc(), hot.uncounted()), (Some(7.0), Some(3.0), 0));
    let Estimated { value, error } = hot.calls();
    assert!((value - 200_001.0).abs() <= error.max(4_000.0), "{counts}");
    assert_eq!(profiler.profile().function("consumers::perf::sampled::hot").unwrap().samples(), samples);
    assert!(counts.cost().is_some() && counts.to_string().contains("; budget: 100000 calls/s"), "{counts}");
    assert!(counts.to_csv().lines().any(|line| line.contains(&format!(",{},,", 7 * samples))), "no self");
}
