//! `count --ptrace`, and `enable`, `status` and `disable` with it: hits of a program without a
//! runtime, counted from outside.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::__tools::{Table, Time};
use probe_runtime::Selector;
use serde::Serialize;

use super::measure::written;
use crate::args::{Disable, Enable, Measure, Status};
use crate::json::{Made, SCHEMA, document};
use crate::live::{LOOK, Screen, Stop};
use crate::output::{Failure, Shown};
use crate::outside::{Counting, Hits};
use crate::text::{clean, count};

const COUNT: &str = "count";

#[derive(Serialize)]
struct Head<'a> {
    schema: u64,
    command: &'a str,
    pid: u32,
}

#[derive(Serialize)]
struct Row<'a> {
    probe: &'a str,
    kind: &'a str,
    file: &'a str,
    line: u32,
    sites: u64,
    hits: u64,
}

pub(super) fn run(args: &Measure, is_json: bool) -> Result<Shown, Failure> {
    let pid = id(args.target.which.pid)?;
    let selector = parsed(&args.selector)?;
    let stop = Stop::on_signals()?;
    let mut counting = Counting::begin(pid, &selector)?;
    let mut screen = Screen::stdout(is_json);
    let every = args.every.or_else(|| screen.is_terminal().then_some(Duration::from_secs(1)));
    let begun = Instant::now();
    let mut next = every;
    let mut last = None;
    while !stop.is_set() && args.time.is_none_or(|time| begun.elapsed() < time) {
        thread::sleep(LOOK);
        let Ok(hits) = counting.hits() else { break };
        let report = report(pid, COUNT, &hits, is_json)?;
        if next.is_some_and(|next| begun.elapsed() >= next) {
            next = every.map(|every| begun.elapsed() + every);
            written(screen.show(&report))?;
        }
        last = Some(report);
    }
    let rested = counting.rest().and_then(|()| counting.hits());
    let (report, notes) = match rested {
        Ok(hits) => (report(pid, COUNT, &hits, is_json)?, close(counting)?),
        Err(_) if counting.hits().is_err() => {
            let report = last.ok_or_else(|| {
                Failure::Input(format!("process {pid} has ended before there was a report"))
            })?;
            (report, vec![format!("process {pid} has ended; this is the last report before")])
        }
        Err(error) => return Err(error),
    };
    written(screen.finish(&report))?;
    Ok(Shown { notes, ..Shown::text(String::new()) })
}

pub(super) fn enable(args: &Enable, is_json: bool) -> Result<Shown, Failure> {
    let pid = id(args.running.which.pid)?;
    if !args.keep {
        return Err(Failure::Usage(
            "with --ptrace, `enable` needs --keep; `count --ptrace` counts for a while".to_owned(),
        ));
    }
    let spec = args.spec.strip_suffix("=count").unwrap_or(&args.spec);
    let counting = Counting::begin(pid, &parsed(spec)?)?;
    let done = format!("{} are counted", count(counting.sites, "site"));
    let text = if is_json {
        Made::to_process("enable", pid, &done).document()?
    } else {
        format!("process {pid}: {done} until `probectl disable --ptrace -p {pid}`\n")
    };
    Ok(Shown { notes: told(counting), ..Shown::text(text) })
}

pub(super) fn status(args: &Status, is_json: bool) -> Result<Shown, Failure> {
    let pid = id(args.running.which.pid)?;
    let counting = Counting::found(pid)?;
    let text = report(pid, "status", &counting.hits()?, is_json)?;
    Ok(Shown { notes: counting.notes, ..Shown::text(text) })
}

pub(super) fn disable(args: &Disable, is_json: bool) -> Result<Shown, Failure> {
    let pid = id(args.running.which.pid)?;
    if !args.attachments.is_empty() {
        return Err(Failure::Usage("with --ptrace there are no numbers of attachments".to_owned()));
    }
    let mut counting = Counting::found(pid)?;
    counting.rest()?;
    let text = report(pid, "disable", &counting.hits()?, is_json)?;
    Ok(Shown { notes: close(counting)?, ..Shown::text(text) })
}

/// Gives the memory back.
fn close(mut counting: Counting) -> Result<Vec<String>, Failure> {
    counting.end()?;
    Ok(told(counting))
}

/// Returns its notes, and the time for which threads stood.
fn told(mut counting: Counting) -> Vec<String> {
    let longest = u64::try_from(counting.longest_stop().as_nanos()).unwrap_or(u64::MAX);
    counting.notes.push(format!("all threads stood for {} at most at a time", Time(longest)));
    counting.notes
}

fn id(pid: Option<u32>) -> Result<u32, Failure> {
    pid.ok_or_else(|| Failure::Usage("--ptrace is about a process: give `-p PID`".to_owned()))
}

fn parsed(text: &str) -> Result<Selector, Failure> {
    Selector::parse(text).map_err(|error| Failure::Usage(error.to_string()))
}

fn report(pid: u32, command: &str, hits: &[Hits<'_>], is_json: bool) -> Result<String, Failure> {
    let mut hits: Vec<_> = hits.iter().collect();
    hits.sort_by(|a, b| {
        let place = |it: &Hits<'_>| (it.row.probe.path.clone(), it.row.probe.kind, it.row.probe.line);
        b.count.cmp(&a.count).then_with(|| place(a).cmp(&place(b)))
    });
    if is_json {
        let rows = hits.iter().map(|it| Row {
            probe: &it.row.probe.path,
            kind: it.row.probe.kind.name(),
            file: &it.row.probe.file,
            line: it.row.probe.line,
            sites: it.sites,
            hits: it.count,
        });
        return document(&Head { schema: SCHEMA, command, pid }, rows);
    }
    let mut table = Table::new(&["probe", "kind", "sites", "hits"]);
    let (hit, others): (Vec<_>, Vec<_>) = hits.into_iter().partition(|it| it.count != 0);
    for it in hit {
        let probe = &it.row.probe;
        table.row(vec![
            clean(&probe.path).into_owned(),
            probe.kind.name().to_owned(),
            it.sites.to_string(),
            it.count.to_string(),
        ]);
    }
    let mut text = format!("{table}\n");
    if !others.is_empty() {
        // Writing to a string never fails.
        let _ = writeln!(text, "{} never hit", count(others.len() as u64, "probe"));
    }
    Ok(text)
}
