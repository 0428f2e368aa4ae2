//! The commands on traces: `report`, the calls, a row for each function; `diff`, the functions that
//! became slower between two runs; `convert`, traces for other tools.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use probe_report::{Table, Time, View};
use probe_trace::export::{Error, Format, export};
use serde::Serialize;

use crate::args;
use crate::call_stats::{
    Compared, Comparison, FunctionRow, Losses, Report, TraceStats, Worse, compare, open_traces, read_stats,
};
use crate::elf::open_regular;
use crate::output::{Exit, Failure, NewFile, Output, SCHEMA, document, document_without_rows, object};
use crate::progress::Progress;
use crate::text::{count, escape, was};

pub(super) fn report(args: &args::Report, is_json: bool) -> Result<Output, Failure> {
    let TraceStats { rows, losses, mut problems } = read_stats(&args.traces)?;
    problems.extend(loss_notes(losses));
    let shown = args.top.unwrap_or(rows.len()).min(rows.len());
    if is_json {
        let out = document("report", &object! { files: &args.traces, lost: losses }, &rows[..shown])?;
        return Ok(Output { notes: problems, ..Output::text(out) });
    }
    let mut view = View::table(report_table(&rows[..shown]));
    if shown < rows.len() {
        view.notes.push(format!("and {}", count((rows.len() - shown) as u64, "more function")));
    }
    let unfinished: u64 = rows.iter().map(|row| row.unfinished).sum();
    if unfinished != 0 {
        problems.push(format!(
            "{} not ended in the trace, or were cancelled: their times count in self and total only",
            if unfinished == 1 { "1 call has".to_owned() } else { format!("{unfinished} calls have") }
        ));
    }
    Ok(Output { notes: problems, ..Output::view(view) })
}

fn report_table(rows: &[FunctionRow]) -> Table<'_> {
    let mut table = Table::new(["function", "calls", "self", "total", "mean", "p50", "p99", "max"]);
    for row in rows {
        let measured = |time: u64| (row.calls != 0).then_some(Time(time));
        table.push(row.function.as_str()).push(row.calls).push(Time(row.self_ns)).push(Time(row.total_ns));
        for time in [rounded(row.mean_ns), row.p50_ns, row.p99_ns, row.max_ns] {
            table.push(measured(time));
        }
    }
    table
}

/// Returns a mean in whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn rounded(mean: f64) -> u64 {
    mean.round() as u64
}

/// Returns a note for each part that the traces lack.
fn loss_notes(losses: Losses) -> Vec<String> {
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

pub(super) fn diff(args: &args::Diff, is_json: bool) -> Result<Output, Failure> {
    let (before, mut notes) = load(&args.before)?;
    let (after, problems) = load(&args.after)?;
    notes.extend(problems);
    let compared = compare(&before, &after, args.fail.map(args::Percent::fraction));
    let slower: Vec<_> = compared.rows.iter().filter(|row| !row.worse.is_empty()).collect();
    notes.extend(incomparable_notes(&compared));
    let mut shown = if is_json {
        Output::text(diff_json(args, &compared, slower.len())?)
    } else {
        let mut view = View::table(diff_table(&compared));
        if let Some(percent) = args.fail {
            let percent = f64::from(percent.0) / 1000.0;
            let number = slower.len() as u64;
            let functions = if number == 1 { "1 function is" } else { &*format!("{number} functions are") };
            view.notes.push(format!("{functions} slower by more than {percent} %"));
            for row in &slower {
                let figures: Vec<_> = row.worse.iter().map(figure_change).collect();
                view.notes.push(format!("  {}: {}", escape(&row.function), figures.join(", ")));
            }
        }
        Output::view(view)
    };
    if !slower.is_empty() {
        shown.exit = Exit::Finding;
    }
    Ok(Output { notes, ..shown })
}

/// Reads a trace, or a report that was made of one. Returns its problems, too, a line each.
fn load(path: &Path) -> Result<(Vec<FunctionRow>, Vec<String>), Failure> {
    if let Some(rows) = load_report(path)? {
        return Ok((rows, Vec::new()));
    }
    let stats = read_stats(&[path.to_owned()])?;
    Ok((stats.rows, stats.problems))
}

/// Reads a report; `None` if the file is not one, and may be a trace.
fn load_report(path: &Path) -> Result<Option<Vec<FunctionRow>>, Failure> {
    let _progress = Progress::start(&format!("reading {}", path.display()), 0);
    let unreadable =
        |error: std::io::Error| Failure::Input(format!("{} can't be read: {error}", path.display()));
    let mut file = open_regular(path).map_err(unreadable)?;
    let mut first = [0];
    let is_report = file.read(&mut first).map_err(unreadable)? == 1 && first == *b"{";
    if !is_report {
        return Ok(None);
    }
    file.rewind().map_err(unreadable)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    let foreign = |why: String| {
        Failure::Input(format!(
            "{} is no report: {why}; give a trace, or what `probectl --json report` wrote",
            path.display()
        ))
    };
    let report: Report = serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
    if report.command != "report" || report.schema != SCHEMA {
        let what = format!("it is a `{}` of schema {}", report.command, report.schema);
        return Err(foreign(what));
    }
    Ok(Some(report.rows))
}

fn diff_table(compared: &Compared) -> Table<'_> {
    let mut table =
        Table::new(["function", "calls before", "after", "mean before", "after", "change", "error"]);
    for row in &compared.rows {
        table.push(row.function.as_str()).push(row.calls[0]).push(row.calls[1]);
        table.push(Time(rounded(row.means[0]))).push(Time(rounded(row.means[1])));
        table.push(format!("{:+.1} %", 100.0 * row.change));
        table.push(row.error.map(|error| format!("{:.1} %", 100.0 * error)));
    }
    table
}

/// Returns a text about a figure that became worse.
fn figure_change(worse: &Worse) -> String {
    let times = |name: &str, before: u64, after: u64| format!("{name} {} ▸ {}", Time(before), Time(after));
    match *worse {
        Worse::Mean { before_ns, after_ns } => times("mean", rounded(before_ns), rounded(after_ns)),
        Worse::P50 { before_ns, after_ns } => times("p50", before_ns, after_ns),
        Worse::P99 { before_ns, after_ns } => times("p99", before_ns, after_ns),
        Worse::RareCalls { over_ns, before: [before, of_before], after: [after, of_after] } => format!(
            "calls over {} in {after} of {of_after} parts of the run, before in {before} of {of_before}",
            Time(over_ns)
        ),
    }
}

/// Returns notes on functions that can't be compared.
fn incomparable_notes(compared: &Compared) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |names: &[String], what: &str| {
        let Some(first) = names.first() else { return };
        let others = match names.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", count(more as u64, "other")),
        };
        lines.push(format!("{what}: `{first}`{others}"));
    };
    add(&compared.only_before, "called before only");
    add(&compared.only_after, "called after only");
    let unknown: Vec<_> =
        compared.rows.iter().filter(|row| row.error.is_none()).map(|row| row.function.clone()).collect();
    add(&unknown, "too few calls for an error, so --fail leaves them out");
    lines
}

#[derive(Serialize)]
struct DiffMembers<'a> {
    before: &'a Path,
    after: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    slower: usize,
    only_before: &'a [String],
    only_after: &'a [String],
}

fn diff_json(args: &args::Diff, compared: &Compared, slower: usize) -> Result<String, Failure> {
    let members = DiffMembers {
        before: &args.before,
        after: &args.after,
        limit: args.fail.map(args::Percent::fraction),
        slower,
        only_before: &compared.only_before,
        only_after: &compared.only_after,
    };
    document::<&Comparison>("diff", &members, &compared.rows)
}

pub(super) fn convert(args: &args::Convert, is_json: bool) -> Result<Output, Failure> {
    let (notes, exit) = convert_traces(&args.traces, &args.out)?;
    let mut text = String::new();
    if is_json {
        let out = args.out.display().to_string();
        text = document_without_rows("convert", &object! { out: out, done: "written" })?;
    }
    Ok(Output { notes, exit, ..Output::text(text) })
}

/// Converts traces to the format that the ending of `out` tells. Returns notes on missing parts.
pub(super) fn convert_traces(traces: &[PathBuf], out: &Path) -> Result<(Vec<String>, Exit), Failure> {
    let format = Format::from_path(out).map_err(|error| Failure::Usage(error.to_string()))?;
    let shown = out.display();
    let unwritable = |error| Failure::Input(format!("{shown} can't be written: {error}"));
    let (mut trace, _progress) = open_traces(traces)?;
    let clocks = trace.clocks();
    let mut notes = trace.problems().to_vec();
    let mut exit = Exit::Done;
    let mut file = NewFile::create(out).map_err(unwritable)?;
    let mut items = trace.items();
    match export(format, clocks, items.by_ref(), &mut file.file) {
        Ok(()) => (),
        // The output has all items before the error, and is sound.
        Err(Error::Items(error)) => {
            notes.push(format!("the trace can't be read further, so {shown} ends there: {error}"));
            exit = Exit::Input;
        }
        Err(Error::Write(error)) => return Err(unwritable(error)),
        Err(error) => return Err(Failure::input(error)),
    }
    let undefined = items.undefined();
    if undefined != 0 {
        notes.push(format!("{} of probes without a definition were left out", count(undefined, "event")));
    }
    file.finish().map_err(unwritable)?;
    Ok((notes, exit))
}
