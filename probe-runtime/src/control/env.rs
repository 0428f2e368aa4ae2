//! Attaching without a code change: `PROBES='myapp::*=count' PROBES_OUT=counts.json ./app`.

mod destination;
mod file;
mod options;
mod output;
mod reports;

use std::env::{self, consts::EXE_SUFFIX};
use std::path::Path;
use std::process;

use destination::{Destination, Run};
#[cfg(feature = "perf")]
use options::perf;
#[cfg(feature = "profiler")]
use options::profiler;
use options::{split_options, with_options};
pub(super) use output::cross_forks;
use output::{Attached, Output, Ticket};
use reports::{Reported, formats};

use super::set::select;
#[cfg(feature = "call-tree")]
use crate::consumers::CallTree;
use crate::consumers::Count;
#[cfg(feature = "latency")]
use crate::consumers::Latency;
use crate::error::{Error, Mistake};
use crate::os;
use crate::selector::{Assigned, SelectorError, assigned};

const VARIABLE: &str = "PROBES";
const OUT: &str = "PROBES_OUT";

/// The consumers that the variable may name.
const CONSUMERS: &[&str] = &[
    "count",
    #[cfg(feature = "latency")]
    "latency",
    #[cfg(feature = "call-tree")]
    "call-tree",
    #[cfg(feature = "profiler")]
    "profile",
    #[cfg(feature = "perf")]
    "perf",
];

/// Attaches what the environment variable `PROBES` asks for: `selector=consumer`, several of them separated by
/// commas. A selector may itself hold commas: `a::*, !a::b=count` counts all of `a::*` but `a::b`. The consumer
/// is `count`, with the feature `latency` also `latency`, and with `call-tree` also `call-tree`, with
/// `profiler` also `profile`, which may have a budget: `net::**=profile(budget=0.5%)`, or in calls, `profile(budget=1000/s)`; with `perf` also `perf`,
/// which may have one too, and events, by their names: `net::**=perf(events=cycles+instructions, budget=1%)`. Without the variable, or with an empty one, nothing is attached.
///
/// # Reports
/// When the guard drops, also while a panic unwinds, or else when the program exits (`exit`, by any thread), each consumer reports: on stderr, or where
/// the variable `PROBES_OUT` says:
///
/// | `PROBES_OUT` | |
/// |---|---|
/// | `/tmp/probes-%p.json` | a file; its ending says the format |
/// | `/tmp/reports/` | a folder, for files `PROGRAM-PROCESS-NUMBER-CONSUMER.txt` |
/// | `-` | stderr |
///
/// - `%p` is the process's id, `%e` the program's name, `%c` the consumer's, `%n` its number in `PROBES`, from 1; `%%` a percent sign.
/// - Formats: `.txt` (also without an ending), `.json`, `.csv`; of `call-tree` also `.svg` (a flame graph) and `.folded`; with the feature
///   `metrics`, of `count` and `latency` also `.prom` (Prometheus's text, for the node exporter's textfile collector).
/// - Reports as `.txt` and `.prom` may share a file; others need `%c` or `%n` where there are several.
/// - A forked child reports what it has counted itself, and what it had from its parent, when it exits. Without `%p`, `-PROCESS` comes
///   before the ending of its files; streams (`/dev/stdout`, a pipe) are its parent's. A child that calls this function itself, of a parent
///   that has called it, has such files, too: of what it counts from then on, in place of what it would have reported to the same file.
/// - What a text ends with where something is missing (a consumer that failed, hits that were not delivered, sites that were refused) is said on
///   stderr for other formats, after `PROBES, consumer NUMBER (NAME):`; so are calls that were not measured, and functions that are left out,
///   in one line, for formats that have no place for them.
/// - Files appear whole, under their name, or not at all; one of that name is replaced. Folders are made. A relative path begins where the program did. What can't be
///   written goes to stderr, after a line that says why; so does what a named pipe would get that nobody reads.
///
/// On Linux, a program whose file gives it rights that whoever starts it lacks (setuid, setgid, capabilities) reports on stderr alone:
/// `PROBES_OUT` is an error there.
///
/// A program that is killed, aborts (also by a panic, with `panic = "abort"`), leaves by `_exit` or becomes another (`exec`) does not report; what
/// [`EnvGuard::report`] has written before stays, unless a program that it becomes, or starts ([`Command`](std::process::Command)), reports too:
/// that has the same variables, and replaces the same files. `%p` tells them apart (but for `exec`, which keeps the process), and so does `%e`.
///
/// Call it once, in `main`: a second guard at the same time would replace what the first reports to a file, and is refused.
///
/// # Errors
/// [`Error::Environment`] where a variable is malformed, which shows where, or another guard reports to the same file; and whatever [`select`] and
/// [`attach`](super::ProbeSet::attach) say.
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
        return Ok(EnvGuard { ticket: None });
    }
    let value = value.to_string_lossy();
    let requests = requests(&value)?;
    let run = Run {
        base: env::current_dir().unwrap_or_default(),
        program: program(),
        process: process::id(),
        is_forked: output::is_forked(),
    };
    let destination = destination(&requests, &run)?;
    let attach = |request: Request<'_>| {
        let reported = request.attach(&value)?;
        Ok(Attached { consumer: request.consumer.to_owned(), reported })
    };
    let attached = requests.into_iter().map(attach).collect::<Result<_, Error>>()?;
    let opened = Output::new(run, destination, attached).open();
    let ticket = opened.map_err(|path| {
        let problem = format!(
            "another guard of `init_from_env` reports to {} already; call it once, in `main`",
            path.display()
        );
        malformed(OUT, &env::var_os(OUT).unwrap_or_default().to_string_lossy(), 0, problem)
    })?;
    Ok(EnvGuard { ticket: Some(ticket) })
}

/// Keeps attached what [`init_from_env`] has attached; reports when it drops.
#[must_use = "dropping the guard detaches and reports"]
#[derive(Debug)]
pub struct EnvGuard {
    /// `None` where nothing was asked for.
    ticket: Option<Ticket>,
}

impl EnvGuard {
    /// Reports now, where the reports at the end will go; they replace it there. For programs that run for ever, or may be killed:
    /// say every minute, or when a signal has come (not in its handler).
    pub fn report(&self) {
        self.ticket.iter().for_each(output::report);
    }
}

impl Drop for EnvGuard {
    fn drop(&mut self) {
        self.ticket.iter().for_each(output::close);
    }
}

/// The name of its file.
fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}

/// Where these report, as the variable says.
fn destination(requests: &[Request<'_>], run: &Run) -> Result<Destination, Error> {
    let value = env::var_os(OUT).unwrap_or_default();
    if !value.is_empty() && value != "-" && os::privilege::is_raised() {
        let problem = "this program has rights that whoever started it lacks (setuid, setgid, capabilities), and \
                       writes no files that its environment names; unset it";
        return Err(malformed(OUT, &value.to_string_lossy(), 0, problem));
    }
    let value = value.into_string().map_err(|value| {
        let value = value.to_string_lossy();
        let at = value.find(char::REPLACEMENT_CHARACTER).unwrap_or_default();
        malformed(OUT, &value, at, "this is not UTF-8")
    })?;
    let malformed = |it: Mistake| malformed(OUT, &value, it.at, it.problem);
    let destination = Destination::parse(&value, Path::new(&value).is_dir()).map_err(malformed)?;
    if let Destination::Files(pattern) = &destination {
        let consumers: Vec<_> = requests.iter().map(|it| (it.consumer, formats(it.consumer))).collect();
        pattern.check(run, &consumers).map_err(malformed)?;
    }
    Ok(destination)
}

#[derive(PartialEq, Eq, Debug)]
struct Request<'a> {
    selector: &'a str,
    /// Where the selector begins in the variable.
    at: usize,
    consumer: &'a str,
    /// What stands in parentheses after it.
    options: Option<&'a str>,
}

impl Request<'_> {
    fn attach(&self, value: &str) -> Result<Box<dyn Reported>, Error> {
        let set = select(self.selector).map_err(|error| match error {
            Error::Selector(error) => {
                let at = self.at + offset(self.selector, &error);
                malformed(VARIABLE, value, at, error.problem())
            }
            error => error,
        })?;
        Ok(match self.consumer {
            #[cfg(feature = "latency")]
            "latency" => Box::new(set.attach(Latency::new())?),
            #[cfg(feature = "call-tree")]
            "call-tree" => Box::new(set.attach(CallTree::new())?),
            #[cfg(feature = "profiler")]
            "profile" => Box::new(set.attach(profiler(self.options))?),
            #[cfg(feature = "perf")]
            "perf" => Box::new(set.attach(perf(self.options))?),
            // `requests` lets no other through.
            _ => Box::new(set.attach(Count::new())?),
        })
    }
}

/// The byte that a selector's error points at.
fn offset(selector: &str, error: &SelectorError) -> usize {
    selector.char_indices().nth(error.column() - 1).map_or(selector.len(), |(at, _)| at)
}

fn malformed(variable: &'static str, value: &str, at: usize, problem: impl Into<String>) -> Error {
    Error::Environment { variable, value: value.to_owned(), at, problem: problem.into() }
}

/// Cuts the variable into requests, at the commas where a selector's terms end. Pure.
fn requests(value: &str) -> Result<Vec<Request<'_>>, Error> {
    let mut requests = Vec::new();
    // Where the selector began, and where the term at hand begins.
    let (mut start, mut at) = (0, 0);
    while at <= value.len() {
        let Assigned { mut end, mut equals } = assigned(value, at);
        if let Some(options) = with_options(value, at, end) {
            (equals, end) = (Some(options.0), options.1);
        }
        if let Some(equals) = equals {
            let right = value[equals + 1..end].trim_start();
            let at_consumer = end - right.len();
            let (consumer, options) = split_options(right.trim_end());
            if !CONSUMERS.contains(&consumer) {
                let problem = format!("`{consumer}` is not a consumer; there is {}", CONSUMERS.join(", "));
                return Err(malformed(VARIABLE, value, equals + 1, problem));
            }
            if let Some(options) = options {
                options::check(consumer, options).map_err(|mistake| {
                    let Mistake { at, problem } = mistake.after(at_consumer);
                    malformed(VARIABLE, value, at, problem)
                })?;
            }
            let selector = &value[start..equals];
            let lead = selector.len() - selector.trim_start().len();
            requests.push(Request { selector: selector.trim(), at: start + lead, consumer, options });
            start = end + 1;
        }
        at = end + 1;
    }
    if start < value.len() || requests.is_empty() {
        let problem = "no consumer for this selector; write `selector=count`";
        return Err(malformed(VARIABLE, value, start.min(value.len()), problem));
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(value: &str) -> Vec<(&str, usize, &str)> {
        requests(value).unwrap().iter().map(|r| (r.selector, r.at, r.consumer)).collect()
    }

    #[test]
    fn selectors_may_hold_commas_and_kinds() {
        assert_eq!(cut("a::*=count"), [("a::*", 0, "count")]);
        assert_eq!(cut("a::*, !a::b=count, c = count"), [("a::*, !a::b", 0, "count"), ("c", 19, "count")]);
        assert_eq!(cut("kind=entry=count"), [("kind=entry", 0, "count")]);
        assert_eq!(cut("a, kind=entry, b=count"), [("a, kind=entry, b", 0, "count")]);
        assert_eq!(cut("group=net=count"), [("group=net", 0, "count")]);
        assert_eq!(cut("a, !group=net|db, b=count"), [("a, !group=net|db, b", 0, "count")]);
    }

    #[test]
    fn paths_of_cpp_are_cut_as_selectors_cut_them() {
        assert_eq!(cut("F<a,b=c>::d=count,e=count"), [("F<a,b=c>::d", 0, "count"), ("e", 18, "count")]);
        assert_eq!(cut("geo::operator==, b=count"), [("geo::operator==, b", 0, "count")]);
        assert_eq!(cut("geo::operator===count"), [("geo::operator==", 0, "count")]);
        assert_eq!(cut(r"geo::operator\,=count"), [(r"geo::operator\,", 0, "count")]);
        assert_eq!(cut(r"geo::operator\,, a=count"), [(r"geo::operator\,, a", 0, "count")]);
    }

    #[test]
    fn a_mistake_is_one_message_that_points_at_it() {
        for (value, column, problem) in [
            ("", 1, "no consumer"),
            ("a::*", 1, "no consumer"),
            ("a=count, b", 9, "no consumer"),
            ("kind=entry", 1, "no consumer"),
            ("group=count", 1, "no consumer"),
            ("geo::operator=", 1, "no consumer"),
            ("a=cont", 3, "`cont` is not a consumer; there is count"),
            ("a=count, b=latencies", 12, "`latencies` is not a consumer; there is count"),
            ("a=", 3, "`` is not a consumer"),
        ] {
            let error = requests(value).unwrap_err().to_string();
            assert!(error.starts_with(&format!("PROBES, column {column}: ")), "{error}");
            assert!(error.contains(problem), "{error}");
        }
    }

    #[cfg(feature = "profiler")]
    #[test]
    fn a_profile_has_a_budget() {
        let cut = |value| -> Vec<_> {
            requests(value).unwrap().iter().map(|r| (r.selector, r.consumer, r.options)).collect()
        };
        assert_eq!(
            cut("a=profile, **=profile(budget=0.5%), b=profile"),
            [("a", "profile", None), ("**", "profile", Some("budget=0.5%")), ("b", "profile", None)]
        );
        for (options, is_right) in [
            ("budget=1%", true),
            ("budget = 20 /s", true),
            ("budget=1", false),
            ("budget=-1%", false),
            ("budget=NaN%", false),
            ("epoch=1%", false),
            ("", false),
        ] {
            let value = format!("kind=entry, a::*=profile({options})");
            let cut = requests(&value);
            assert_eq!(cut.is_ok(), is_right, "{options}");
            if let Err(error) = cut {
                let error = error.to_string();
                assert!(error.starts_with("PROBES, column 18: ") && error.contains("budget=1%"), "{error}");
            }
        }
    }

    #[cfg(feature = "perf")]
    #[test]
    fn perf_has_events_and_a_budget() {
        let value = "a::*, b = perf(events=cycles+instructions, budget=1%), c=perf";
        let found: Vec<_> =
            requests(value).unwrap().iter().map(|r| (r.selector, r.consumer, r.options)).collect();
        let options = Some("events=cycles+instructions, budget=1%");
        assert_eq!(found, [("a::*, b", "perf", options), ("c", "perf", None)]);
        for (value, column, problem) in [
            ("a=perf(events=cycle)", 15, "`cycle` is not an event; there is cycles, "),
            ("kind=entry =  perf( budget=1)", 28, "`1` is not a budget; write `1%` or `1000/s`"),
            ("a=perf(event=cycles)", 8, "`event` is not an option of `perf`"),
        ] {
            let error = requests(value).unwrap_err().to_string();
            assert!(error.starts_with(&format!("PROBES, column {column}: {problem}")), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(value: String) {
            if let Err(error) = requests(&value) {
                let _ = error.to_string();
            }
        }
    }
}
