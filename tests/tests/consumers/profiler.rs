//! `Profiler` on the test's own clocks, for exact results, and on the machine's.

#[path = "profiler/shares.rs"]
mod shares;
#[path = "profiler/windows.rs"]
mod windows;

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::patch::TextPolicy;
use probe_runtime::profile::{Budget, Estimated, UnusableBudget};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Error, Profiler, probe, select};

/// The test's clock, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);
/// One test at a time: they share the clock, and count threads.
static ALONE: Mutex<()> = Mutex::new(());

fn now() -> u64 {
    NOW.load(Relaxed)
}

fn pass(nanoseconds: u64) {
    NOW.fetch_add(nanoseconds, Relaxed);
}

#[probe]
#[inline(never)]
fn hot(nanoseconds: u64) {
    pass(nanoseconds);
}

#[probe]
#[inline(never)]
fn cold() {
    pass(1000);
    hot(1);
}

#[probe]
#[inline(never)]
fn nested(depth: u32) {
    pass(10);
    if depth > 1 {
        nested(depth - 1);
    }
}

#[probe]
#[inline(never)]
fn around(work: &dyn Fn()) {
    work();
}

const fn exactly(value: f64) -> Estimated {
    Estimated { value, error: 0.0 }
}

fn stepped() -> Profiler {
    Profiler::with_clock(now).stepped().budget(Budget::UNLIMITED)
}

fn profiled(selector: &str, profiler: Profiler) -> Attachment<Profiler> {
    select(selector).unwrap().attach(profiler).unwrap()
}

#[test]
fn a_budget_that_nothing_can_keep_to_is_refused() {
    let _alone = ALONE.lock().unwrap();
    let refused = |profiler: Profiler| {
        let error = select("consumers::profiler::hot").unwrap().attach(profiler).map(|_| ()).unwrap_err();
        let Error::Consumer(of_consumer) = &error else { panic!("{error}") };
        assert!(of_consumer.is::<UnusableBudget>());
        assert!(
            select("consumers::profiler::hot")
                .unwrap()
                .probes()
                .iter()
                .all(|it| it.state() == ProbeState::Latent)
        );
        error.to_string()
    };
    let set = "set `Budget::percent(1.0)`, say, or `Budget::UNLIMITED`";
    for (budget, problem) in [
        (Budget::percent(0.0), "0 % leaves nothing to sample with"),
        (Budget::percent(-1.0), "-1 % leaves nothing to sample with"),
        (Budget::percent(f64::NAN), "NaN % leaves nothing to sample with"),
        (Budget::percent(100.5), "100.5 % is more than all CPU time"),
        (Budget::calls_per_second(0.0), "0 calls/s leaves nothing to sample with"),
    ] {
        assert_eq!(refused(Profiler::new().budget(budget)), format!("a `budget` of {problem}; {set}"));
    }
}

/// A machine that has been on for days.
const LATER: u64 = 1_000_000_000_000_000;

/// The time of the first poll that reads all functions.
const FIRST: u64 = 300_000;

#[test]
fn what_is_seldom_is_counted_and_timed_at_each_call() {
    let _alone = ALONE.lock().unwrap();
    let profiler = Profiler::with_clock(now).stepped().budget(Budget::percent(1.0));
    let profiler = profiled("consumers::profiler::hot, consumers::profiler::cold", profiler);
    (0..25).for_each(|_| hot(7));
    let profile = profiler.profile();
    let of_hot = profile.function("consumers::profiler::hot").unwrap();
    assert_eq!((of_hot.calls(), of_hot.samples(), of_hot.mean()), (exactly(25.0), 0, None));
    pass(FIRST);
    profiler.poll();
    (0..5).for_each(|_| cold());
    let profile = profiler.profile();
    let of_cold = profile.function("consumers::profiler::cold").unwrap();
    assert_eq!((of_cold.calls(), of_cold.samples(), of_cold.counted()), (exactly(5.0), 5, 5));
    assert_eq!((of_cold.mean(), of_cold.total()), (Some(exactly(1001.0)), Some(exactly(5005.0))));
    assert_eq!(of_cold.own(), Some(exactly(5000.0)));
    // Of most of its calls, nobody knows how long they took.
    let of_hot = profile.function("consumers::profiler::hot").unwrap();
    assert_eq!((of_hot.calls(), of_hot.samples()), (exactly(30.0), 5));
    let total = of_hot.total().unwrap();
    assert!(total.is_at_least() && (total.value - 5.0).abs() < 1e-9, "{total:?}");
    // Once it is few of them, they are taken for no longer.
    (0..1000).for_each(|_| hot(1));
    let total = profiler.profile().function("consumers::profiler::hot").unwrap().total().unwrap();
    assert!((1005.0..1031.0).contains(&total.value) && total.error >= 25.0, "{total:?}");
}

#[test]
fn recursion_is_paired() {
    let _alone = ALONE.lock().unwrap();
    let begun = || profiled("consumers::profiler::nested", stepped());
    let profiler = begun();
    nested(3);
    let profile = profiler.profile();
    assert_eq!((profile[0].counted(), profile[0].samples()), (3, 3));
    assert_eq!(profile[0].total(), Some(exactly(60.0)), "10 + 20 + 30");
    assert_eq!(profile[0].own(), Some(exactly(30.0)));
    drop(profiler);
    // Deeper than the timed depth: exits still find their entries.
    let profiler = begun();
    nested(100);
    nested(1);
    let profile = profiler.profile();
    assert_eq!((profile[0].counted(), profile[0].samples()), (101, 65));
    // Of the 36 innermost of a hundred calls, nothing is known.
    let total = profile[0].total().unwrap();
    assert!(total.is_at_least() && (total.value - 43_850.0).abs() < 1e-6, "{total:?}");
}

/// A call that is timed inside of one of the same function that is not: the first exit is the inner
/// one's.
#[test]
fn a_call_inside_of_one_that_is_not_timed_ends_first() {
    let _alone = ALONE.lock().unwrap();
    let budget = Budget::calls_per_second(1000.0);
    let profiler =
        profiled("consumers::profiler::around", Profiler::with_clock(now).stepped().budget(budget));
    (0..10_000).for_each(|_| around(&|| ()));
    let exit = select("consumers::profiler::around kind=exit").unwrap();
    let poll_until = |is_open: bool| {
        for _ in 0..10_000 {
            let next = profiler.poll();
            if (exit.probes()[0].state() == ProbeState::Active) == is_open {
                return;
            }
            pass(u64::try_from(next.as_nanos()).unwrap());
        }
        panic!("{profiler}");
    };
    for _ in 0..4 {
        poll_until(true);
        // Its sites are active, and its window begins in 18 µs.
        around(&|| {
            pass(20_000);
            around(&|| pass(10));
            pass(1000);
        });
        poll_until(false);
    }
    let profile = profiler.profile();
    assert_eq!((profile[0].counted(), profile[0].samples()), (10_008, 4));
    let total = profile[0].total().unwrap();
    assert!(total.is_at_least() && (total.value - 100_080.0).abs() < 1e-6, "{total:?}");
}

#[test]
fn reports_say_it_all() {
    let _alone = ALONE.lock().unwrap();
    let profiler = profiled("consumers::profiler::hot, consumers::profiler::cold kind=entry", stepped());
    (0..4).for_each(|_| hot(250));
    pass(999_999_000);
    let profile = profiler.profile();
    assert_eq!(profile.left_out().len(), 1);
    let row = "4,0,4,250,0,1000,0,1000,0,4,4,,,,,4";
    let csv = profile.to_csv();
    let (heading, rows) = csv.split_once('\n').unwrap();
    assert_eq!(
        heading,
        "function,file,line,future,calls,calls_error,calls_per_second,mean_ns,mean_error_ns,self_ns,self_error_ns,\
         total_ns,total_error_ns,counted,samples,polls,polls_error,cpu_share,cpu_share_error,calls_per_second_likely"
    );
    assert!(rows.starts_with("consumers::profiler::hot,tests/tests/consumers/profiler.rs,"), "{rows}");
    assert!(rows.ends_with(&format!(",false,{row}\n")), "{rows}");
    let json = profile.to_json();
    for part in [
        "\"function\":\"consumers::profiler::hot\"",
        "\"calls\":4,\"calls_error\":0,\"calls_per_second\":4,\"mean_ns\":250",
        "\"left_out\":[\n{\"function\":\"consumers::profiler::cold\"}\n]",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
    let table = profiler.to_string();
    assert!(
        table.contains(
            "consumers::profiler::hot      4  exact  4 /s  250 ns  1.00 µs  1.00 µs  exact        4"
        ),
        "{table}"
    );
    assert!(
        table.contains("budget: no limit") && table.contains("consumers::profiler::cold is left out"),
        "{table}"
    );
}

/// Threads of this process that are called so, and are not about to end: one that was joined is
/// listed for a moment.
fn daemons() -> usize {
    const PF_EXITING: u32 = 4;
    let is_one = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let (name, numbers) = stat.rsplit_once(") ").unwrap_or_default();
        let flags: u32 = numbers.split(' ').nth(6).and_then(|it| it.parse().ok()).unwrap_or_default();
        name.ends_with("(probe-profiler") && flags & PF_EXITING == 0
    };
    fs::read_dir("/proc/self/task").unwrap().flatten().map(is_one).filter(|is| *is).count()
}

#[cfg(target_os = "linux")]
#[test]
fn the_daemon_ends_with_its_attachment() {
    let _alone = ALONE.lock().unwrap();
    // A thread has its name some time after it was started.
    let are = |expected: usize| {
        (0..60_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            daemons() == expected
        })
    };
    assert_eq!(daemons(), 0);
    let one = profiled("consumers::profiler::hot", Profiler::new());
    let two = profiled("consumers::profiler::*", Profiler::new().epoch(Duration::from_secs(3600)));
    assert!(are(2));
    drop(two);
    assert_eq!(daemons(), 1, "gone when `drop` returns, however long it would have slept");
    let _stepped = profiled("consumers::profiler::hot", stepped());
    assert_eq!(daemons(), 1);
    one.detach();
    assert_eq!(daemons(), 0);
}

#[probe]
#[inline(never)]
fn small(x: u64) -> u64 {
    std::hint::black_box((0..50).fold(x, |x, n| (x ^ n).rotate_left(7)))
}

#[probe]
#[inline(never)]
fn large(x: u64) -> u64 {
    (0..500).fold(x, |x, _| small(x))
}

/// Works for so long; returns how many calls of `small` and `large` that were.
fn work(time: Duration) -> (u64, u64) {
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < time {
        large(calls);
        calls += 1;
    }
    (500 * calls, calls)
}

/// Calls and times of a mix are known: of two threads that do nothing else for two seconds.
/// `PROBE_TEST_TIMING=1` asks for a tenth, in a release build on a machine that has nothing else to
/// do. On a loaded machine, all windows may lie in a part of the time. If the error says so, others
/// are tried.
#[test]
fn a_mix_is_estimated() {
    let _alone = ALONE.lock().unwrap();
    let is_strict = std::env::var_os("PROBE_TEST_TIMING").is_some();
    assert!((0..3).any(|_| mix(is_strict)), "each error was large");
}

/// Compares numbers of calls with the truth. Returns whether all are right; one that is not must
/// have an error that covers it.
fn mix(is_strict: bool) -> bool {
    const TIME: Duration = Duration::from_secs(2);
    let set = select("consumers::profiler::small, consumers::profiler::large")
        .unwrap()
        .text_policy(TextPolicy::Open);
    // In builds without optimization, polling takes many times as long.
    let budget = Budget::percent(if is_strict { 1.0 } else { 40.0 });
    let profiler = set.attach(Profiler::new().budget(budget)).unwrap();
    let (of_small, of_large) = thread::scope(|scope| {
        let one = scope.spawn(|| work(TIME));
        let two = scope.spawn(|| work(TIME));
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        (one.0 + two.0, one.1 + two.1)
    });
    let profile = profiler.profile();
    println!("{profiler}\ntruth: {of_small} and {of_large}");
    // Without optimization, hits slow the program down by more than is known; beside others,
    // windows are not like the rest.
    let (least, most) = if is_strict { (0.9, 1.1) } else { (0.3, 3.0) };
    let mut all_are_right = true;
    for (path, truth) in
        [("consumers::profiler::small", of_small as f64), ("consumers::profiler::large", of_large as f64)]
    {
        let function = profile.function(path).unwrap();
        let Estimated { value, error } = function.calls();
        assert!(function.samples() >= 10, "{profiler}");
        let is_right = (least..most).contains(&(value / truth));
        let is_covered = !is_strict && (value - truth).abs() <= error;
        assert!(is_right || is_covered, "{path}: {value} ± {error}, not {truth}");
        all_are_right &= is_right;
        // All of the time is the large one's, and nearly all the small one's.
        let of_all = function.total().map(|it| it.value / (2.0 * TIME.as_secs_f64() * 1e9));
        let is_near = of_all.is_some_and(|it| (least..most).contains(&it));
        assert!(!is_strict || is_near, "{path}: {of_all:?} of 4 s");
    }
    let share = profile.cost().share();
    assert!(!is_strict || share < 0.015, "{share}");
    all_are_right
}

#[test]
fn a_thread_that_can_not_be_started_is_told() {
    let error = Error::Thread(std::io::Error::other("limit"));
    assert_eq!(error.to_string(), "the consumer's thread can't be started: limit");
}
