//! `count`, `latency`, `calls`, `profile`, `perf`: a consumer's reports while a program runs.

use std::time::Duration;

use probe_core::Kind;
use probe_protocol::{Attach, Client, ClientError, FailureKind, Probe, ReportValues};

use crate::args::{Measure, Running, Target};
use crate::live::{Program, Schedule, Screen, Shown, Stop, WatchEnd, attachment_notes, unless_ended, watch};
use crate::output::{Exit, Failure, Output, map_pipe_error};
use crate::progress::Progress;

/// The time between two reports of a program that was started here, which may end before it can be
/// asked once more.
const CHILD_REPORT_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Measure, consumer: &str, is_json: bool) -> Result<Output, Failure> {
    let stop = Stop::on_signals()?;
    let mut program = connect_or_start(&args.target, &stop)?;
    let attached = program.client.attach(&Attach::new(format!("{}={consumer}", args.selector)));
    let attached = attached.map_err(|error| match error {
        ClientError::Ended => unreported(&program.end_reason()),
        error => error.into(),
    })?;
    let mut screen = Screen::stdout(is_json);
    let shows = args.every.or_else(|| screen.is_terminal().then_some(Duration::from_secs(1)));
    let every = shows.or_else(|| program.is_child().then_some(CHILD_REPORT_INTERVAL));
    let mut notes = attachment_notes(&attached);
    let asked = AnswerProgress::of(&program);
    let mut latest = None;
    let schedule = Schedule::new(every, screen.is_terminal());
    let watched = watch(&mut program.client, &stop, args.time, schedule, |client, _| {
        let progress = asked.wait();
        let report = report(client, attached.id, is_json)?;
        drop(progress);
        let Some(report) = report else { return Ok(()) };
        if shows.is_some() {
            map_pipe_error(screen.show(&report.shown))?;
        }
        latest = Some(report);
        Ok(())
    })?;
    let last = match watched {
        WatchEnd::Stopped => {
            let _progress = asked.wait();
            pause_and_report(&mut program.client, attached.id, is_json)?
        }
        WatchEnd::Disconnected => None,
    };
    let end = last.is_none().then(|| program.end_reason());
    let Some(report) = last.or(latest) else {
        return Err(unreported(&end.unwrap_or_default()));
    };
    notes.extend(end.map(|end| format!("{end}; this is the last report before")));
    // The report itself may name selectors that match nothing.
    if let Shown::View(view) = &report.shown {
        notes.retain(|note| !view.notes.iter().any(|it| it.contains(note.as_str())));
    }
    map_pipe_error(screen.finish(&report.shown))?;
    let exit = if report.has_rows {
        Exit::Done
    } else {
        exit_of_empty_report(&mut program, args, consumer, is_json, &mut notes)
    };
    // A program that was started here ends before this command does. A signal ends both.
    if !stop.is_set() {
        notes.extend(program.finish(watched));
    }
    Ok(Output { notes, exit, ..Output::text(String::new()) })
}

/// A consumer's report.
struct Report {
    shown: Shown,
    has_rows: bool,
}

/// Asks for the report of an attachment's only consumer; `None` if the program has ended.
fn report(client: &mut Client, attachment: u32, is_json: bool) -> Result<Option<Report>, Failure> {
    if is_json {
        let report = unless_ended(client.document(attachment, 0, &[]))?;
        return Ok(report.map(|ReportValues { values, .. }| Report {
            has_rows: !values.rows.is_empty(),
            shown: Shown::Json(values.json() + "\n"),
        }));
    }
    let report = unless_ended(client.view(attachment, 0))?;
    Ok(report.map(|ReportValues { values, .. }| Report {
        has_rows: !values.is_empty(),
        shown: Shown::View(values),
    }))
}

/// Returns how a command with an empty report ends, and adds the reason.
fn exit_of_empty_report(
    program: &mut Program,
    args: &Measure,
    consumer: &str,
    is_json: bool,
    notes: &mut Vec<String>,
) -> Exit {
    let is_point = |it: &Probe| it.kind == Kind::Point.name();
    match program.client.list(&args.selector) {
        Ok(probes) if probes.is_empty() => Exit::NoMatch,
        Ok(probes) if CALL_CONSUMERS.contains(&consumer) && probes.iter().all(is_point) => {
            // A view has a note of its own.
            if is_json {
                notes.push(format!(
                    "`{}` matches points only: points have no calls; select functions, or count or trace them",
                    args.selector
                ));
            }
            Exit::NoMatch
        }
        Err(ClientError::Failed(failure)) if failure.kind == FailureKind::NoMatch => Exit::NoMatch,
        // A selector may have an expression, and the program may have ended.
        _ => Exit::Done,
    }
}

/// The consumers that pair the entries and exits of functions.
const CALL_CONSUMERS: [&str; 6] =
    ["latency", "latency(cpu)", "call-tree", "call-tree(cpu)", "profile", "perf"];

/// The failure of a program whose connection ended too soon.
fn unreported(end: &str) -> Failure {
    Failure::Input(format!("{end} before there was a report; ask for some by --every"))
}

/// Connects to the target, or starts it.
pub(super) fn connect_or_start(target: &Target, stop: &Stop) -> Result<Program, Failure> {
    let connected = connect(target.pid, target.name.as_deref(), target.no_inject);
    connected.unwrap_or_else(|| Program::start(&target.command, stop))
}

/// The same, but a program that is started here has no terminal.
pub(super) fn start_detached(target: &Target, stop: &Stop) -> Result<Program, Failure> {
    let connected = connect(target.pid, target.name.as_deref(), target.no_inject);
    connected.unwrap_or_else(|| Program::start_detached(&target.command, stop))
}

/// Connects to a running program.
pub(super) fn connect_running(running: &Running) -> Result<Program, Failure> {
    let connected = connect(running.pid, running.name.as_deref(), running.no_inject);
    connected.unwrap_or_else(|| Err(Failure::Usage("give a process by `-p PID` or `-n NAME`".to_owned())))
}

/// Connects to a process by its id or name, if it has one. An agent may be injected into the
/// former.
fn connect(pid: Option<u32>, name: Option<&str>, no_inject: bool) -> Option<Result<Program, Failure>> {
    match pid {
        Some(pid) if no_inject => Some(Program::connect(pid)),
        Some(pid) => Some(Program::connect_or_inject(pid)),
        None => name.map(Program::connect_by_name),
    }
}

/// Shows that an answer is waited for. Has no process if the program was started here, since it may
/// write to the same terminal.
pub(super) struct AnswerProgress(Option<u32>);

impl AnswerProgress {
    /// Takes the process of a program.
    pub(super) fn of(program: &Program) -> Self {
        Self((!program.is_child()).then_some(program.process.pid))
    }

    /// Begins to show that an answer is waited for.
    pub(super) fn wait(&self) -> Option<Progress> {
        self.0.map(|pid| Progress::start(&format!("waiting for an answer of process {pid}"), 0))
    }
}

/// Makes the probes latent and asks for the final report.
fn pause_and_report(client: &mut Client, attachment: u32, is_json: bool) -> Result<Option<Report>, Failure> {
    match unless_ended(client.pause(attachment))? {
        Some(_) => report(client, attachment, is_json),
        None => Ok(None),
    }
}
