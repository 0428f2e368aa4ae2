//! The chart: failures, and the time until a patch is seen, by wait.

use probe_benches::plot::{Axis, Line, Panel};

use super::args::Plan;
use super::matrix::Row;
use super::report::{Machine, boundary};
use super::trial::{Delay, Protocol, Visibility};

/// Returns title, subtitle, and two panels: one for the failures, one for the times.
pub fn panels(
    plan: &Plan,
    machine: &Machine,
    rows: &[Row],
    reference: Option<&Visibility>,
) -> (String, String, Vec<Panel>) {
    let title = match plan.protocol {
        Protocol::Int3 => "T_max: how long a patch must wait between its writes",
        Protocol::Bare => "Without int3: what executors see of a half-written instruction",
    };
    let mut panels = vec![failures(plan, rows)];
    panels.extend(times(plan, rows, reference));
    let note = format!("{machine}; {} toggles a run, across {}", plan.toggles, boundary(plan));
    (title.to_owned(), note, panels)
}

/// Returns the axis of waits, and the position of the barrier after the last of them.
fn waits(plan: &Plan) -> (Axis, f64) {
    let axis = Axis::linear("wait (ticks of the time stamp counter)", plan.max_wait.max(1) as f64);
    let barrier = axis.end();
    (axis.and("barrier"), barrier)
}

fn line(name: String, rows: &[Row], barrier: f64, value: impl Fn(&Row) -> Option<f64>) -> Line {
    let mut line = Line { name, points: Vec::new(), apart: Vec::new() };
    for row in rows {
        match (row.delay, value(row)) {
            (_, None) => {}
            (Delay::Ticks(wait), Some(value)) => line.points.push((wait as f64, value)),
            (Delay::Barrier, Some(value)) => line.apart.push((barrier, value)),
        }
    }
    line
}

fn failures(plan: &Plan, rows: &[Row]) -> Panel {
    let (x, barrier) = waits(plan);
    let value = |row: &Row, nth: usize| match plan.protocol {
        Protocol::Int3 => 100.0 * row.splits[nth].failed as f64 / plan.executors.len() as f64,
        Protocol::Bare => row.splits[nth].wrong_per_toggle(),
    };
    let lines: Vec<_> = (plan.splits.iter().enumerate())
        .map(|(nth, split)| {
            let name = format!("split after {split} of 5 bytes");
            line(name, rows, barrier, |row| Some(value(row, nth)))
        })
        .collect();
    let greatest = lines
        .iter()
        .flat_map(|line| line.points.iter().chain(&line.apart))
        .map(|point| point.1)
        .fold(0.0, f64::max);
    let (title, y) = match plan.protocol {
        Protocol::Int3 => ("Failures", Axis::linear("failed runs (%)", 100.0)),
        Protocol::Bare => (
            "Wrong values (none is drawn at the bottom)",
            Axis::logarithmic("for each toggle", 1e-5, greatest.max(1.0)),
        ),
    };
    Panel { title: title.to_owned(), x, y, lines }
}

fn times(plan: &Plan, rows: &[Row], reference: Option<&Visibility>) -> Option<Panel> {
    let (x, barrier) = waits(plan);
    let part = |name: &str, part: fn(&Visibility) -> u64| {
        line(name.to_owned(), rows, barrier, |row| row.visibility().map(|seen| part(&seen) as f64))
    };
    let mut lines = vec![
        part("median", |seen| seen.median),
        part("99 %", |seen| seen.p99),
        part("99.9 %", |seen| seen.p999),
        part("longest", |seen| seen.max),
    ];
    if let Some(seen) = reference {
        lines.push(line("99.9 %, one aligned store".to_owned(), rows, barrier, |_| Some(seen.p999 as f64)));
    }
    let values = || lines.iter().flat_map(|line| line.points.iter().chain(&line.apart)).map(|point| point.1);
    let greatest = values().fold(0.0, f64::max);
    let least = values().fold(greatest, f64::min);
    let y = Axis::logarithmic("ticks", least.max(10.0), greatest);
    let title = "From the last write until another processor executes the new instruction".to_owned();
    (greatest > 0.0).then_some(Panel { title, x, y, lines })
}
