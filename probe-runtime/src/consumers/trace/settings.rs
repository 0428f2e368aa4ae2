//! The options of `trace` in `PROBES`: `trace(flight, size=64M)`.

use std::fs;
use std::path::{Path, PathBuf};
#[cfg(probe_agent)]
use std::{
    fs::File,
    sync::{Arc, Mutex},
};

use super::file_name::FileName;
use super::output::is_perfetto;
use super::stacks::Depth;
use super::{Keep, Trace};
#[cfg(probe_agent)]
use crate::engine::error::Error;
use crate::report::file::without_ending;
use crate::report::program;
use probe_lang::units::size;
use probe_lang::{ParseError, Setting};

const ENDING: &str = probe_trace::Trace::ENDING;

impl Trace {
    /// Creates a trace with these options, whose file's name follows from that of the report, or
    /// from the program's.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        let mut trace = Self::to_file(format!("{}-{}.{ENDING}", program(), std::process::id()));
        trace.follows_report = true;
        for (at, it) in settings.iter().enumerate() {
            let other = match it.name() {
                "flight" => "first",
                "first" => "flight",
                _ => continue,
            };
            if !it.value().is_empty() {
                return Err(it.invalid_value(format!("`{0}` has no value; write `trace({0})`", it.name())));
            }
            if settings[..at].iter().any(|before| before.name() == other) {
                return Err(it.invalid_name("a trace keeps the first events or the latest ones (`flight`)"));
            }
            trace = if it.name() == "flight" { Self::recorder() } else { Self::first() };
        }
        let is_asked_for = |name: &str| {
            let Some(it) = settings.iter().find(|it| it.name() == name) else { return Ok(None) };
            if !it.value().is_empty() {
                return Err(it.invalid_value(format!("`{name}` has no value; write `trace({name})`")));
            }
            Ok(Some(it))
        };
        trace.has_c_values = is_asked_for("args")?.is_some();
        trace.has_threads = is_asked_for("threads")?.is_some();
        trace.depth = match (is_asked_for("stack")?, is_asked_for("caller")?) {
            (Some(_), Some(it)) => return Err(it.invalid_name("a stack has the caller")),
            (Some(_), None) => Some(Depth::Stack),
            (None, caller) => caller.map(|_| Depth::Caller),
        };
        let is_in_memory = trace.keep == Keep::Latest || trace.keep == Keep::First;
        let (mut ring, mut total) = (None, None);
        for it in settings {
            let bytes = || size(it.value()).map_err(|why| it.invalid_value(why));
            match it.name() {
                "size" => total = Some(bytes()?),
                "ring" => ring = Some(bytes()?),
                "cut" => trace.text_limit = bytes()?,
                "limit" if is_in_memory => {
                    return Err(it.invalid_name("this trace is in memory; `size` limits that"));
                }
                "limit" => trace.file_limit = Some(bytes()? as u64),
                "file" if is_in_memory => {
                    let problem = "this trace is in memory; `PROBES_OUT` names the file of its report, and `map` \
                                   one for its memory";
                    return Err(it.invalid_name(problem));
                }
                "map" | "panic" if !is_in_memory => {
                    let problem = format!(
                        "this trace is written to a file already; write `trace(flight, {})`",
                        it.name()
                    );
                    return Err(it.invalid_name(&problem));
                }
                "map" | "panic" if it.value().is_empty() => {
                    let example =
                        format!("write the file's name: `trace(flight, {}=run-%p.{ENDING})`", it.name());
                    return Err(it.invalid_value(example));
                }
                "map" => trace.rings_in = Some(it.value().into()),
                "panic" => trace.panics_to = Some(it.value().into()),
                "file" if it.value().is_empty() => {
                    return Err(
                        it.invalid_value(format!("write the file's name: `trace(file=run.{ENDING})`"))
                    );
                }
                "file" => {
                    let name = FileName::relative(Path::new(it.value()));
                    let name = name.map_err(|why| it.invalid_value(why.to_string()))?;
                    let path = name.path(std::process::id(), false);
                    (trace.keep, trace.follows_report) = (Keep::File(path), false);
                }
                _ => (),
            }
        }
        trace.total_bytes = total.unwrap_or(trace.total_bytes);
        // A small trace has small rings, so that several threads have one.
        trace.ring_bytes =
            ring.unwrap_or(trace.ring_bytes.min(trace.total_bytes / 16).max(super::RING_BYTES_MIN));
        Ok(trace)
    }

    /// Lets the trace write to this open file only, whose name chooses the format, or to none: for
    /// traces that clients of this process attach, which write to no file by its name.
    #[cfg(probe_agent)]
    pub(crate) fn confine(&mut self, opened: Option<(&Arc<File>, &Path)>) -> Result<(), Error> {
        let named = [
            ("map", self.rings_in.is_some()),
            ("panic", self.panics_to.is_some()),
            ("file", !self.is_in_memory() && !self.follows_report),
        ];
        let refused = |problem: String| Err(Error::Consumer(problem.into()));
        if let Some((option, _)) = named.iter().find(|(_, is_named)| *is_named) {
            return refused(format!(
                "`{option}` names a file, which the program itself must do: PROBES; a client opens its files itself"
            ));
        }
        match opened {
            Some(_) if self.is_in_memory() => refused(
                "this trace stays in memory; attach it without a file, and take a snapshot".to_owned(),
            ),
            None if !self.is_in_memory() => refused(
                "this trace needs a file that the client opens; to keep it in memory, write `trace(flight)`"
                    .to_owned(),
            ),
            None => Ok(()),
            Some((file, name)) => {
                self.opened = Mutex::new(Some(Arc::clone(file)));
                (self.keep, self.follows_report) = (Keep::File(name.to_owned()), false);
                Ok(())
            }
        }
    }

    /// Puts the file beside that of the report, unless somebody has chosen its name. A report for
    /// Perfetto is the file itself, which grows while the program runs; a pipe can't grow.
    pub(crate) fn follow(&mut self, report: &Path) {
        if self.follows_report {
            let is_file = is_perfetto(report) && fs::metadata(report).map_or(true, |it| it.is_file());
            let path = if is_file { report.to_owned() } else { beside(report) };
            // If there is no folder, creating the file fails and says so.
            let _ = path.parent().map(fs::create_dir_all);
            self.keep = Keep::File(path);
        }
    }
}

/// Returns the file of a trace whose report this is.
fn beside(report: &Path) -> PathBuf {
    let mut path = without_ending(report).into_os_string();
    path.push(".");
    path.push(ENDING);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::options::settings;

    fn trace(options: &str) -> Result<Trace, (usize, String)> {
        let settings: Vec<_> = settings(options).filter(|it| !it.name().is_empty()).collect();
        Trace::with_settings(&settings).map_err(|error| (error.at, error.problem))
    }

    #[test]
    fn options_choose_the_events_and_the_sizes() {
        let recorder = trace("flight, size=64M").unwrap();
        assert_eq!(
            (&recorder.keep, recorder.ring_bytes, recorder.total_bytes),
            (&Keep::Latest, 1 << 20, 64 << 20)
        );
        let small = trace("first, size=128K, cut=200").unwrap();
        assert_eq!((&small.keep, small.ring_bytes, small.text_limit), (&Keep::First, 8192, 200));
        let mapped = trace("flight, map=run-%p, panic=x").unwrap();
        assert_eq!(
            (&mapped.keep, mapped.rings_in.clone(), mapped.panics_to.clone()),
            (&Keep::Latest, Some("run-%p".into()), Some("x".into()))
        );
        let file = trace("file=a/b.probetrace, ring=64K, limit=1G").unwrap();
        assert_eq!((&file.keep, file.ring_bytes), (&Keep::File("a/b.probetrace".into()), 65536));
        assert_eq!(file.file_limit, Some(1 << 30));
        let named = trace("file=run-%p-100%%.pftrace").unwrap();
        assert_eq!(named.keep, Keep::File(format!("run-{}-100%.pftrace", std::process::id()).into()));
    }

    #[test]
    fn the_file_stands_beside_the_report() {
        let mut trace_of_report = trace("").unwrap();
        trace_of_report.follow(Path::new("/tmp/run-12.json"));
        assert_eq!(trace_of_report.keep, Keep::File("/tmp/run-12.probetrace".into()));
        trace_of_report.follow(Path::new("/tmp/run.2.firefox.json"));
        assert_eq!(trace_of_report.keep, Keep::File("/tmp/run.2.probetrace".into()));
        trace_of_report.follow(Path::new("/tmp/run-12.pftrace"));
        assert_eq!(trace_of_report.keep, Keep::File("/tmp/run-12.pftrace".into()));
        let mut named = trace("file=mine").unwrap();
        named.follow(Path::new("/tmp/run-12.pftrace"));
        assert_eq!(named.keep, Keep::File("mine".into()));
    }

    #[test]
    fn mistakes_say_where() {
        for (options, at, problem) in [
            ("flight=1", 7, "`flight` has no value; write `trace(flight)`"),
            ("stack=1", 6, "`stack` has no value; write `trace(stack)`"),
            ("stack, caller", 7, "a stack has the caller"),
            ("first, flight", 7, "a trace keeps the first events or the latest ones (`flight`)"),
            (
                "flight, file=x",
                8,
                "this trace is in memory; `PROBES_OUT` names the file of its report, and `map` one for its memory",
            ),
            ("map=x", 0, "this trace is written to a file already; write `trace(flight, map)`"),
            ("flight, limit=1M", 8, "this trace is in memory; `size` limits that"),
            ("panic=x", 0, "this trace is written to a file already; write `trace(flight, panic)`"),
            ("flight, map", 11, "write the file's name: `trace(flight, map=run-%p.probetrace)`"),
            ("file=", 5, "write the file's name: `trace(file=run.probetrace)`"),
            ("file=%x", 5, "`%` is followed by neither `p`, for the process's id, nor `%`"),
            ("size=lots", 5, "`lots` is not a size; write bytes, or `64K`, `16M`, `1G`"),
        ] {
            assert_eq!(trace(options).err(), Some((at, problem.to_owned())), "{options}");
        }
    }
}
