//! The work of a child process: attaches, works, and prints a line for each function in its report.
//!
//! The drivers of other crates are compiled with this file, too, so it depends on `probe-runtime`
//! only.

use std::env;
use std::hint::black_box;
use std::thread;

use probe_runtime::patch::TextPolicy;
use probe_runtime::profile::{Budget, FunctionProfile};
use probe_runtime::{Count, Error, Kind, Latency, ProbeSet, Profiler, probe, select};

/// Names the consumer that a child attaches, one of the following. The child's arguments are the
/// program's name, the amount of work, and the path of the input.
pub const VARIABLE: &str = "PROBE_BENCH_COVERAGE";
/// No consumer.
pub const LATENT: &str = "latent";
/// `Count`: the truth about calls.
pub const COUNT: &str = "count";
/// `Latency`: the truth about times, if few functions are selected.
pub const TIME: &str = "time";
/// The profiler, with the defaults, or the budget in [`BUDGET`].
pub const PROFILE: &str = "profile";
/// No consumer: the caller of the functions has a clock, and prints the truth about times.
pub const CLOCK: &str = "clock";
/// The profiler, of which only the shares of the CPU time are printed, the largest first.
pub const SHARES: &str = "shares";

/// Selects probes other than all of the program.
pub const PROBES: &str = "PROBE_BENCH_PROBES";
/// The profiler's budget, in percent.
pub const BUDGET: &str = "PROBE_BENCH_BUDGET";
/// The number of threads; one if it is not set.
pub const THREADS: &str = "PROBE_BENCH_THREADS";
/// If set, reports are made as text, but not printed.
pub const QUIET: &str = "PROBE_BENCH_QUIET";

/// Works while `by` is attached, and prints a line for each called function, separated by tabs: its
/// file, line and path; its calls and their error; [`EXACT`], [`ESTIMATED`] or [`AT_LEAST`]; the
/// time of all calls in nanoseconds and its error, or `-`; the mean time of a call, and the time of
/// all calls without that of calls inside, in the same form. Numbers are whole, as in tables.
pub fn run(by: &str, probes: &str, work: impl FnOnce()) -> Result<(), Error> {
    let others = env::var(PROBES);
    let probes = others.as_deref().unwrap_or(probes);
    let is_quiet = env::var_os(QUIET).is_some();
    let selected = || Ok::<ProbeSet, Error>(select(probes)?.text_policy(TextPolicy::Open));
    match by {
        LATENT => work(),
        COUNT => {
            let counted = selected()?.attach(Count::new())?;
            work();
            let counts = counted.counts();
            if is_quiet {
                black_box(counts.to_string());
                return Ok(());
            }
            for it in counts.iter().filter(|it| it.probe.kind() == Kind::Entry && it.hits > 0) {
                println!(
                    "{}:{} {}\t{}\t0\t{EXACT}\t-\t-\t-\t-\t-\t-",
                    it.probe.file(),
                    it.probe.line(),
                    it.probe.path(),
                    it.hits
                );
            }
        }
        TIME => {
            let timed = selected()?.attach(Latency::new())?;
            work();
            print_times(&timed, reading()?);
        }
        PROFILE => {
            let profiler = selected()?.attach(profiler())?;
            work();
            let profile = profiler.profile();
            if is_quiet {
                black_box(profile.to_string());
                return Ok(());
            }
            profile.iter().filter(|it| it.calls().value > 0.0).for_each(print);
        }
        SHARES => {
            let profiler = selected()?.attach(profiler())?;
            work();
            for it in &profiler.profile() {
                if let Some(share) = it.share().filter(|share| share.value > 0.0) {
                    println!("{}\t{}\t{}", it.path(), share.value, share.error);
                }
            }
        }
        _ => panic!("{VARIABLE}={by}"),
    }
    Ok(())
}

/// Returns the number in [`THREADS`].
pub fn threads() -> usize {
    env::var(THREADS).map_or(1, |it| it.parse().expect("a number of threads"))
}

/// Divides the work equally among the threads.
pub fn in_threads(work: u64, part: impl Fn(u64) + Sync) {
    match threads() as u64 {
        1 => part(work),
        threads => {
            let part = || part(work.div_ceil(threads));
            thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(part)));
        }
    }
}

pub const EXACT: &str = "exact";
pub const ESTIMATED: &str = "estimated";
/// `calls` are a lower bound; there is no upper bound.
pub const AT_LEAST: &str = "at least";
/// The total time counts nested calls of the same function more than once.
pub const RECURSIVE: &str = "recursive";

fn profiler() -> Profiler {
    let percent = env::var(BUDGET).map(|it| it.trim_end_matches('%').parse().expect("a budget in percent"));
    percent.map_or_else(|_| Profiler::new(), |percent| Profiler::new().budget(Budget::percent(percent)))
}

fn print(it: &FunctionProfile) {
    let (function, calls) = (it.function(), it.calls());
    let name = format_args!("{}:{} {}", function.file(), function.line(), function.path());
    let (value, error) = (calls.value.round(), calls.error.round());
    let kind = if is_at_least(it) {
        AT_LEAST
    } else if calls.is_exact() {
        EXACT
    } else {
        ESTIMATED
    };
    print!("{name}\t{value}\t{error}\t{kind}");
    for time in [it.total(), it.mean(), it.own()] {
        match time {
            Some(time) => print!("\t{:.0}\t{:.0}", time.value, time.error),
            None => print!("\t-\t-"),
        }
    }
    println!();
}

/// Returns whether a profile shows only a lower bound of the calls.
fn is_at_least(shown: &FunctionProfile) -> bool {
    shown.calls().is_at_least()
}

/// Prints times without the measuring time of each call. The subtracted time is the error.
fn print_times(timed: &Latency, reading: f64) {
    let latencies = timed.latencies();
    for it in latencies.iter().filter(|it| it.calls() > 0) {
        let name = format_args!("{}:{} {}", it.function().file(), it.function().line(), it.path());
        let added = reading * it.calls() as f64;
        // Only a function that is measured alone has equal own and total times.
        let kind = if it.own() < it.total() { RECURSIVE } else { EXACT };
        let total = it.total() as f64 - added;
        println!("{name}\t{}\t0\t{kind}\t{total:.0}\t{added:.0}\t-\t-\t-\t-", it.calls());
    }
}

#[probe]
#[inline(never)]
fn nothing() {
    black_box(());
}

/// Returns the mean time of an empty call in nanoseconds, measured by `Latency`.
fn reading() -> Result<f64, Error> {
    const CALLS: u32 = 20_000;
    let timed = select("**::watched::nothing")?.text_policy(TextPolicy::Open).attach(Latency::new())?;
    (0..CALLS).for_each(|_| nothing());
    let latencies = timed.latencies();
    Ok(latencies.iter().map(|it| it.total() as f64 / it.calls() as f64).sum())
}
