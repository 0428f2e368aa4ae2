//! CPU time relative to latent probes. It covers the whole process, user and system, from start to
//! end, including attaching and the report's text.
//!
//! Runs alternate: nothing attached, all entries and exits counted, profiled with each budget. A
//! round gives a ratio for each. The result is the median of the ratios with its confidence
//! interval.

use probe_benches::tally::Interval;
use probe_benches::{Scale, figure};

use super::runs::Timer;
use super::watched;
use super::workload::{Watch, Workload, listed};

/// Amounts of work, in seconds of CPU time.
const AMOUNTS: (&str, &str) = ("PROBE_BENCH_AMOUNTS", "0.2,2,20");
/// Budgets, in percent.
const BUDGETS: (&str, &str) = (watched::BUDGET, "1");
/// Numbers of threads.
const THREADS: (&str, &str) = (watched::THREADS, "1,8");

/// The largest number of rounds for one figure.
const ROUNDS: u64 = 200;
/// A figure is done when its interval extends at most this many points to either side.
const SURE: f64 = 0.3;
/// The number of rounds between two checks of the interval.
const BLOCK: u64 = 20;

/// Prints the figures of all programs.
pub fn compare(scale: Scale, workloads: &[Workload]) {
    let budgets: Vec<String> = listed(BUDGETS.0, BUDGETS.1);
    let mut amounts: Vec<f64> = listed(AMOUNTS.0, AMOUNTS.1);
    let mut threads: Vec<u64> = listed(THREADS.0, THREADS.1);
    if scale == Scale::Smoke {
        (amounts, threads) = (vec![0.05], vec![1, 2]);
    }
    let mut lines = Vec::new();
    for seconds in amounts {
        for workload in workloads.iter().take(if scale == Scale::Full { usize::MAX } else { 1 }) {
            for &threads in &threads {
                let workload = of_seconds(workload, threads, seconds);
                lines.extend(measure(scale, &workload, seconds, &budgets));
            }
        }
    }
    println!("\nprogram              s threads  budget | rounds  CPU s latent | over latent % (95 in 100)");
    lines.iter().for_each(|line| println!("{line}"));
}

/// Returns the same program on this many threads, with work for this many seconds, if its work is
/// variable.
pub fn of_seconds(workload: &Workload, threads: u64, seconds: f64) -> Workload {
    let mut workload = workload.on(threads);
    if workload.is_scaled() {
        // The second pass removes the error from the start of the process.
        for _ in 0..2 {
            let taken = workload.cost(LATENT).processor_seconds.max(0.001);
            let work = workload.work as f64 * seconds / taken;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1")]
            let work = work.round().max(1.0) as u64;
            workload.work = work;
        }
    }
    workload
}

const LATENT: Watch<'static> = Watch { by: watched::LATENT, probes: None, budget: None };

/// Returns a line of the table for each variant.
fn measure(scale: Scale, workload: &Workload, seconds: f64, budgets: &[String]) -> Vec<String> {
    let count = Watch { by: watched::COUNT, ..LATENT };
    let profiles = budgets.iter().map(|it| Watch { by: watched::PROFILE, budget: Some(it), ..LATENT });
    let ways: Vec<_> = [LATENT, count].into_iter().chain(profiles).collect();
    let (mut latent, mut ratios) = (Vec::new(), vec![Vec::new(); ways.len() - 1]);
    let timer = Timer::start();
    for round in 0..scale.of(ROUNDS) {
        let mut taken = vec![0.0; ways.len()];
        for step in 0..ways.len() {
            let at = (step + usize::try_from(round).expect("few rounds")) % ways.len();
            taken[at] = workload.cost(ways[at]).processor_seconds;
        }
        latent.push(taken[0]);
        ratios
            .iter_mut()
            .zip(&taken[1..])
            .for_each(|(ratios, taken)| ratios.push(taken / latent[latent.len() - 1]));
        let is_sure = || ratios[1..].iter().all(|it| 100.0 * Interval::of(it.clone()).half() <= SURE);
        if timer.is_over() || (round + 1).is_multiple_of(BLOCK) && is_sure() {
            break;
        }
    }
    let rounds = latent.len();
    let latent = Interval::of(latent).median;
    let name = format!("profiler_{}_{seconds}s_{}t", workload.name, workload.threads);
    ways[1..].iter().zip(ratios).map(|(way, ratios)| {
        let Interval { median, low, high } = Interval::of(ratios);
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let way = way.budget.map_or_else(|| "count".to_owned(), |it| format!("{it}%"));
        let value = format!("{:.2}", percent(median));
        figure(&format!("{name}_{way}"), &value, "%", median, "latent");
        format!(
            "{:<16} {seconds:>5} {:>7} {way:>7} | {rounds:>6} {latent:>13.3} | {value:>6} ({:.2} to {:.2})",
            workload.name, workload.threads, percent(low), percent(high)
        )
    }).collect()
}
