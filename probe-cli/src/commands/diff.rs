//! `diff`: the functions that became slower between two runs.

use std::fmt::Write as _;
use std::io::{Read, Seek};
use std::path::Path;

use probe_runtime::__tools::{Table, Time};
use serde::Serialize;

use super::report::rounded;
use crate::args;
use crate::call_stats::{Compared, Comparison, Worse, compare};
use crate::call_stats::{FunctionRow, Report, measure};
use crate::elf::open_regular;
use crate::output::{Exit, Failure, Output, SCHEMA, document};
use crate::progress::Progress;
use crate::text::{count, escape};

pub(super) fn run(args: &args::Diff, is_json: bool) -> Result<Output, Failure> {
    let (before, mut notes) = load(&args.before)?;
    let (after, problems) = load(&args.after)?;
    notes.extend(problems);
    let compared = compare(&before, &after, args.fail.map(args::Percent::fraction));
    let slower: Vec<_> = compared.rows.iter().filter(|row| !row.worse.is_empty()).collect();
    notes.extend(lines(&compared));
    let mut shown = if is_json {
        Output::text(as_json(args, &compared, slower.len())?)
    } else {
        let mut text = table(&compared);
        if let Some(percent) = args.fail {
            let percent = f64::from(percent.0) / 1000.0;
            let number = slower.len() as u64;
            // Writing to a string never fails.
            let _ = writeln!(
                text,
                "{} slower by more than {percent} %",
                if number == 1 { "1 function is".to_owned() } else { format!("{number} functions are") }
            );
            for row in &slower {
                let figures: Vec<_> = row.worse.iter().map(figure).collect();
                let _ = writeln!(text, "  {}: {}", escape(&row.function), figures.join(", "));
            }
        }
        Output::table(text)
    };
    if !slower.is_empty() {
        shown.exit = Exit::Finding;
    }
    Ok(Output { notes, ..shown })
}

/// Reads a trace, or a report that was made of one; with its problems, a line each.
fn load(path: &Path) -> Result<(Vec<FunctionRow>, Vec<String>), Failure> {
    if let Some(rows) = load_report(path)? {
        return Ok((rows, Vec::new()));
    }
    let measured = measure(&[path.to_owned()]).map_err(Failure::Input)?;
    Ok((measured.rows, measured.problems))
}

/// Reads a report; `None` if the file is none, but may be a trace.
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

fn table(compared: &Compared) -> String {
    let heading = ["function", "calls before", "after", "mean before", "after", "change", "error"];
    let mut table = Table::new(&heading);
    for row in &compared.rows {
        table.row(vec![
            escape(&row.function).into_owned(),
            row.calls[0].to_string(),
            row.calls[1].to_string(),
            Time(rounded(row.means[0])).to_string(),
            Time(rounded(row.means[1])).to_string(),
            format!("{:+.1} %", 100.0 * row.change),
            row.error.map_or("-".to_owned(), |error| format!("{:.1} %", 100.0 * error)),
        ]);
    }
    format!("{table}\n")
}

/// Says how a figure became worse.
fn figure(worse: &Worse) -> String {
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

/// Returns notes about functions without a comparison.
fn lines(compared: &Compared) -> Vec<String> {
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
struct Members<'a> {
    before: &'a Path,
    after: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    slower: usize,
    only_before: &'a [String],
    only_after: &'a [String],
}

fn as_json(args: &args::Diff, compared: &Compared, slower: usize) -> Result<String, Failure> {
    let members = Members {
        before: &args.before,
        after: &args.after,
        limit: args.fail.map(args::Percent::fraction),
        slower,
        only_before: &compared.only_before,
        only_after: &compared.only_after,
    };
    document::<&Comparison>("diff", &members, &compared.rows)
}
