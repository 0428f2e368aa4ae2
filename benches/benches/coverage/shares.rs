//! The shares of the CPU time after a second: how many of the ten functions that a profile names
//! first have the truth within their error, and how many of the ten with the most time it names.
//!
//! The truth is a run with more work, so more samples, and the same budget: hits take time, too.

use std::collections::BTreeMap;

use probe_benches::{Scale, figure};

use super::cpu;
use super::watched;
use super::workload::{Watch, Workload};

/// The work of a run in seconds of CPU time, and the factor for the run that finds the truth.
const SECONDS: f64 = 1.0;
const LONGER: u64 = 20;
const ROUNDS: u64 = 10;
/// The number of functions that a profile should name.
const NAMED: usize = 10;

/// Prints the figures of all programs.
pub fn compare(scale: Scale, workloads: &[Workload]) {
    let seconds = if scale == Scale::Full { SECONDS } else { 0.05 };
    for workload in workloads.iter().take(if scale == Scale::Full { usize::MAX } else { 1 }) {
        let workload = cpu::of_seconds(workload, 1, seconds);
        if workload.is_scaled() {
            measure(scale, &workload);
        }
    }
}

fn measure(scale: Scale, workload: &Workload) {
    let watch = Watch { by: watched::SHARES, ..Watch::default() };
    let mut longer = workload.clone();
    longer.work *= LONGER;
    let truth = longer.shares(watch);
    if truth.is_empty() {
        // The kernel permits none, or the program makes its own report.
        return println!("{}: no samples of the processor's clock", workload.label());
    }
    let most: Vec<_> = truth.iter().take(NAMED).map(|(name, ..)| name).collect();
    let known: BTreeMap<_, _> = truth.iter().map(|(name, value, error)| (name, (value, error))).collect();
    let (mut shown, mut right, mut named) = (0, 0, 0);
    let rounds = scale.of(ROUNDS);
    for _ in 0..rounds {
        let rows = workload.shares(watch);
        let first = || rows.iter().take(NAMED);
        let is_right = |(name, value, error): &&(String, f64, f64)| {
            let (truth, doubt) = known.get(name).copied().unwrap_or((&0.0, &0.0));
            (value - truth).abs() <= error.hypot(*doubt)
        };
        shown += first().count();
        right += first().filter(is_right).count();
        named += first().filter(|(name, ..)| most.contains(&name)).count();
    }
    let part = |some: usize, of: usize| some as f64 / (of as f64).max(1.0);
    let (right, named) = (part(right, shown), part(named, most.len()) / rounds as f64);
    let name = workload.label();
    figure(
        &format!("profiler_{name}/shares"),
        format_args!("{:.1}", 100.0 * right),
        "% of the shares of the first ten functions after a second are true within their errors",
        right,
        "all",
    );
    figure(
        &format!("profiler_{name}/named"),
        format_args!("{:.1}", 100.0 * named),
        "% of the ten functions with the most CPU time are among them",
        named,
        "all",
    );
}
