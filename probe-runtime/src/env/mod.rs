//! Attaching without a code change: `PROBES='myapp::*=count' PROBES_OUT=counts.json ./app`.

mod destination;
mod file;
mod help;
mod listing;
mod output;
mod watch;
mod when;

use std::env;
use std::path::Path;
use std::process;

use destination::{Destination, Run};
use listing::Listed;
use output::{Attached, Output, Ticket, say};
use watch::Watching;
use when::When;

use crate::control::{has_no_probes, probes, select};
use crate::error::{Error, shortened};
use crate::os;
use crate::patch::unmatched_lines;
use crate::report::program;
use crate::spec::{Format, Listening, Request, requests};
use crate::syntax::ParseError;

const VARIABLE: &str = "PROBES";
const OUT: &str = "PROBES_OUT";

/// Attaches what the environment variable `PROBES` asks for: `selector=consumer`, several of them
/// separated by commas. A selector may itself hold commas: `a::*, !a::b=count` counts all of `a::*`
/// but `a::b`. The consumer is `count`, with the feature `latency` also `latency`, and with
/// `call-tree` also `call-tree`, with `profiler` also `profile`, which may have a budget:
/// `net::**=profile(budget=0.5%)`, or in calls, `profile(budget=1000/s)`; with `perf` also `perf`,
/// which may have one too, and events, by their names:
/// `net::**=perf(events=cycles+instructions, budget=1%)`. Your own consumers have the names that
/// they were [registered](crate::register) with. Without the variable, or with an empty one, nothing
/// is attached.
///
/// `PROBES=help` says what the variable takes, on stderr: selectors, and the consumers of this
/// build with their options. `PROBES=list` shows which probes the program has, and
/// `PROBES='net::**=list'` those of a selector, each with its kind, sites, place and fields: on
/// stderr, or where `PROBES_OUT` says, as text, JSON or CSV. Nothing is attached then, and the
/// program goes on. What a plugin brings is not there yet.
///
/// # Reports
/// When the guard drops, also while a panic unwinds, or else when the program exits (`exit`, by any
/// thread), each consumer reports: on stderr, or where the variable `PROBES_OUT` says:
///
/// | `PROBES_OUT` | |
/// |---|---|
/// | `/tmp/probes-%p.json` | a file; its ending says the format |
/// | `/tmp/reports/` | a folder, for files `PROGRAM-PROCESS-NUMBER-CONSUMER.txt` |
/// | `-` | stderr |
///
/// - `%p` is the process's id, `%e` the program's name, `%c` the consumer's, `%n` its number in
///   `PROBES`, from 1; `%%` a percent sign.
/// - Formats: `.txt` (also without an ending), `.json`, `.csv`; of `call-tree` also `.svg` (a flame
///   graph) and `.folded`; with the feature `metrics`, of `count` and `latency` also `.prom`
///   (Prometheus's text, for the node exporter's textfile collector).
/// - Reports as `.txt` and `.prom` may share a file; others need `%c` or `%n` where there are
///   several.
/// - A forked child reports what it has counted itself, and what it had from its parent, when it
///   exits. Without `%p`, `-PROCESS` comes before the ending of its files; streams (`/dev/stdout`,
///   a pipe) are its parent's. A child that calls this function itself, of a parent that has called
///   it, has such files, too: of what it counts from then on, in place of what it would have
///   reported to the same file.
/// - What a text ends with where something is missing (a consumer that failed, hits that were not
///   delivered, sites that were refused) is said on stderr for other formats, after
///   `PROBES, consumer NUMBER (NAME):`; so are calls that were not measured, and functions that are
///   left out, in one line, for formats that have no place for them.
/// - Files appear whole, under their name, or not at all; one of that name is replaced. Folders are
///   made. A relative path begins where the program did. What can't be written goes to stderr,
///   after a line that says why; so does what a named pipe would get that nobody reads.
///
/// On Linux, a program whose file gives it rights that whoever starts it lacks (setuid, setgid,
/// capabilities) reads neither variable, and says so in one line.
///
/// # When
/// | | |
/// |---|---|
/// | at the end | the guard drops, the program exits, or `SIGINT`, `SIGTERM` or `SIGHUP` end it |
/// | `PROBES_SIGNALS=none` | signals end the program without a report; or which of the three end it with one, in either case: `INT,TERM` |
/// | `PROBES_EVERY=10s` | every ten seconds as well |
/// | `PROBES_ON=SIGUSR1` | and each time that the program is sent this signal |
/// | [`EnvGuard::report`] | and when the program itself asks |
///
/// Reports to a file replace each other, those to a stream follow each other.
///
/// - A signal that ends the program does so once the reports are written: its parent sees an end by
///   that signal. A second one ends it at once.
/// - Only signals that have their default action when the guard is made are caught. One that is
///   ignored stays so, one that the program handles is its own, also from a later moment on; and
///   one that threads block, to wait for it, comes to them.
/// - A program that closes all its descriptors, to become a daemon, is told all the same; the
///   thread then looks every 20 ms.
/// - A thread waits for signals and the time, `probe-reports`. There is none with
///   `PROBES_SIGNALS=none` alone. A forked child has none: signals do there what they do by
///   default. The guard's end gives back the default actions.
///
/// A program that is killed, aborts (also by a panic, with `panic = "abort"`), leaves by `_exit` or
/// becomes another (`exec`) does not report; what it has reported before stays, unless a program
/// that it becomes, or starts ([`Command`](std::process::Command)), reports too: that has the same
/// variables, and replaces the same files. `%p` tells them apart (but for `exec`, which keeps the
/// process), and so does `%e`.
///
/// Call it once, in `main`: a second guard at the same time would replace what the first reports to
/// a file, and is refused.
///
/// # Errors
/// [`Error::Environment`] where a variable is malformed, which shows where, or where another guard
/// reports to the same file. Nothing is attached then.
///
/// What this program, or this machine, does not have is no error. A child inherits its parent's
/// variables, and a selector may name probes of another build. A selector that names no probe, and
/// a consumer that can't be attached ([`select`](crate::select) and
/// [`attach`](super::ProbeSet::attach) say why), are a line on stderr; all others are attached. A
/// program without probes (`--cfg probe_off`) says so in one line, and does not read the variables
/// further.
///
/// ```
/// fn main() -> Result<(), probe_runtime::Error> {
///     let _probes = probe_runtime::init_from_env()?;
///     // … the program …
///     Ok(())
/// }
/// ```
pub fn init_from_env() -> Result<EnvGuard, Error> {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    if value.is_empty() {
        return Ok(EnvGuard::default());
    }
    if os::privilege::is_raised() {
        say(&format!(
            "{VARIABLE}: this program has rights that whoever started it lacks (setuid, setgid, capabilities); it \
             attaches nothing that its environment names"
        ));
        return Ok(EnvGuard::default());
    }
    if value.to_str().is_some_and(|value| value.trim() == help::ASKED) {
        say(help::text().trim_end());
        return Ok(EnvGuard::default());
    }
    if has_no_probes() {
        let without = if cfg!(probe_backend = "off") { "was built without" } else { "has no" };
        say(&format!("{VARIABLE}: this program {without} probes; nothing is attached"));
        return Ok(EnvGuard::default());
    }
    let value = value.to_string_lossy();
    let run = Run {
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
    let requests = requests(&value).map_err(|it| malformed(VARIABLE, &value, it))?;
    let consumers = requests.iter().enumerate();
    let consumers: Vec<_> = consumers.map(|(at, it)| (at + 1, it.row.name, it.row.formats)).collect();
    let destination = destination(&consumers, &run)?;
    let when = when()?;
    let attached: Vec<_> = requests.iter().enumerate().filter_map(|(at, it)| attach(at + 1, it)).collect();
    if attached.is_empty() {
        return Ok(EnvGuard::default());
    }
    let opened = Output::new(run, destination, attached).open();
    let ticket = opened.map_err(|path| {
        let problem = format!(
            "another guard of `init_from_env` reports to {} already; call it once, in `main`",
            path.display()
        );
        malformed(OUT, &env::var_os(OUT).unwrap_or_default().to_string_lossy(), ParseError { at: 0, problem })
    })?;
    Ok(EnvGuard { ticket: Some(ticket), _watch: watch::start(&when) })
}

/// What can't be attached is said, and the program goes on: it may be another one than the variable
/// was written for.
fn attach(number: usize, request: &Request<'_>) -> Option<Attached> {
    match request.attach() {
        Ok(Listening { reported, unmatched }) => {
            unmatched_lines(&unmatched).for_each(|line| say(&format!("{VARIABLE}: {line}")));
            Some(Attached { number, consumer: request.row.name.to_owned(), reported })
        }
        Err(error) => {
            let request = request.to_string();
            say(&format!("{VARIABLE}: `{}` is not attached: {error}", shortened(&request)));
            None
        }
    }
}

/// Keeps attached what [`init_from_env`] has attached; reports when it drops.
///
/// ```
/// fn main() -> Result<(), probe_runtime::Error> {
///     let probes = probe_runtime::init_from_env()?;
///     // … the program …
///     drop(probes); // reports
///     Ok(())
/// }
/// ```
#[must_use = "dropping the guard detaches and reports"]
#[derive(Default, Debug)]
pub struct EnvGuard {
    /// `None` where nothing was asked for.
    ticket: Option<Ticket>,
    /// Until the last report is written.
    _watch: Option<Watching>,
}

impl EnvGuard {
    /// Reports now, where the reports at the end will go; they replace it there. For programs that
    /// run for ever, or may be killed: at a moment that they choose (not in a signal handler).
    pub fn report(&self) {
        self.ticket.iter().for_each(output::report);
    }
}

impl Drop for EnvGuard {
    fn drop(&mut self) {
        self.ticket.iter().for_each(output::close);
    }
}

/// When reports are made besides at the end.
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

/// Shows the probes that a selector names, or all, where reports would go.
fn list(listed: Listed<'_>, run: &Run, destination: &Destination) {
    let probes = match listed {
        Listed::All => probes(),
        Listed::Selected(selector) => match select(selector) {
            Ok(set) => set.probes(),
            Err(error) => return say(&format!("{VARIABLE}: {error}")),
        },
    };
    match destination {
        Destination::Stderr => say(listing::listing(probes, Format::Text).trim_end()),
        Destination::Files(pattern) => {
            let paths = pattern.paths(run, &[(1, listing::NAME)]);
            output::write(&paths[0], &listing::listing(probes, pattern.format));
        }
    }
}

/// Where these report, as the variable says: the number, name and formats of each.
fn destination(consumers: &[(usize, &str, &[Format])], run: &Run) -> Result<Destination, Error> {
    let value = env::var_os(OUT).unwrap_or_default();
    let value = value.into_string().map_err(|value| {
        let value = value.to_string_lossy();
        let at = value.find(char::REPLACEMENT_CHARACTER).unwrap_or_default();
        malformed(OUT, &value, ParseError { at, problem: "this is not UTF-8".to_owned() })
    })?;
    let malformed = |it: ParseError| malformed(OUT, &value, it);
    let destination = Destination::parse(&value, Path::new(&value).is_dir()).map_err(malformed)?;
    if let Destination::Files(pattern) = &destination {
        pattern.check(run, consumers).map_err(malformed)?;
    }
    Ok(destination)
}

fn malformed(variable: &'static str, value: &str, ParseError { at, problem }: ParseError) -> Error {
    Error::Environment { variable, value: value.to_owned(), at, problem }
}
