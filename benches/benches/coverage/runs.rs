//! Rounds of runs, in which the programs alternate, so that other load on the machine affects all
//! alike.
//!
//! The truth about calls is the result of `Count` in two other processes, which must agree. The
//! truth about times comes from a separate process in each round. Programs with a clock of their
//! own measure it outside of all probes. In other programs `Latency` measures one function alone,
//! in turn: of the functions whose calls take a microsecond or more, those with the most time. Each
//! call has two readings of the clock, whose time is subtracted.

use std::env;
use std::time::{Duration, Instant};

use probe_benches::Scale;
use probe_benches::tally::times::Times;
use probe_benches::tally::{CallAccuracy, Kind, Rows};

use super::rivals::Rivals;
use super::watched;
use super::workload::{Watch, Workload, listed};

/// The rounds at full scale. The variable's time limit, in seconds, may end them earlier.
const ROUNDS: u64 = 100;
const TIME: &str = "PROBE_BENCH_SECONDS";
/// The variable for the number of rounds at full scale.
const ROUNDS_VARIABLE: &str = "PROBE_BENCH_ROUNDS";
/// The largest number of measured functions of a program.
const TIMED: usize = 4;
/// The shortest measured calls, in nanoseconds: measuring would disturb shorter ones.
const LONG_NS: u64 = 1_000;

struct Runs {
    workload: Workload,
    truth: Rows,
    accuracy: CallAccuracy,
    times: Times,
}

/// Determines the truth, runs the rounds, and prints.
pub fn compare(scale: Scale, workloads: &[Workload]) {
    let threads: Vec<u64> = listed(watched::THREADS, "1");
    let all = threads.iter().flat_map(|threads| workloads.iter().map(|it| it.on(*threads)));
    let mut all: Vec<_> = all.filter_map(Runs::of).collect();
    let _rivals = Rivals::start();
    let timer = Timer::start();
    let rounds = env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |it| it.parse().expect("a number"));
    for round in 0..scale.of(rounds) {
        for it in all.iter_mut().filter(|it| round.is_multiple_of(it.workload.every)) {
            if !timer.is_over() {
                it.run(round / it.workload.every);
            }
        }
    }
    all.retain(|it| it.accuracy.has_runs());
    for it in &all {
        it.accuracy.print_figures(&it.workload.label());
        it.times.print_figures(&it.workload.label());
    }
    println!("\n{}", CallAccuracy::HEADING);
    all.iter().for_each(|it| it.accuracy.print(&it.workload.label()));
    println!("\n{}", Times::HEADING);
    all.iter().for_each(|it| it.times.print(&it.workload.label()));
}

impl Runs {
    /// Returns `None` if two runs of the program differ.
    fn of(workload: Workload) -> Option<Self> {
        let count = Watch { by: watched::COUNT, ..Watch::default() };
        let truth = workload.show(count);
        if truth != workload.show(count) {
            println!("{} does not do the same again: left out", workload.label());
            return None;
        }
        let mut times = Times::default();
        if workload.is_clocked() {
            return Some(Self { workload, truth, accuracy: CallAccuracy::default(), times });
        }
        // Measuring all functions takes a hundred times as long if most are tiny. A short run is
        // enough to name the long ones.
        let measured = workload.taste().show(Watch { by: watched::TIME, ..count });
        for name in timed(&measured, &truth) {
            times.expect(&name);
        }
        Some(Self { workload, truth, accuracy: CallAccuracy::default(), times })
    }

    fn run(&mut self, round: u64) {
        let budget = env::var(watched::BUDGET).ok();
        let watch = Watch { by: watched::PROFILE, budget: budget.as_deref(), ..Watch::default() };
        let shown = self.workload.show(watch);
        self.accuracy.add(&self.truth, &shown);
        if self.workload.is_clocked() {
            self.add_clocked();
            self.times.add(&shown);
            return;
        }
        self.times.add(&shown);
        let turn = usize::try_from(round).expect("few rounds") % self.times.names().count().max(1);
        let Some(name) = self.times.names().nth(turn).map(str::to_owned) else { return };
        let (_, path) = name.rsplit_once(' ').expect("a place and a path");
        let alone = Watch { by: watched::TIME, probes: Some(path), ..Watch::default() };
        let exact = self.workload.show(alone);
        if let Some(it) = exact.get(&name).filter(|it| it.kind != Kind::Recursive)
            && let Some(total) = it.total
        {
            self.times.add_exact(&name, it.calls, total);
        }
    }

    /// Adds the times of the program's own clock.
    fn add_clocked(&mut self) {
        let exact = self.workload.show(Watch { by: watched::CLOCK, ..Watch::default() });
        for (name, it) in &self.truth {
            let (_, path) = name.rsplit_once([' ', ':']).expect("a path after the place");
            let measured = &exact[path];
            assert_eq!(it.calls, measured.calls, "{name}");
            self.times.add_exact(name, it.calls, measured.total.expect("a time"));
            self.times.add_exact_own(name, it.calls, measured.own.expect("a time"));
        }
    }
}

/// Returns the functions with the most time, among those whose calls are long when all functions
/// are measured.
fn timed(measured: &Rows, truth: &Rows) -> Vec<String> {
    let long = measured.iter().filter_map(|(name, it)| {
        let total = it.total?.value;
        (truth.contains_key(name) && total / it.calls >= LONG_NS && !name.contains('<'))
            .then_some((total, name))
    });
    let mut long: Vec<_> = long.collect();
    long.sort_by(|a, b| b.cmp(a));
    long.into_iter().take(TIMED).map(|(_, name)| name.clone()).collect()
}

/// The time limit of the variable.
pub struct Timer(Instant, Duration);

impl Timer {
    pub fn start() -> Self {
        let seconds = env::var(TIME).map(|it| it.parse().expect("seconds"));
        Self(Instant::now(), seconds.map_or(Duration::MAX, Duration::from_secs))
    }

    pub fn is_over(&self) -> bool {
        self.0.elapsed() >= self.1
    }
}
