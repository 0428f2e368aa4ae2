//! `count --ptrace`, and `enable`, `status` and `disable` with it: hits of a program without a
//! runtime, counted from outside.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use probe_lang::Selector;
use probe_report::{Table, Time, View};

use super::agent::about_process;
use crate::args::{Disable, Enable, Measure, Status};
use crate::live::{POLL_INTERVAL, Schedule, Screen, Shown, Stop};
use crate::output::{Failure, Output, document, map_pipe_error, object};
use crate::probe_tables::Probe;
use crate::ptrace_count::{Counters, Counting, waiting};
use crate::site_list::SiteList;
use crate::terminal_width::stdout_width;
use crate::text::count;

const COUNT: &str = "count";

pub(super) fn run(args: &Measure, sites: Option<&PathBuf>, is_json: bool) -> Result<Output, Failure> {
    let pid = id(args.target.pid)?;
    let selector = parsed(&args.selector)?;
    let stop = Stop::on_signals()?;
    let mut counting = Counting::start(pid, &selector, opened(sites)?.as_ref())?;
    let mut screen = Screen::stdout(is_json);
    let mut last = None;
    let shown = watch(&counting, args, &stop, (&mut screen, is_json), &mut last);
    let progress = waiting(pid);
    // Sites become latent, however watching has ended.
    let rested = counting.disarm();
    let counters = counting.read();
    let Ok(counters) = counters else {
        drop(progress);
        let Some(last) = last else {
            return Err(Failure::Input(format!("process {pid} has ended before there was a report")));
        };
        map_pipe_error(screen.finish(&report(COUNT, &counting, &last, is_json)?))?;
        let notes = vec![format!("process {pid} has ended; this is the last report before")];
        return Ok(Output::notes(notes));
    };
    let report = report(COUNT, &counting, &counters, is_json);
    let closed = rested.and_then(|()| close(&mut counting));
    drop(progress);
    let shown = shown.and_then(|()| map_pipe_error(screen.finish(&report?)));
    closed?;
    shown?;
    Ok(Output::notes(counting.notes))
}

/// Shows reports until a time, a signal or the program's end.
fn watch(
    counting: &Counting,
    args: &Measure,
    stop: &Stop,
    (screen, is_json): (&mut Screen, bool),
    last: &mut Option<Counters>,
) -> Result<(), Failure> {
    let every = args.every.or_else(|| screen.is_terminal().then_some(Duration::from_secs(1)));
    let begun = Instant::now();
    let mut schedule = Schedule::new(every, screen.is_terminal());
    while !stop.is_set() && args.time.is_none_or(|time| begun.elapsed() < time) {
        thread::sleep(POLL_INTERVAL);
        let Ok(counters) = counting.read() else { break };
        if schedule.is_due(begun.elapsed()) {
            map_pipe_error(screen.show(&report(COUNT, counting, &counters, is_json)?))?;
            schedule.mark_shown(begun.elapsed());
        }
        *last = Some(counters);
    }
    Ok(())
}

pub(super) fn enable(args: &Enable, is_json: bool) -> Result<Output, Failure> {
    let pid = id(args.running.pid)?;
    if !args.keep {
        return Err(Failure::Usage(
            "with --ptrace, `enable` needs --keep; `count --ptrace` counts for a while".to_owned(),
        ));
    }
    let spec = args.spec.strip_suffix("=count").unwrap_or(&args.spec);
    let mut counting = Counting::start(pid, &parsed(spec)?, opened(args.list.as_ref())?.as_ref())?;
    let sites = counting.sites();
    let done = format!("{} {} counted", count(sites, "site"), if sites == 1 { "is" } else { "are" });
    let until = format!("{done} until `probectl disable --ptrace -p {pid}`");
    let text = about_process("enable", pid, if is_json { &done } else { &until }, is_json)?;
    tell(&mut counting);
    Ok(Output { notes: counting.notes, ..Output::text(text) })
}

pub(super) fn status(args: &Status, is_json: bool) -> Result<Output, Failure> {
    let mut counting = Counting::found(id(args.running.pid)?, opened(args.list.as_ref())?.as_ref())?;
    let counters = counting.read()?;
    let report = report("status", &counting, &counters, is_json)?;
    tell_unnamed(&mut counting, &counters);
    Ok(Output { notes: counting.notes, ..Output::text(report.drawn(stdout_width())) })
}

pub(super) fn disable(args: &Disable, is_json: bool) -> Result<Output, Failure> {
    let pid = id(args.running.pid)?;
    if !args.attachments.is_empty() {
        return Err(Failure::Usage("with --ptrace there are no numbers of attachments".to_owned()));
    }
    let mut counting = Counting::found(pid, opened(args.list.as_ref())?.as_ref())?;
    let progress = waiting(pid);
    let rested = counting.disarm();
    drop(progress);
    let counters = counting.read()?;
    let report = report("disable", &counting, &counters, is_json)?;
    tell_unnamed(&mut counting, &counters);
    // The numbers are shown before an error of unmapping is.
    let shown = map_pipe_error(Screen::stdout(is_json).finish(&report));
    let progress = waiting(pid);
    let closed = rested.and_then(|()| close(&mut counting));
    drop(progress);
    closed?;
    shown?;
    Ok(Output::notes(counting.notes))
}

/// Unmaps the counters, and notes the longest stop.
fn close(counting: &mut Counting) -> Result<(), Failure> {
    counting.release()?;
    tell(counting);
    Ok(())
}

/// Notes the longest time for which threads were stopped.
fn tell(counting: &mut Counting) {
    let longest = u64::try_from(counting.longest_stop().as_nanos()).unwrap_or(u64::MAX);
    counting.notes.push(format!("all threads stood for {} at most at a time", Time(longest)));
}

/// Notes hits of sites that an earlier command knew from a list, or from a file that has gone.
fn tell_unnamed(counting: &mut Counting, counters: &Counters) {
    let (sites, hits) = counting.unnamed(counters);
    if sites != 0 {
        counting.notes.push(format!(
            "{} with {} of no probe that is known here; `--list FILE` names those of a list by `coldpatch`",
            count(sites, "site"),
            count(hits, "hit")
        ));
    }
}

fn id(pid: Option<u32>) -> Result<u32, Failure> {
    pid.ok_or_else(|| Failure::Usage("--ptrace is about a process: give `-p PID`".to_owned()))
}

fn opened(path: Option<&PathBuf>) -> Result<Option<SiteList>, Failure> {
    path.map(|path| SiteList::open(path)).transpose()
}

fn parsed(text: &str) -> Result<Selector, Failure> {
    Selector::parse(text).map_err(|error| Failure::Usage(error.to_string()))
}

fn report(command: &str, counting: &Counting, counters: &Counters, is_json: bool) -> Result<Shown, Failure> {
    let mut hits = counting.hits(counters);
    hits.sort_by(|a, b| {
        let [one, other] = [a, b].map(|it| &it.row.probe);
        let place = |it: &Probe| (it.kind, it.line);
        b.count
            .cmp(&a.count)
            .then_with(|| one.path.cmp(&other.path))
            .then_with(|| place(one).cmp(&place(other)))
    });
    if is_json {
        let rows = hits.iter().map(|it| {
            let probe = &it.row.probe;
            object! {
                probe: &probe.path,
                kind: probe.kind.name(),
                file: &*probe.file,
                line: probe.line,
                sites: it.sites,
                hits: it.count,
            }
        });
        return document(command, &object! { pid: counting.pid() }, rows).map(Shown::Json);
    }
    let mut table = Table::new(["probe", "kind", "sites", "hits"]);
    let (hit, others): (Vec<_>, Vec<_>) = hits.into_iter().partition(|it| it.count != 0);
    for it in hit {
        let probe = &it.row.probe;
        table.push(probe.path.clone()).push(probe.kind.name()).push(it.sites).push(it.count);
    }
    let mut view = View::table(table);
    if !others.is_empty() {
        view.notes.push(format!("{} never hit", count(others.len() as u64, "probe")));
    }
    Ok(Shown::View(view))
}
