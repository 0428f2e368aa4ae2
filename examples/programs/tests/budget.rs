//! A budget of 1 % of the CPU time holds within half a point in a program whose rate of calls jumps
//! by a factor of a thousand. The process's own CPU clock measures it against the same work without
//! a profiler.
//!
//! `PROBE_SOAK_BUDGET=60` measures for about 60 seconds, in a release build on an otherwise idle
//! machine. It also checks the budget within two standard errors, and the profiler's own account.
//! Unit tests beside the profiler's schedule simulate the parts that do not depend on machines.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_off, probe_portable))))]

use std::time::{Duration, Instant};

use probe_benches::{median, process_ns, processors};
use probe_programs::{hull, options};
use probe_runtime::patch::TextPolicy;
use probe_runtime::profile::ProfileCost;
use probe_runtime::{Profiler, select};

/// The functions of `hull` that don't recurse. They are called about ten thousand times a second,
/// and those of `options` tens of millions of times.
const SELECTED: [&str; 5] = ["run", "work", "geometry::scatter", "geometry::hull", "geometry::merge"];

/// Runs each kind of work for some 30 ms; returns calls a second of both, and the CPU time used.
fn cycle() -> ([f64; 2], f64) {
    let threads = processors();
    let start = process_ns();
    let rates = [(hull::PROGRAM, 150), (options::PROGRAM, 750)].map(|(program, work)| {
        let start = Instant::now();
        let done = (program.run)(work, threads);
        let of_selected = |(name, _): &&(&str, u64)| program.name == "options" || SELECTED.contains(name);
        let calls: u64 = done.calls.iter().filter(of_selected).map(|(_, calls)| calls).sum();
        to_f64(calls) / start.elapsed().as_secs_f64()
    });
    (rates, to_f64(process_ns() - start))
}

fn to_f64(number: u64) -> f64 {
    number as f64
}

#[test]
fn a_budget_holds_while_the_rate_jumps() {
    let Ok(seconds) = std::env::var("PROBE_SOAK_BUDGET") else {
        println!("set PROBE_SOAK_BUDGET=60 to measure for a minute");
        return;
    };
    let time = Duration::from_secs(seconds.parse().expect("seconds"));
    let of_hull = SELECTED.map(|name| format!("probe_programs::hull::{name}")).join(", ");
    let probes = format!("{of_hull}, {}", options::PROGRAM.probes);
    let cycles = |count: u32| (0..count).map(|_| cycle().1).sum::<f64>();
    let (start, mut slower, mut plain_again, mut accounted) = (Instant::now(), vec![], vec![], vec![]);
    let ([calm, busy], _) = cycle();
    assert!(busy > 1000.0 * calm, "from {calm:.0} calls a second to {busy:.0}");
    while start.elapsed() < time || slower.len() < 10 {
        let plain = cycles(8);
        let attached =
            select(&probes).unwrap().text_policy(TextPolicy::Open).attach(Profiler::new()).unwrap();
        // The cost of the first cycles differs from that of later ones.
        cycles(8);
        let before = attached.profile().cost();
        let profiled = cycles(8);
        accounted.push(share_since(before, attached.profile().cost()));
        drop(attached);
        let again = cycles(8);
        slower.push(100.0 * (2.0 * profiled / (plain + again) - 1.0));
        plain_again.push(100.0 * (again / plain - 1.0));
    }
    let (rounds, share) = (slower.len(), median(accounted.clone()));
    let (points, noise) = (median(slower.clone()), median(plain_again.iter().map(|it| it.abs()).collect()));
    let unsure = unsure_by(&slower, points);
    println!(
        "from {calm:.0} to {busy:.0} calls a second; {points:.2} ± {unsure:.2} % of the CPU time in the median of {rounds} rounds, \
         {share:.2} % accounted for; the same work twice differs by {noise:.2} %\n{slower:.2?}\n{accounted:.2?}"
    );
    assert!((0.5..=1.5).contains(&share), "{share} % accounted for");
    assert!((points - 1.0).abs() <= 0.5 + unsure, "{points} ± {unsure} %");
    assert!(
        unsure <= 0.5,
        "± {unsure} % tells too little: to be measured for longer, or where nothing else runs"
    );
}

/// Returns the profiler's own account of its cost between two moments, in percent of the process's
/// CPU time.
fn share_since(before: ProfileCost, now: ProfileCost) -> f64 {
    let spent = |cost: ProfileCost| (cost.hits + cost.own).as_secs_f64();
    100.0 * (spent(now) - spent(before)) / now.used.saturating_sub(before.used).as_secs_f64()
}

/// Returns two standard errors of the median of these numbers, from their quartiles.
fn unsure_by(numbers: &[f64], median_of_all: f64) -> f64 {
    // In a normal distribution, half of all values are within 0.6745 standard deviations. The error
    // of a median is 1.2533 times that of a mean.
    let deviation = median(numbers.iter().map(|it| (it - median_of_all).abs()).collect()) / 0.6745;
    2.0 * 1.2533 * deviation / to_f64(numbers.len() as u64).sqrt()
}
