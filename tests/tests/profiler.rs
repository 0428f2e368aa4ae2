//! `Profiler` on clocks of the test's own, which say what comes out exactly, and on the machine's.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::{Attachment, Budget, Error, Estimated, ProbeState, Profiler, TextPolicy, probe, select};

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
        let error = select("profiler::hot").unwrap().attach(profiler).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Budget { .. }));
        assert!(select("profiler::hot").unwrap().probes().iter().all(|it| it.state() == ProbeState::Latent));
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
        assert_eq!(refused(stepped().budget_each(budget)), format!("a `budget_each` of {problem}; {set}"));
    }
}

#[test]
fn samples_windows_and_gaps_are_exact() {
    let _alone = ALONE.lock().unwrap();
    let profiler = Profiler::with_clock(now).stepped().budget(Budget::calls_per_second(1000.0));
    let profiler = profiled("profiler::hot, profiler::cold", profiler);
    (0..25).for_each(|_| hot(7));
    let profile = profiler.profile();
    let of_hot = profile.function("profiler::hot").unwrap();
    assert_eq!((of_hot.counted(), of_hot.samples(), of_hot.latent()), (25, 10, 0.0));
    assert_eq!((of_hot.calls(), of_hot.mean()), (exactly(25.0), Some(exactly(7.0))));
    assert_eq!((of_hot.total(), of_hot.min(), of_hot.max()), (Some(exactly(175.0)), 7, 7));
    let of_cold = profile.function("profiler::cold").unwrap();
    assert_eq!((of_cold.counted(), of_cold.calls(), of_cold.mean()), (0, exactly(0.0), None));

    // It has its sample, and 250,000 calls a second are too many to count all: latent from here on. What was never called is not.
    pass(99_825);
    profiler.look();
    let is_armed = |path: &str| profiler.profile().function(path).unwrap().is_armed();
    assert_eq!(["profiler::hot", "profiler::cold"].map(is_armed), [false, true]);
    (0..1000).for_each(|_| hot(0));
    pass(100_000);
    let profile = profiler.profile();
    let of_hot = profile.function("profiler::hot").unwrap();
    assert_eq!((of_hot.counted(), of_hot.samples(), of_hot.latent()), (25, 10, 0.5));
    // 25 calls in 100 µs: as many in the next 100, more or less two times their root.
    assert_eq!(of_hot.calls(), Estimated { value: 50.0, error: 10.0 });

    // The next epoch: it has a window in which calls are counted, and none is timed.
    pass(20_000_000);
    profiler.look();
    assert!(is_armed("profiler::hot"));
    (0..5).for_each(|_| cold());
    let profile = profiler.profile();
    let of_hot = profile.function("profiler::hot").unwrap();
    assert_eq!((of_hot.counted(), of_hot.samples(), of_hot.rearmed()), (30, 10, 1));
    let of_cold = profile.function("profiler::cold").unwrap();
    assert_eq!((of_cold.calls(), of_cold.mean()), (exactly(5.0), Some(exactly(1001.0))));
    assert_eq!((profile.cost().toggles, profile.cost().calls), (2, 25));
    pass(200_000);
    profiler.look();
    assert_eq!(profiler.profile().cost().calls, 35);
    assert!(!is_armed("profiler::hot"), "its window is over");
    // The eighth epoch times; the others count.
    for _ in 0..8 {
        pass(20_000_000);
        profiler.look();
        (0..12).for_each(|_| hot(9));
        pass(200_000);
        profiler.look();
    }
    let profile = profiler.profile();
    let of_hot = profile.function("profiler::hot").unwrap();
    assert_eq!((of_hot.counted(), of_hot.samples(), of_hot.max()), (30 + 96, 20, 9));
}

#[test]
fn what_is_called_seldom_is_counted_without_gaps() {
    let _alone = ALONE.lock().unwrap();
    let profiler = Profiler::with_clock(now).stepped().budget(Budget::calls_per_second(1_000_000.0));
    let profiler = profiled("profiler::hot", profiler);
    let mut calls = 0;
    // 100 epochs of 20 calls each, timed in one of eight; all are counted, also while that changes.
    for _ in 0..100 {
        (0..20).for_each(|_| hot(1000));
        calls += 20;
        pass(12_480_000);
        (0..2).for_each(|_| {
            profiler.look();
        });
    }
    let profile = profiler.profile();
    let of_hot = profile.function("profiler::hot").unwrap();
    assert_eq!((of_hot.calls(), of_hot.counted(), of_hot.latent()), (exactly(2000.0), calls, 0.0));
    assert_eq!((of_hot.mean(), of_hot.total()), (Some(exactly(1000.0)), Some(exactly(2_000_000.0))));
    assert!(of_hot.is_armed() && (10..calls / 2).contains(&of_hot.samples()), "{profiler}");
    assert!(of_hot.rearmed() >= 10, "{profiler}");
    assert_eq!(profile.cost().calls, calls);
}

#[test]
fn recursion_is_paired_for_each_function() {
    let _alone = ALONE.lock().unwrap();
    let profiler = profiled("profiler::nested", stepped().sample_size(4));
    nested(3);
    let profile = profiler.profile();
    let (count, total) = (profile[0].counted(), profile[0].total());
    assert_eq!((count, profile[0].samples()), (3, 3));
    assert!((total.unwrap().value - 60.0).abs() < 1e-9, "10 + 20 + 30: {total:?}");
    // One more is timed, the outermost; two lie inside, and are not.
    nested(3);
    let profile = profiler.profile();
    assert_eq!((profile[0].counted(), profile[0].samples()), (6, 4));
    assert_eq!((profile[0].min(), profile[0].max()), (10, 30));
    // Deeper than what is timed at once: exits find their entries all the same.
    drop(profiler);
    let profiler = profiled("profiler::nested", stepped().sample_size(1000));
    nested(20);
    nested(1);
    let profile = profiler.profile();
    assert_eq!((profile[0].counted(), profile[0].samples()), (21, 9));
    assert_eq!((profile[0].min(), profile[0].max()), (10, 200));
}

#[test]
fn reports_say_it_all() {
    let _alone = ALONE.lock().unwrap();
    let profiler = profiled("profiler::hot, profiler::cold kind=entry", stepped());
    (0..4).for_each(|_| hot(250));
    pass(999_999_000);
    let profile = profiler.profile();
    assert_eq!(profile.left_out().len(), 1);
    let row = "4,0,4,250,0,1000,0,4,4,250,250,0,0,,";
    let csv = profile.to_csv();
    let (heading, rows) = csv.split_once('\n').unwrap();
    assert_eq!(
        heading,
        "function,file,line,future,calls,calls_error,calls_per_second,mean_ns,mean_error_ns,total_ns,total_error_ns,\
         counted,samples,min_ns,max_ns,latent,rearmed,polls,polls_error"
    );
    assert!(rows.starts_with("profiler::hot,tests/tests/profiler.rs,"), "{rows}");
    assert!(rows.ends_with(&format!(",false,{row}\n")), "{rows}");
    let json = profile.to_json();
    for part in [
        "\"function\":\"profiler::hot\"",
        "\"calls\":4,\"calls_error\":0,\"calls_per_second\":4,\"mean_ns\":250",
        "\"cost\":{\"hits_ns\":0,\"own_ns\":0,\"switching_ns\":0,\"used_ns\":0,\"elapsed_ns\":1000000000,\"calls\":0,\"toggles\":0}",
        "\"left_out\":[\n{\"function\":\"profiler::cold\"}\n]",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
    let table = profiler.to_string();
    assert!(
        table.contains("profiler::hot      4  0  4 /s  250 ns  1.00 µs  0 ns        4  0.00 %"),
        "{table}"
    );
    assert!(table.contains("budget: no limit") && table.contains("profiler::cold is left out"), "{table}");
}

/// Threads of this process that are called so.
fn daemons() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).filter(|name| name.trim() == "probe-profiler").count()
}

#[cfg(target_os = "linux")]
#[test]
fn the_daemon_ends_with_its_attachment() {
    let _alone = ALONE.lock().unwrap();
    // A thread has its name some time after it was started.
    let are = |expected: usize| {
        (0..2000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            daemons() == expected
        })
    };
    assert_eq!(daemons(), 0);
    let one = profiled("profiler::hot", Profiler::new());
    let two = profiled("profiler::*", Profiler::new().epoch(Duration::from_secs(3600)));
    assert!(are(2));
    drop(two);
    assert_eq!(daemons(), 1, "gone when `drop` returns, however long it would have slept");
    let _stepped = profiled("profiler::hot", stepped());
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

/// Calls and times of a mix are known: of two threads that do nothing else for two seconds. `PROBE_TEST_TIMING=1` asks for a tenth, in a release build on a
/// machine that has nothing else to do.
#[test]
fn a_mix_is_estimated() {
    const TIME: Duration = Duration::from_secs(2);
    let _alone = ALONE.lock().unwrap();
    let set = select("profiler::small, profiler::large").unwrap().text(TextPolicy::Open);
    let is_strict = std::env::var_os("PROBE_TEST_TIMING").is_some();
    // In builds without optimization, looking takes many times as long.
    let budget = Budget::percent(if is_strict { 1.0 } else { 20.0 });
    let profiler = set.attach(Profiler::new().budget(budget)).unwrap();
    let (of_small, of_large) = thread::scope(|scope| {
        let one = scope.spawn(|| work(TIME));
        let two = scope.spawn(|| work(TIME));
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        (one.0 + two.0, one.1 + two.1)
    });
    let profile = profiler.profile();
    println!("{profiler}\ntruth: {of_small} and {of_large}");
    // Without optimization, hits slow the program down by more than is known; beside others, windows are not like the rest.
    let (least, most) = if is_strict { (0.9, 1.1) } else { (0.3, 3.0) };
    #[expect(clippy::cast_precision_loss, reason = "far fewer")]
    for (path, truth) in [("profiler::small", of_small as f64), ("profiler::large", of_large as f64)] {
        let function = profile.function(path).unwrap();
        let Estimated { value, error } = function.calls();
        assert!(function.samples() >= 10 && function.rearmed() >= 3, "{profiler}");
        assert!((least..most).contains(&(value / truth)), "{path}: {value} ± {error}, not {truth}");
        // All of the time is the large one's, and nearly all the small one's.
        let of_all = function.total().unwrap().value / (2.0 * TIME.as_secs_f64() * 1e9);
        assert!(!is_strict || (least..most).contains(&of_all), "{path}: {of_all} of 4 s");
    }
    let share = profile.cost().share();
    assert!(!is_strict || share < 0.015, "{share}");
}

#[test]
fn a_thread_that_can_not_be_started_is_told() {
    let error = Error::Thread(std::io::Error::other("limit"));
    assert_eq!(error.to_string(), "the consumer's thread can't be started: limit");
}
