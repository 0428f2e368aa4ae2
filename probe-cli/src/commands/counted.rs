//! `count --ptrace`, and `enable` and `disable` with it: hits of a program without a runtime,
//! counted from outside.

use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::__tools::{Table, Time};
use probe_runtime::Selector;
use serde::Serialize;

use super::measure::written;
use crate::args::{Disable, Enable, Measure};
use crate::json::{SCHEMA, document};
use crate::live::{LOOK, Screen, Stop};
use crate::output::{Failure, Shown};
use crate::outside::{Counting, Hits};
use crate::text::{clean, count};

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
        let report = report(pid, &hits, is_json)?;
        if next.is_some_and(|next| begun.elapsed() >= next) {
            next = every.map(|every| begun.elapsed() + every);
            written(screen.show(&report))?;
        }
        last = Some(report);
    }
    let ended = |last: Option<String>| match last {
        Some(report) => {
            Ok((report, vec![format!("process {pid} has ended; this is the last report before")]))
        }
        None => Err(Failure::Input(format!("process {pid} has ended before there was a report"))),
    };
    let (report, notes) = match counting.rest() {
        Ok(()) => {
            let report = report(pid, &counting.hits().map_err(Failure::input)?, is_json)?;
            (report, close(counting)?)
        }
        Err(_) if counting.hits().is_err() => ended(last)?,
        Err(error) => return Err(Failure::input(error)),
    };
    written(screen.finish(&report))?;
    Ok(Shown { notes, ..Shown::text(String::new()) })
}

pub(super) fn enable(args: &Enable) -> Result<Shown, Failure> {
    let pid = id(args.running.which.pid)?;
    let spec = args.spec.strip_suffix("=count").unwrap_or(&args.spec);
    let selector = parsed(spec)?;
    if !args.keep {
        return Err(Failure::Usage(
            "with --ptrace, `enable` needs --keep; `count --ptrace` counts for a while".to_owned(),
        ));
    }
    let counting = Counting::begin(pid, &selector)?;
    let text = format!(
        "process {pid}: {} are counted, until `probectl disable --ptrace -p {pid}`\n",
        count(counting.sites, "site")
    );
    let notes = counting.notes.clone();
    Ok(Shown { notes, ..Shown::text(text) })
}

pub(super) fn disable(args: &Disable, is_json: bool) -> Result<Shown, Failure> {
    let pid = id(args.running.which.pid)?;
    if !args.attachments.is_empty() {
        return Err(Failure::Usage("with --ptrace there are no numbers of attachments".to_owned()));
    }
    let mut counting = Counting::found(pid)?;
    counting.rest().map_err(Failure::input)?;
    let text = report(pid, &counting.hits().map_err(Failure::input)?, is_json)?;
    Ok(Shown { notes: close(counting)?, ..Shown::text(text) })
}

/// Gives the memory back.
fn close(counting: Counting) -> Result<Vec<String>, Failure> {
    let longest = u64::try_from(counting.longest_stop().as_nanos()).unwrap_or(u64::MAX);
    let mut notes = counting.end().map_err(Failure::input)?;
    notes.push(format!("the threads stood for {} at most, each time", Time(longest)));
    Ok(notes)
}

fn id(pid: Option<u32>) -> Result<u32, Failure> {
    pid.ok_or_else(|| Failure::Usage("--ptrace is about a process: give `-p PID`".to_owned()))
}

fn parsed(text: &str) -> Result<Selector, Failure> {
    Selector::parse(text).map_err(|error| Failure::Usage(error.to_string()))
}

fn report(pid: u32, hits: &[Hits<'_>], is_json: bool) -> Result<String, Failure> {
    let mut hits: Vec<_> = hits.iter().collect();
    hits.sort_by(|a, b| {
        let place = |it: &Hits<'_>| (it.row.probe.path.clone(), it.row.probe.kind, it.row.probe.line);
        b.hits.cmp(&a.hits).then_with(|| place(a).cmp(&place(b)))
    });
    if is_json {
        let rows = hits.iter().map(|it| Row {
            probe: &it.row.probe.path,
            kind: it.row.probe.kind.name(),
            file: &it.row.probe.file,
            line: it.row.probe.line,
            sites: it.sites,
            hits: it.hits,
        });
        return document(&Head { schema: SCHEMA, command: "count", pid }, rows);
    }
    let mut table = Table::new(&["probe", "kind", "sites", "hits"]);
    let (hit, others): (Vec<_>, Vec<_>) = hits.into_iter().partition(|it| it.hits != 0);
    for it in hit {
        let probe = &it.row.probe;
        table.row(vec![
            clean(&probe.path).into_owned(),
            probe.kind.name().to_owned(),
            it.sites.to_string(),
            it.hits.to_string(),
        ]);
    }
    let mut text = format!("{table}\n");
    if !others.is_empty() {
        text += &format!("{} never hit\n", count(others.len() as u64, "probe"));
    }
    Ok(text)
}
