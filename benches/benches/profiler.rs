//! `profiler`: the cost of sampling at its defaults, on real multithreaded programs whose functions
//! all have probes: Table 3 of the paper. It compares the CPU time of all threads, including the
//! profiler's, with the same program with nothing attached, and measures the noise of that. It
//! prints toggles and samples a second, and the errors of the estimates for calls that the programs
//! know.

use std::hint::black_box;
use std::time::{Duration, Instant};

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, process_ns, processors};
use probe_programs::{ALL, Done, Program};
use probe_runtime::patch::TextPolicy;
use probe_runtime::profile::{FunctionProfile, Profile};
use probe_runtime::{Attachment, Profiler, select};

/// The number of runs in a row, and the time for which the profiler works before them.
const RUNS: u64 = 4;
const BEGINNING: Duration = Duration::from_millis(200);

/// The results of one program.
struct ProfiledRow {
    program: Program,
    slowdown: f64,
    /// The difference of the same program, measured twice, in percent.
    noise: f64,
    profile: Profile,
    done: Done,
    rounds: u64,
}

fn attach(program: &Program) -> Attachment<Profiler> {
    let set = select(program.probes).expect("its probes").text_policy(TextPolicy::Open);
    set.attach(Profiler::new()).expect("nothing else is attached")
}

fn measure(program: Program, scale: Scale) -> ProfiledRow {
    let (work, threads) = (scale.of(program.work), processors());
    let run = || {
        let start = process_ns();
        (0..RUNS).for_each(|_| _ = black_box((program.run)(black_box(work), threads)));
        process_ns() - start
    };
    let mut cases = [
        Case::given("latent", run),
        Case::given("profiled", || {
            let attached = attach(&program);
            // The first cost of the profiler differs from its later cost.
            let start = Instant::now();
            while start.elapsed() < BEGINNING {
                (program.run)(work.div_ceil(2), threads);
            }
            let spent = run();
            drop(attached);
            spent
        }),
        Case::given("latent again", run),
    ];
    let medians = interleave(scale.of(21), &mut cases);
    let ratio = medians.ratio("profiled", "latent");
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let (slowdown, noise) = (percent(ratio), percent(medians.ratio("latent again", "latent")));
    figure(&format!("profiler/{}", program.name), format_args!("{slowdown:.2}"), "% slower", ratio, "latent");

    let attached = attach(&program);
    let rounds = scale.of(30);
    (1..rounds).for_each(|_| {
        black_box((program.run)(black_box(work), threads));
    });
    let done = (program.run)(work, threads);
    let profile = attached.profile();
    println!("{attached}\n");
    ProfiledRow { program, slowdown, noise, profile, done, rounds }
}

impl ProfiledRow {
    /// Returns the functions that were called a thousand times, most calls first: the error of each
    /// estimate in percent, and whether the error is within the profiler's own bound.
    fn estimates(&self) -> Vec<(&str, f64, bool)> {
        let module = self.program.probes.trim_end_matches("**");
        let mut called = self.done.calls.clone();
        called.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
        let estimate = |(name, calls): (&'static str, u64)| {
            let truth = (calls * self.rounds) as f64;
            let estimated = self.profile.function(&format!("{module}{name}")).expect("it has probes").calls();
            let is_within = (estimated.value - truth).abs() <= estimated.error.max(1.0);
            (truth >= 1000.0).then_some((name, 100.0 * (estimated.value / truth - 1.0), is_within))
        };
        called.into_iter().filter_map(estimate).collect()
    }

    fn print(&self) {
        let cost = self.profile.cost();
        let each = |number: u64| number as f64 / cost.elapsed.as_secs_f64();
        let samples: u64 = self.profile.iter().map(FunctionProfile::samples).sum();
        let of_used = |time: Duration| 100.0 * time.as_secs_f64() / cost.used.as_secs_f64();
        println!(
            "{:<10} {:>9.0} {:>10.0} {:>9.0} {:>10.2} {:>7.2} {:>7.2} {:>7.2}",
            self.program.name,
            each(cost.toggles),
            each(cost.calls),
            each(samples),
            self.slowdown,
            self.noise,
            of_used(cost.hits),
            of_used(cost.own),
        );
    }

    fn print_estimates(&self) {
        let estimates = self.estimates();
        let exact = estimates.iter().filter(|(_, off, _)| *off == 0.0).count();
        let (called, within) =
            (estimates.len(), estimates.iter().filter(|(.., is_within)| *is_within).count());
        let tenth = estimates.iter().filter(|(_, off, _)| off.abs() <= 10.0).count();
        println!(
            "{:<10} of {called:>2} functions {exact:>2} exact, {tenth:>2} within 10 %, {within:>2} within their error",
            self.program.name
        );
        let off = estimates.iter().filter(|(_, off, _)| *off != 0.0);
        off.for_each(|(name, off, _)| println!("           {off:>+6.1} %  {name}"));
    }
}

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    let scale = Scale::from_args();
    let rows = ALL.map(|program| measure(program, scale));
    println!("program    toggles/s    calls/s   timed/s slowdown % noise %  hits %   own % switch %");
    rows.iter().for_each(ProfiledRow::print);
    println!(
        "hits %, own %: of the CPU time, as the profiler accounts for it; own: looking, waking up, and switching"
    );
    println!("\ncalls, as estimated:");
    rows.iter().for_each(ProfiledRow::print_estimates);
}
