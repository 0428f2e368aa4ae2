//! `report`: the calls of some traces, a row for each function.

use std::fmt::Write;

use probe_runtime::__tools::{Table, Time};

use crate::args;
use crate::call_stats::{FunctionRow, Losses, Measured, measure};
use crate::output::{Failure, Output, document, object};
use crate::text::{count, escape, was};

pub(super) fn run(args: &args::Report, is_json: bool) -> Result<Output, Failure> {
    let Measured { rows, losses, mut problems } = measure(&args.traces).map_err(Failure::Input)?;
    problems.extend(lines(losses));
    let shown = args.top.unwrap_or(rows.len()).min(rows.len());
    if is_json {
        let out = document("report", &object! { files: &args.traces, lost: losses }, &rows[..shown])?;
        return Ok(Output { notes: problems, ..Output::text(out) });
    }
    let mut text = table(&rows[..shown]);
    if shown < rows.len() {
        // Writing to a string never fails.
        let _ = writeln!(text, "and {}", count((rows.len() - shown) as u64, "more function"));
    }
    let unfinished: u64 = rows.iter().map(|row| row.unfinished).sum();
    if unfinished != 0 {
        problems.push(format!(
            "{} not ended in the trace, or were cancelled: their times count in self and total only",
            if unfinished == 1 { "1 call has".to_owned() } else { format!("{unfinished} calls have") }
        ));
    }
    Ok(Output { notes: problems, ..Output::table(text) })
}

fn table(rows: &[FunctionRow]) -> String {
    let mut table = Table::new(&["function", "calls", "self", "total", "mean", "p50", "p99", "max"]);
    for row in rows {
        let measured = |time: u64| if row.calls == 0 { "-".to_owned() } else { Time(time).to_string() };
        table.row(vec![
            escape(&row.function).into_owned(),
            row.calls.to_string(),
            Time(row.self_ns).to_string(),
            Time(row.total_ns).to_string(),
            measured(rounded(row.mean_ns)),
            measured(row.p50_ns),
            measured(row.p99_ns),
            measured(row.max_ns),
        ]);
    }
    format!("{table}\n")
}

/// Returns a mean in whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn rounded(mean: f64) -> u64 {
    mean.round() as u64
}

/// Returns a note for each part that the traces lack.
fn lines(losses: Losses) -> Vec<String> {
    let Losses { hits, without_entry, undefined } = losses;
    let mut lines = Vec::new();
    if hits != 0 {
        lines.push(format!("{} lost: the calls around them are cut off", was(hits, "hit")));
    }
    if without_entry != 0 {
        lines.push(format!("{} without an entry in the trace", was(without_entry, "exit")));
    }
    if undefined != 0 {
        lines.push(format!("{} left out: their probes have no definition", was(undefined, "event")));
    }
    lines
}
