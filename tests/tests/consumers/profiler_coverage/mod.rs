//! Whether the profiler's intervals contain the truth as often as it says: programs that are played
//! on a clock of the test's own, each many times with other seeds. The seeds are fixed, and the
//! schedule's randomness comes from the clock: each run of this test sees the same.
//!
//! The bounds would hold for other seeds, too: if intervals contain the truth in 95 of 100 runs,
//! fewer than the least number that is asked for have a chance of 1 in 10⁹. A slice has a quarter
//! of the runs.

// Nothing is ever latent there.
#![cfg(not(any(probe_portable, probe_off)))]

mod plugin;
mod tally;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use probe_runtime::patch::TextPolicy;
use probe_runtime::profile::Budget;
use probe_runtime::{Error, ProbeSet, Profiler, probe, select, select_persistent};
use probe_tests::{scenario, whole};
use tally::Tally;

/// The test's clock, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    NOW.load(Relaxed)
}

macro_rules! functions {
    ($($name:ident)*) => {
        $(
            #[probe]
            #[inline(never)]
            fn $name(body: &mut dyn FnMut()) {
                body();
            }
        )*
        /// By their number.
        const FUNCTIONS: [fn(&mut dyn FnMut()); [$(stringify!($name)),*].len()] = [$($name),*];
        /// Those of the plugin follow.
        const PATHS: [&str; FUNCTIONS.len() + plugin::PATHS.len()] =
            plugin::behind([$(concat!("consumers::profiler_coverage::", stringify!($name))),*]);
    };
}
functions!(tiny short middling long rare hot other late outer inner);
const TINY: usize = 0;
const SHORT: usize = 1;
const MIDDLING: usize = 2;
const LONG: usize = 3;
const RARE: usize = 4;
const HOT: usize = 5;
const OTHER: usize = 6;
const LATE: usize = 7;
const OUTER: usize = 8;
const INNER: usize = 9;

const MS: u64 = 1_000_000;

/// A run of a program: its calls, and the daemon's part.
struct Run<'a> {
    profiler: &'a Profiler,
    due: u64,
    random: u64,
    calls: [u64; PATHS.len()],
    times: [u64; PATHS.len()],
    library: Option<plugin::Plugin>,
}

impl<'a> Run<'a> {
    fn new(profiler: &'a Profiler, seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let none = [0; PATHS.len()];
        Self { profiler, due: now(), random, calls: none, times: none, library: None }
    }

    fn random(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// Calls it, and computes for so long there.
    fn call(&mut self, function: usize, nanoseconds: u64) {
        self.within(function, |run| run.compute(nanoseconds));
    }

    /// Calls it, and there does what `body` does.
    fn within(&mut self, function: usize, mut body: impl FnMut(&mut Self)) {
        let start = now();
        match FUNCTIONS.get(function) {
            Some(function) => function(&mut || body(self)),
            None => plugin::call(self, function - FUNCTIONS.len(), &mut body),
        }
        self.calls[function] += 1;
        self.times[function] += now() - start;
    }

    /// Computes for so long, and calls nothing.
    fn compute(&mut self, nanoseconds: u64) {
        let end = now() + nanoseconds;
        while self.due < end {
            NOW.store(self.due.max(now()), Relaxed);
            self.poll();
        }
        NOW.store(end.max(now()), Relaxed);
    }

    /// As a daemon would: some microseconds late.
    fn poll(&mut self) {
        if now() >= self.due {
            let late = 20_000 + self.random() % 60_000;
            self.due = now() + u64::try_from(self.profiler.poll().as_nanos()).unwrap() + late;
        }
    }
}

/// Calls of all lengths in a random order.
fn mixture(run: &mut Run<'_>) {
    for _ in 0..60_000 {
        let gap = run.random() % 6_000;
        run.compute(gap);
        match run.random() % 1_000 {
            0..700 => run.call(TINY, 10),
            700..985 => run.call(SHORT, 150),
            985..998 => run.call(MIDDLING, 4_000),
            998 => run.call(LONG, 200_000),
            _ => run.call(RARE, 50),
        }
    }
}

/// Short bursts of calls between long silences.
fn bursts(run: &mut Run<'_>) {
    for _ in 0..20 {
        let gap = run.random() % (40 * MS);
        run.compute(gap);
        for _ in 0..run.random() % 4_000 {
            run.compute(20);
            run.call(HOT, 80);
        }
        run.call(MIDDLING, 2_000);
    }
}

/// In each third, another function is called often.
fn phases(run: &mut Run<'_>) {
    for hot in [HOT, OTHER, LATE] {
        for _ in 0..15_000 {
            let gap = run.random() % 20_000;
            run.compute(gap);
            let function = if run.random().is_multiple_of(256) { TINY } else { hot };
            run.call(function, 100);
        }
    }
}

/// Nearly all calls at the start.
fn startup(run: &mut Run<'_>) {
    for _ in 0..30_000 {
        let gap = run.random() % 2_000;
        run.compute(gap);
        let function = if run.random().is_multiple_of(3) { OTHER } else { HOT };
        run.call(function, 70);
    }
    for _ in 0..50 {
        run.compute(10 * MS);
        run.call(RARE, 900);
    }
}

/// Bursts that come as regularly as any clock.
fn periods(run: &mut Run<'_>) {
    for _ in 0..50 {
        let start = now();
        (0..600).for_each(|_| run.call(HOT, 300));
        (0..300).for_each(|_| run.call(OTHER, 500));
        run.compute(start + 10 * MS - now());
    }
}

/// Three levels of calls; one in 512 of the innermost takes a thousand times as long as the others.
fn lengths(run: &mut Run<'_>) {
    for _ in 0..3_000 {
        let gap = run.random() % 100_000;
        run.compute(gap);
        run.within(OUTER, |run| {
            for _ in 0..4 {
                run.compute(100);
                run.within(INNER, |run| {
                    for _ in 0..3 {
                        let is_long = run.random().is_multiple_of(512);
                        run.call(SHORT, if is_long { 300_000 } else { 200 });
                    }
                });
            }
        });
    }
}

/// Functions that call each other, to depths of 1 to 64.
fn descents(run: &mut Run<'_>) {
    fn descend(run: &mut Run<'_>, depth: u64) {
        let function = if depth.is_multiple_of(2) { OUTER } else { INNER };
        run.within(function, |run| {
            run.compute(300);
            if depth > 1 {
                descend(run, depth - 1);
            }
        });
    }
    for _ in 0..4_000 {
        let gap = run.random() % 100_000;
        run.compute(gap);
        let depth = 1 + run.random() % (1 << (run.random() % 7));
        descend(run, depth);
    }
}

/// Works 3 ms of each 10, and waits in a call of its own until these are over.
fn pauses(run: &mut Run<'_>) {
    for _ in 0..40 {
        let start = now();
        run.within(OUTER, |run| {
            while now() < start + 3 * MS {
                let gap = run.random() % 2_000;
                run.compute(gap);
                let function = if run.random().is_multiple_of(8) { OTHER } else { HOT };
                run.call(function, 200);
            }
        });
        run.call(LONG, start + 10 * MS - now());
    }
}

/// The runs of each program, and how many of these must be covered at least.
fn asked() -> (u64, u32) {
    if whole::is_asked_for() { (100, 78) } else { (25, 14) }
}

/// The probes that are measured, and the calls.
type Program = (fn() -> Result<ProbeSet, Error>, fn(&mut Run<'_>));

fn own() -> Result<ProbeSet, Error> {
    select("consumers::profiler_coverage::*")
}

fn with_plugin() -> Result<ProbeSet, Error> {
    select_persistent("consumers::profiler_coverage::*, late::*")
}

/// All runs of a program with this budget, in calls a second.
fn runs(program: Program, budget: f64) -> [Tally; PATHS.len()] {
    let (selected, play) = program;
    let mut tallies = [Tally::default(); PATHS.len()];
    for seed in 1..=asked().0 {
        // Each run begins at another time.
        NOW.store(seed * 0x9e37_79b9_7f4a, Relaxed);
        let profiler = Profiler::with_clock(now).stepped().budget(Budget::calls_per_second(budget));
        let set = selected().unwrap().text_policy(TextPolicy::Open);
        let profiler = set.attach(profiler).unwrap();
        let mut run = Run::new(&profiler, seed);
        play(&mut run);
        let Run { calls, times, library, .. } = run;
        let profile = profiler.profile();
        for (function, tally) in tallies.iter_mut().enumerate() {
            let Some(shown) = profile.function(PATHS[function]) else {
                assert_eq!(calls[function], 0, "{}", PATHS[function]);
                continue;
            };
            if calls[function] > 0 || shown.calls().value > 0.0 {
                tally.add(shown, calls[function], times[function]);
            }
        }
        drop((profiler, library));
    }
    tallies
}

/// Each function's numbers, on a small budget and on a larger one. Returns those on the larger one.
fn are_covered(program: Program) -> [Tally; PATHS.len()] {
    let [small, larger] = [2_000.0, 20_000.0].map(|budget| (budget, runs(program, budget)));
    let (runs, least) = asked();
    let mut missed = String::new();
    for (budget, tallies) in [small, larger] {
        for (path, it) in PATHS.iter().zip(tallies).filter(|(_, it)| it.shown > 0) {
            println!("{budget} calls/s, {path}: {it:?}");
            assert_eq!(u64::from(it.shown), runs);
            let missed_times = (it.times - it.times_covered).max(it.means - it.means_covered);
            if it.covered < least || missed_times > it.shown - least {
                writeln!(missed, "{budget} calls/s, {path}: {it:?}").unwrap();
            }
        }
    }
    assert_eq!(missed, "", "at least {least} of {runs} runs must be covered");
    larger.1
}

#[test]
fn calls_in_a_random_order() {
    plays("mixture");
}

#[test]
fn all_calls_at_the_start() {
    plays("startup");
}

#[test]
fn bursts_between_silences() {
    plays("bursts");
}

#[test]
fn each_phase_has_its_function() {
    plays("phases");
}

#[test]
fn bursts_as_regular_as_a_clock() {
    plays("periods");
}

#[test]
fn calls_of_two_lengths_inside_of_calls() {
    plays("lengths");
}

#[test]
fn functions_that_call_each_other() {
    plays("descents");
}

#[test]
fn work_between_pauses() {
    plays("pauses");
}

#[test]
fn functions_of_a_plugin_that_is_loaded_later() {
    scenario::pass("plugin", &[(plugin::FOLDER, plugin::built().path("").as_os_str())]);
}

#[test]
fn time_in_a_function_that_has_just_joined_is_not_its_callers() {
    scenario::pass("inside", &[(plugin::FOLDER, plugin::built().path("").as_os_str())]);
}

/// Estimates are meaningful where calls are many: an infinite error would cover any truth.
fn are_sharp(tallies: &[Tally], functions: [usize; 2]) {
    for function in functions {
        let least = asked().0 * 78 / 100;
        assert!(u64::from(tallies[function].sharp) > least, "{}: {:?}", PATHS[function], tallies[function]);
    }
}

/// Each program has a process of its own: one that runs at the same time has another clock.
fn plays(name: &str) {
    scenario::runs_in_a_child("scenario", name);
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    let program: Program = match asked.as_str() {
        "mixture" => (own, mixture),
        "startup" => (own, startup),
        "bursts" => (own, bursts),
        "phases" => (own, phases),
        "periods" => (own, periods),
        "lengths" => (own, lengths),
        "descents" => (own, descents),
        "pauses" => (own, pauses),
        "inside" => return plugin::inside(),
        "plugin" => (with_plugin, plugin::loaded_later),
        other => panic!("no scenario {other}"),
    };
    let tallies = are_covered(program);
    match asked.as_str() {
        "mixture" => are_sharp(&tallies, [TINY, SHORT]),
        "plugin" => are_sharp(&tallies, [plugin::TINY, plugin::LONG]),
        _ => (),
    }
    println!("done: {asked}");
}
