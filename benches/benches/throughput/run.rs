//! The matrix of ways, rates and executors, with its table, figures and chart.

use std::error::Error;
use std::path::Path;

use probe_benches::plot::{self, Axis, Line, Panel};
use probe_benches::ticks::ticks_per_second;
use probe_benches::toggled::Toggled;
use probe_benches::toggling::{self, Rate, Run, is_crowded};
use probe_benches::{Scale, figure, median, processors};
use probe_runtime::patch::PatchError;

/// The result of one way at one rate.
struct Point {
    rate: Rate,
    calls_per_second: f64,
    toggles_per_second: f64,
    share_on: f64,
    /// Relative to the mean of always on and always off.
    ratio: f64,
}

/// The results of one way.
struct ToggledRow {
    toggled: Toggled,
    points: Vec<Point>,
}

pub fn run() -> Result<(), Box<dyn Error>> {
    let scale = Scale::from_args();
    // 6 ms each: short enough to be undisturbed, and with equal time on and off even at the lowest
    // rate.
    let second = ticks_per_second();
    let time = if scale == Scale::Full { second * 6 / 1_000 } else { second / 1_000 };
    let mut panels = Vec::new();
    for executors in [1, 2] {
        let crowded = if is_crowded(executors) {
            format!("; with the patcher, more than the {} processors, so they take turns", processors())
        } else {
            String::new()
        };
        println!("\nexecutors: {executors}{crowded}");
        let (rows, disturbed) = measure(executors, scale.of(15), (time, second))?;
        print(&rows);
        if disturbed > 0.05 && !is_crowded(executors) {
            println!(
                "{:.0} % of the runs were disturbed by other programs: measure again",
                100.0 * disturbed
            );
        }
        if executors == 1 {
            figures(&rows);
        }
        panels.push(panel(executors, &rows));
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("throughput.svg");
    let subtitle = "Calls a second while another thread toggles the instruction, of the mean of always on and always off";
    plot::save(&path, "Throughput of toggled instructions", subtitle, &panels)?;
    println!("\nThe chart is in {}.", path.display());
    Ok(())
}

/// Runs all ways at all rates, and in each constant state, in every round. Also returns the share
/// of disturbed runs.
fn measure(executors: usize, rounds: u64, time: (u64, u64)) -> Result<(Vec<ToggledRow>, f64), PatchError> {
    let ways = Toggled::all();
    let rates = &Rate::ALL[1..];
    // For each way: always off, always on, each rate.
    let mut samples: Vec<Vec<Vec<Run>>> = vec![vec![Vec::new(); 2 + rates.len()]; ways.len()];
    for round in 0..=rounds {
        for (way, samples) in ways.iter().zip(&mut samples) {
            for (nth, samples) in samples.iter_mut().enumerate() {
                way.set(nth == 1)?;
                let rate = if nth < 2 { Rate::PerSecond(0) } else { rates[nth - 2] };
                let run = toggling::run_undisturbed(way.code, executors, rate, time, |on| way.set(on))?;
                // The first round warms up.
                if round > 0 {
                    samples.push(run);
                }
            }
        }
    }
    let all: Vec<_> = samples.iter().flatten().flatten().collect();
    let disturbed = all.iter().filter(|run| !run.is_undisturbed).count() as f64 / all.len() as f64;
    let rows = ways.into_iter().zip(&samples).map(|(way, samples)| row(way, samples)).collect();
    Ok((rows, disturbed))
}

fn row(toggled: Toggled, samples: &[Vec<Run>]) -> ToggledRow {
    let median_of = |runs: &[Run], part: fn(&Run) -> f64| median(runs.iter().map(part).collect());
    let calls = |runs: &[Run]| median_of(runs, |run| run.calls_per_second);
    let alone = f64::midpoint(calls(&samples[0]), calls(&samples[1]));
    let still = Point {
        rate: Rate::PerSecond(0),
        calls_per_second: alone,
        toggles_per_second: 0.0,
        share_on: 0.5,
        ratio: 1.0,
    };
    let toggling = Rate::ALL[1..].iter().zip(&samples[2..]).map(|(rate, runs)| Point {
        rate: *rate,
        calls_per_second: calls(runs),
        toggles_per_second: median_of(runs, |run| run.toggles_per_second),
        share_on: toggled.share_on(median_of(runs, |run| run.mean)),
        ratio: calls(runs) / alone,
    });
    ToggledRow { toggled, points: [still].into_iter().chain(toggling).collect() }
}

fn print(rows: &[ToggledRow]) {
    println!(
        "{:<17} {:>9} {:>12} {:>14} {:>9} {:>8}",
        "way", "toggles/s", "achieved", "million calls/s", "of still", "saw on"
    );
    for row in rows {
        for point in &row.points {
            println!(
                "{:<17} {:>9} {:>12.0} {:>14.1} {:>8.1} % {:>6.1} %",
                row.toggled.name,
                point.rate,
                point.toggles_per_second,
                point.calls_per_second / 1e6,
                100.0 * point.ratio,
                100.0 * point.share_on
            );
        }
    }
}

fn figures(rows: &[ToggledRow]) {
    for row in rows {
        for point in &row.points[1..] {
            let rate = point.rate.to_string().replace(' ', "-");
            figure(
                &format!("throughput/{}-{rate}", row.toggled.name),
                format_args!("{:.1}", point.calls_per_second / 1e6),
                "million calls a second",
                point.ratio,
                "the mean of always on and always off",
            );
        }
    }
}

fn panel(executors: usize, rows: &[ToggledRow]) -> Panel {
    let line = |row: &ToggledRow| {
        let points = (0_u32..).zip(&row.points).map(|(at, point)| (f64::from(at), 100.0 * point.ratio));
        Line { name: row.toggled.name.to_owned(), points: points.collect(), apart: Vec::new() }
    };
    Panel {
        title: format!("{executors} {}", if executors == 1 { "executor" } else { "executors" }),
        x: Axis::named("toggles a second (asked)", Rate::ALL),
        y: Axis::linear("calls a second (% of still)", 100.0),
        lines: rows.iter().map(line).collect(),
    }
}
