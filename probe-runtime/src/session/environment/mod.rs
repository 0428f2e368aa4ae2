//! Attaching without a code change: `PROBES='myapp::*=count' PROBES_OUT=counts.json ./app`.
//!
//! ```text
//! PROBES=list, help ──▶ listing, help (pure)
//! PROBES ──▶ spec ▶ attachments ──▶ rendering (no lock) ▶ output: pieces, in order ▶ destination
//! signals, intervals, new probes ──▶ watch (a thread) ─┘
//!                                    forked: children that have not reported
//! ```

mod agent_variables;
mod forked;
mod help;
mod listing;
mod output;
mod rendering;
mod watch;
mod when;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process;

use listing::ProbeListing;
use output::Ticket;
use rendering::{AttachedConsumer, Columns, Output, write_file};
use watch::Watching;
use when::When;

use crate::engine::control::{infos_with_objects, probe_count, select_parsed};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::stderr::print_line;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{UnmatchedTerm, unmatched_lines};
use crate::report::{file, program};
use crate::session::spec::{
    AttachedText, Format, OutputPolicy, ReportFiles, SpecAst, Triggers, attach_ast, own_file, parse,
};
use probe_lang::ParseError;
use probe_lang::destination::{Destination, ProgramRun};
use probe_lang::error::shortened;

const VARIABLE: &str = "PROBES";
const OUT: &str = "PROBES_OUT";

/// Attaches the consumers that the environment variable `PROBES` names, as `selector=consumer`,
/// several of them separated by commas. A selector may itself hold commas: `a::*, !a::b=count`
/// counts all of `a::*` but `a::b`.
///
/// The consumer is `count`; `latency`, `call-tree`, `profile`, `perf` and `trace` need the features
/// `latency`, `call-tree`, `profiler`, `perf` and `trace`. `profile` may have a budget as a share
/// of time, `net::**=profile(budget=0.5%)`, or in calls, `profile(budget=1000/s)`. So may `perf`,
/// which also takes events by their names:
/// `net::**=perf(events=cycles+instructions, budget=1%)`. `trace` writes each hit to a file while
/// the program runs; `trace(flight, size=64M)` keeps the latest in memory, for the report.
/// `trace(flight, map=last-%p.probetrace)` keeps them in a file, which has them when the process is
/// killed, and `trace(flight, panic=FILE)` writes a snapshot when a thread panics. `tracing` (the
/// feature of that name) makes spans and events for the program's subscriber. Your own consumers
/// have the names that they were [registered](crate::spec::register) with. Without the variable, or
/// with an empty one, nothing is attached.
///
/// Selectors are [persistent](crate::ProbeSet::persistent): probes that appear later join, before
/// the next report at the latest. A selector that matches nothing yet is noted at once, and in the
/// report if it is still so. With the feature `finstrument`, the thread that waits for signals and
/// intervals lets discovered functions join within 50 ms. The selectors of triggers must match
/// probes.
///
/// Triggers stand between consumers, separated by commas, too: see [below](#triggers).
///
/// `PROBES=help` prints on stderr the selectors and the consumers of this build with their options.
/// `PROBES=list` lists the probes of the program, and `PROBES='net::**=list'` those of a selector,
/// each with its kind, sites, place and fields. The list goes to stderr, or to the file that
/// `PROBES_OUT` names, as text, JSON or CSV. Nothing is attached then, and the program continues.
/// Probes of plugins that are loaded later are not listed.
///
/// Text on a terminal is cut to its width: names lose their beginnings, numbers nothing.
/// `COLUMNS=1000` keeps all whole.
///
/// # Reports
/// Each consumer reports when the guard drops, also while a panic unwinds, or else when any thread
/// calls `exit`. Reports go to stderr, or to the destination in the variable `PROBES_OUT`:
///
/// | `PROBES_OUT` | |
/// |---|---|
/// | `/tmp/probes-%p.json` | a file; its ending chooses the format |
/// | `/tmp/reports/` | a folder, for files `PROGRAM-PROCESS-NUMBER-CONSUMER.txt` |
/// | `-` | stderr |
///
/// - `%p` is the process id, `%e` the program's name, `%c` the consumer's name, and `%n` its number
///   in `PROBES`, from 1; `%%` is a percent sign.
/// - Formats: `.txt` (also without an ending), `.json` and `.csv`; for `call-tree` also `.svg` (a
///   flame graph) and `.folded`; with the feature `metrics`, for `count` and `latency` also `.prom`
///   (Prometheus's text, for the node exporter's textfile collector).
/// - `trace` reports as `.pftrace` (for <https://ui.perfetto.dev>), `.json` (Chrome's viewers),
///   `.firefox.json` (the Firefox Profiler), `.folded`, and `.probetrace`, which the crate
///   `probe-trace` reads. A `.pftrace` or a `.probetrace` is itself the file that grows while the
///   program runs. For other formats that file stands beside the report, as `.probetrace`. Without
///   `PROBES_OUT` it is `PROGRAM-PROCESS-NUMBER-CONSUMER.probetrace` in the working directory.
/// - Reports as `.txt` and `.prom` may share a file. In other formats, several consumers need `%c`
///   or `%n` in the name.
/// - A forked child reports its own hits and those inherited from its parent when it exits. Without
///   `%p`, `-PROCESS` is added before the ending of its files. It writes to its parent's streams
///   (`/dev/stdout`, a pipe). A line on stderr after a process's last report counts its children
///   that have not reported by then: those that leave by `_exit`, say. If parent and child both
///   call this function, the child has such files, too. They hold what the child counts from then
///   on, and replace the inherited reports to the same files.
/// - A text report ends with notes on anything that is missing: a consumer that failed, hits that
///   were not delivered, sites that were refused. For other formats these notes go to stderr, after
///   `PROBES, consumer NUMBER (NAME):`. If a format can't tell of calls that were not measured and
///   functions that are left out, one line on stderr does.
/// - Files appear complete or not at all, and replace files of the same name. A file of `trace`
///   that grows while the program runs replaces the previous one when it is attached. Missing
///   folders are created. A relative path begins in the program's working directory at its start.
///   If a file can't be written, its content goes to stderr after a line with the reason; so does a
///   report to a named pipe without a reader.
///
/// On Linux, a program whose file gives it more rights than its caller has (setuid, setgid,
/// capabilities) ignores both variables and says so in one line.
///
/// # Triggers
/// With the feature `trace`, a trigger takes a snapshot of each flight recorder when a call took
/// too long:
///
/// ```text
/// PROBES='when latency(db::query) > 5ms then snapshot, **=trace(flight, size=64M)'
/// PROBES='when latency(db::query) > 5ms then attach db::** for 200ms, snapshot,
/// net::**=trace(flight)'
/// ```
///
/// - It is a rule about single calls (see `docs/rules.md`): `latency(…)` over a limit, and no other
///   figure. `latency(…)` has a selector; any call of these functions may trigger, when it ends.
///   The second form first attaches further probes to the recorders, for that time, and then
///   detaches them.
/// - A flight recorder is a `trace(flight)` or `trace(first)` of the same variable. Its snapshot is
///   what a report would be, in a file beside it: `run-12.pftrace` has `run-12-snapshot-1.pftrace`.
///   If the format of reports has no place for events, or reports go to a stream, snapshots are
///   `.pftrace`. A line on stderr names the call and the file.
/// - Snapshots are numbered, for all triggers together, so that none replaces another one of this
///   run. A trigger takes ten: `snapshot at most 50 times`. Each `snapshot in one file` replaces
///   the one before, and their number is not limited.
/// - After a snapshot the trigger rests for a second: `snapshot every 1m`. Calls that take too long
///   meanwhile are ignored, and the next line on stderr counts them.
/// - Snapshots are written on a thread of the trigger's own. At the end, the program waits until a
///   snapshot under way is written, and cuts short the time of an `attach`. A forked child has no
///   triggers; probes that one has attached for a while at that moment stay attached there.
///
/// # Other processes
/// With the feature `agent`, `PROBE_AGENT=1` lets other processes of the same user list the probes,
/// attach consumers and read reports while the program runs: see the module `agent`. It needs no
/// `PROBES`. The agent stays when the guard drops. If it can't be started, one line on stderr says
/// why.
///
/// # Rules
/// With the feature `agent`, `PROBE_RULES=FILE` lets the program follow rules by itself: when a
/// condition over figures of its probes holds, then it arms consumers, records traces or takes
/// snapshots. `docs/rules.md` has the language. `PROBE_RULES_LOG=FILE` takes the log, a line for
/// each event; without it, that is stderr. The rules stay when the guard drops.
///
/// # When
/// | | |
/// |---|---|
/// | at the end | the guard drops, the program exits, or `SIGINT`, `SIGTERM` or `SIGHUP` ends it |
/// | `PROBES_SIGNALS=none` | signals end the program without a report; or name those of the three that end it with one, in upper or lower case: `INT,TERM` |
/// | `PROBES_EVERY=10s` | also every ten seconds |
/// | `PROBES_ON=SIGUSR1` | also each time that the program gets this signal |
/// | [`EnvGuard::report`] | also when the program itself asks |
///
/// A report to a file replaces the previous one. Reports to a stream follow each other.
///
/// - A signal ends the program after the reports are written, and the parent process sees the
///   program die by that signal. A second signal ends it at once.
/// - Only signals that have their default action when the guard is made are caught. An ignored
///   signal stays ignored. A signal that the program handles, even if it installs the handler
///   later, goes to that handler. A signal that threads block in order to wait for it goes to them.
/// - A daemon that closes all its descriptors still gets its signals; the thread then checks for
///   them every 20 ms.
/// - The thread `probe-reports` waits for signals and intervals. With `PROBES_SIGNALS=none` alone
///   there is no such thread. A forked child has none: signals have their default action there.
///   Dropping the guard restores the default actions.
///
/// A program that is killed, aborts (also by a panic, with `panic = "abort"`), calls `_exit` or
/// becomes another program (`exec`) does not report. Its earlier reports stay, unless a program
/// that it becomes or starts ([`Command`](std::process::Command)) reports too: that program has the
/// same variables, and replaces the same files. `%p` tells the files apart, except after `exec`,
/// which keeps the process id. `%e` tells different programs apart.
///
/// Call it once, in `main`. A second guard at the same time is refused if it would replace the
/// files of the first.
///
/// # Errors
/// [`Error::Environment`] if a variable is malformed, with the place of the mistake, or if another
/// guard reports to the same file. Nothing is attached then.
///
/// A probe or a consumer that can't be found or attached is no error: a child process inherits its
/// parent's variables, and a selector may name probes of another build. If a selector matches no
/// probe or a consumer can't be attached ([`select`](crate::select) and
/// [`attach`](crate::ProbeSet::attach) say why), one line on stderr says so; all others are
/// attached. A program without probes (`--cfg probe_off`) says so in one line and ignores the other
/// variables.
///
/// ```
/// fn main() -> Result<(), probe_runtime::Error> {
///     let _probes = probe_runtime::init_from_env()?;
///     // … the program …
///     Ok(())
/// }
/// ```
pub fn init_from_env() -> Result<EnvGuard, Error> {
    agent_variables::start_agent_if_set()?;
    let rules = agent_variables::read_rules_if_set()?;
    let guard = attach_asked()?;
    // Only now: after an error, nothing is attached.
    rules.follow();
    Ok(guard)
}

/// Attaches the consumers that `PROBES` names.
fn attach_asked() -> Result<EnvGuard, Error> {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    if value.is_empty() {
        return Ok(EnvGuard::default());
    }
    if os::process::has_raised_rights() {
        print_line(&format!(
            "{VARIABLE}: this program has rights that whoever started it lacks (setuid, setgid, capabilities); it \
             attaches nothing that its environment names"
        ));
        return Ok(EnvGuard::default());
    }
    if value.to_str().is_some_and(|value| value.trim() == help::ASKED) {
        print_line(help::text().trim_end());
        return Ok(EnvGuard::default());
    }
    if cfg!(probe_backend = "off") {
        print_line(&format!("{VARIABLE}: this program was built without probes; nothing is attached"));
        return Ok(EnvGuard::default());
    }
    let value = value.to_string_lossy();
    let run = ProgramRun {
        base: env::current_dir().unwrap_or_default(),
        program: program(),
        process: process::id(),
        is_forked: output::is_forked(),
    };
    if let Some(listed) = listing::asked(&value).map_err(|it| malformed(VARIABLE, &value, it))? {
        let destination = destination(&[(1, listing::NAME, listing::FORMATS)], &run)?;
        list(listed, &run, &destination);
        return Ok(EnvGuard::default());
    }
    let spec = parse(&value).map_err(|it| malformed(VARIABLE, &value, it))?;
    let consumers = spec.items.iter().map(|it| it.consumer.row).enumerate();
    let consumers: Vec<_> = consumers.map(|(at, it)| (at + 1, it.name, it.formats)).collect();
    let destination = destination(&consumers, &run)?;
    let when = when()?;
    let reports = ReportFiles { files: files(&destination, &run, &consumers), format: destination.format() };
    let (attached, triggers) = attach(&spec, &reports);
    if attached.is_empty() {
        return Ok(EnvGuard::default());
    }
    let opened = output::open(Output::new(run, destination, attached));
    let ticket = opened.map_err(|path| {
        let problem = format!(
            "another guard of `init_from_env` reports to {} already; call it once, in `main`",
            path.display()
        );
        malformed(OUT, &env::var_os(OUT).unwrap_or_default().to_string_lossy(), ParseError { at: 0, problem })
    })?;
    output::keep(&ticket, triggers);
    Ok(EnvGuard { ticket: Some(ticket), _watch: watch::start(&when) })
}

/// Attaches the consumers and triggers. Reports failures on stderr and continues: the variable may
/// have been written for another program.
fn attach(spec: &SpecAst, reports: &ReportFiles) -> (Vec<AttachedConsumer>, Triggers) {
    let mut failed = |request: &dyn Display, error: Error| {
        let request = request.to_string();
        print_line(&format!("{VARIABLE}: `{}` is not attached: {error}", shortened(&request)));
        Ok(())
    };
    let Ok(attached) = attach_ast(spec, reports, &|report| OutputPolicy::Beside(report), &mut failed) else {
        return Default::default();
    };
    let AttachedText { consumers, triggers, unmatched } = attached;
    let consumers = consumers.into_iter().map(|(at, it)| {
        say_unmatched(&it.unmatched);
        if !it.has_probes {
            let item = spec.items[at].to_string();
            print_line(&format!(
                "{VARIABLE}: `{}` is attached to no probe yet; those that appear later join",
                shortened(&item)
            ));
        }
        let consumer = spec.items[at].consumer.row.name.to_owned();
        AttachedConsumer { number: at + 1, consumer, reported: it.reported }
    });
    let consumers: Vec<_> = consumers.collect();
    say_unmatched(&unmatched);
    (consumers, triggers)
}

fn say_unmatched(terms: &[UnmatchedTerm]) {
    unmatched_lines(terms).for_each(|line| print_line(&format!("{VARIABLE}: {line}")));
}

/// Keeps the consumers of [`init_from_env`] attached; reports when it drops.
///
/// ```
/// fn main() -> Result<(), probe_runtime::Error> {
///     let probes = probe_runtime::init_from_env()?;
///     // … the program …
///     drop(probes); // reports
///     Ok(())
/// }
/// ```
#[must_use = "dropping the guard detaches and reports, and `let _ =` drops it at once: give it a name, such as \
              `let _probes =`"]
#[derive(Default, Debug)]
pub struct EnvGuard {
    /// `None` if no consumer was asked for.
    ticket: Option<Ticket>,
    /// Dropped after the last report is written.
    _watch: Option<Watching>,
}

impl EnvGuard {
    /// Reports now, to the same destination as at the end; a later report to a file replaces this
    /// one. For programs that run for ever or may be killed. Must not be called in a signal
    /// handler.
    pub fn report(&self) {
        self.ticket.iter().for_each(output::report);
    }
}

impl Drop for EnvGuard {
    fn drop(&mut self) {
        self.ticket.iter().for_each(output::close);
    }
}

/// Reads when to report besides at the end.
fn when() -> Result<When, Error> {
    let [every, on, signals] =
        [when::EVERY, when::ON, when::SIGNALS].map(|name| env::var_os(name).unwrap_or_default());
    let [every, on, signals] = [&every, &on, &signals].map(|value| value.to_string_lossy());
    When::parse(&every, &on, &signals).map_err(|(variable, mistake)| {
        let value = match variable {
            when::EVERY => &every,
            when::ON => &on,
            _ => &signals,
        };
        malformed(variable, value, mistake)
    })
}

/// Lists the probes of a selector, or all probes, at the destination of reports.
fn list(listed: ProbeListing, run: &ProgramRun, destination: &Destination) {
    let ids = match listed {
        ProbeListing::All => (0..probe_count()).map(ProbeId::new).collect(),
        ProbeListing::Selected(selector) => match select_parsed(&selector) {
            Ok(set) => set.ids().to_vec(),
            Err(error) => return print_line(&format!("{VARIABLE}: {error}")),
        },
    };
    let probes = infos_with_objects(&ids).into_iter().map(|(info, _)| info).collect();
    match destination {
        Destination::Stderr => {
            let columns = Columns::read().of_stderr();
            print_line(listing::listing(probes, Format::Text, columns).trim_end());
        }
        Destination::Files(pattern) => {
            let paths = pattern.paths(run, &[(1, listing::NAME)]);
            write_file(&paths[0], &listing::listing(probes, pattern.format, None));
        }
    }
}

/// Returns the destination for these consumers, given by number, name and formats.
fn destination(consumers: &[(usize, &str, &[Format])], run: &ProgramRun) -> Result<Destination, Error> {
    let value = env::var_os(OUT).unwrap_or_default();
    let value = value.into_string().map_err(|value| {
        let value = value.to_string_lossy();
        let at = value.find(char::REPLACEMENT_CHARACTER).unwrap_or_default();
        malformed(OUT, &value, ParseError { at, problem: "this is not UTF-8".to_owned() })
    })?;
    let malformed = |it: ParseError| malformed(OUT, &value, it);
    let destination = Destination::parse(&value, Path::new(&value).is_dir()).map_err(malformed)?;
    if let Destination::Files(pattern) = &destination {
        pattern.check(run, cfg!(feature = "metrics"), consumers).map_err(malformed)?;
    }
    Ok(destination)
}

/// Returns the file of each consumer's report, with an ending, for consumers that write files
/// beside it. If reports go to a stream, it is in the program's folder.
fn files(
    destination: &Destination,
    run: &ProgramRun,
    consumers: &[(usize, &str, &[Format])],
) -> Vec<PathBuf> {
    let file = |(number, name, _): &(usize, &str, _)| {
        let own = || run.base.join(own_file(&run.program, run.process, *number, name));
        let Destination::Files(pattern) = destination else { return own() };
        let path = run.base.join(pattern.path(run, *number, name));
        match pattern.ending() {
            _ if path.exists() && file::is_stream(&path) => own(),
            Some(_) => path,
            None => [path.into_os_string(), ".txt".into()].into_iter().collect::<OsString>().into(),
        }
    };
    consumers.iter().map(file).collect()
}

fn malformed(variable: &'static str, value: &str, ParseError { at, problem }: ParseError) -> Error {
    Error::Environment { variable, value: value.to_owned(), at, problem }
}
