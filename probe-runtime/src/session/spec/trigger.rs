//! Triggers of a spec: `when latency(db::query) > 5ms then snapshot`.
//!
//! Life cycle: the probes of a parsed trigger are selected ▸ its [`Trigger`] is attached after the
//! flight recorders of the same text, so that a recorder has the end of a call that triggers ▸ a
//! call takes too long ▸ the trigger's thread arms more probes for a while, if the text says so,
//! and writes a snapshot of each recorder, a file beside the recorder's report.

use std::any::Any;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Format;
use super::attach::{AttachedText, Failed, ReportFiles};
use super::parse::SpecAst;
use super::reported::Reported;
use crate::consumers::{Trace, Trigger, TriggerCall};
use crate::engine::control::{Attachment, ProbeSet, select_parsed};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{TextPolicy, UnmatchedTerm};
use crate::report::{Staged, file};
use probe_lang::spec::CallTrigger;
use probe_report::Time;

/// The attached triggers of a text. Dropping them waits until a snapshot under way is written.
#[derive(Default, Debug)]
pub(crate) struct Triggers(Vec<Attachment<Trigger>>);

impl Triggers {
    /// Waits until the snapshots under way are written. No later call triggers one. Probes that are
    /// attached for a while are so no longer.
    pub(crate) fn end(&self) {
        self.0.iter().for_each(|trigger| trigger.end());
    }
}

/// Selects the probes of triggers. Calls `failed` with each that has none.
pub(super) fn select_triggers<'a>(
    triggers: &'a [CallTrigger],
    failed: Failed<'_>,
) -> Result<Vec<Selected<'a>>, Error> {
    let mut selected = Vec::new();
    for trigger in triggers {
        match Selected::of(trigger) {
            Ok(one) => selected.push(one),
            Err(error) => failed(trigger, error)?,
        }
    }
    Ok(selected)
}

/// Attaches the triggers, now that the recorders are attached: so these have the end of a call that
/// triggers.
pub(super) fn arm(
    spec: &SpecAst,
    selected: Vec<Selected<'_>>,
    reports: &ReportFiles,
    attached: &mut AttachedText,
    failed: Failed<'_>,
) -> Result<(), Error> {
    let recorders = attached.consumers.iter().filter(|(at, _)| spec.items[*at].consumer.is_recorder);
    let text = recorders.clone().next().map(|(_, first)| first.text);
    let recorders = recorders.map(|(at, recorder)| Recorder {
        reported: Arc::downgrade(&recorder.reported),
        report: reports.files[*at].clone(),
        format: reports.format,
    });
    let recorders = Arc::new(Recorders { all: recorders.collect(), text: text.unwrap_or_default() });
    for it in selected {
        attached.unmatched.extend(it.unmatched());
        let trigger = it.trigger;
        let armed = if recorders.all.is_empty() {
            Err(Error::Consumer("there is no flight recorder to take snapshots of".into()))
        } else {
            it.attach(&recorders)
        };
        match armed {
            Ok(armed) => attached.triggers.0.push(armed),
            Err(error) => failed(trigger, error)?,
        }
    }
    Ok(())
}

/// A trigger and its probes.
pub(super) struct Selected<'a> {
    trigger: &'a CallTrigger,
    calls: ProbeSet,
    more: Option<(ProbeSet, Duration)>,
}

impl<'a> Selected<'a> {
    fn of(trigger: &'a CallTrigger) -> Result<Self, Error> {
        let calls = select_parsed(&trigger.selector)?;
        let more = trigger.more.as_ref();
        let more = more.map(|(selector, time)| Ok::<_, Error>((select_parsed(selector)?, *time)));
        Ok(Self { trigger, calls, more: more.transpose()? })
    }

    /// Returns the probes that it attaches for a while.
    pub(super) fn more(&self) -> &[ProbeId] {
        self.more.as_ref().map_or(&[], |(more, _)| more.ids())
    }

    /// Returns the terms of its selectors that match no probe.
    fn unmatched(&self) -> Vec<UnmatchedTerm> {
        let sets = [Some(&self.calls), self.more.as_ref().map(|(more, _)| more)];
        sets.into_iter().flatten().flat_map(|set| set.unmatched().to_vec()).collect()
    }

    fn attach(self, recorders: &Arc<Recorders>) -> Result<Attachment<Trigger>, Error> {
        let CallTrigger { limit, limit_text, predicate, at_most, is_replaced, rest, .. } = self.trigger;
        let mut run = Run {
            recorders: Arc::clone(recorders),
            limit: limit_text.clone(),
            more: self.more.map(|(more, time)| (more.ids().to_vec(), time)),
            at_most: *at_most,
            is_replaced: *is_replaced,
            taken: 0,
            ignored: 0,
        };
        let trigger = Trigger::over(*limit, move |call| run.run(call)).rest(*rest);
        let set = self.calls.text_policy(recorders.text);
        let trigger = match predicate {
            Some(predicate) => set.attach_if(predicate, trigger)?,
            None => set.attach(trigger)?,
        };
        trigger.left_out().iter().for_each(|line| say(line));
        Ok(trigger)
    }
}

/// The work of a trigger's thread when a call took too long.
struct Run {
    recorders: Arc<Recorders>,
    limit: String,
    /// Probes to attach, and for how long.
    more: Option<(Vec<ProbeId>, Duration)>,
    /// The most snapshots.
    at_most: u32,
    /// Whether each replaces the one before.
    is_replaced: bool,
    /// Number of snapshots so far.
    taken: u32,
    /// Number of long calls that the trigger had ignored before its latest snapshot.
    ignored: u64,
}

impl Run {
    fn run(&mut self, call: &TriggerCall) {
        if self.taken == self.at_most {
            return;
        }
        self.taken += 1;
        if let Some((more, time)) = &self.more {
            self.recorders.each(|recorder| {
                let report = recorder.arm(more);
                if report.refused() != 0 {
                    say(&report.to_string());
                }
            });
            call.wait(*time);
            self.recorders.each(|recorder| _ = recorder.disarm(more));
        }
        let number = (!self.is_replaced).then(next_number);
        for (path, written) in self.recorders.write(number) {
            match written {
                Ok(missing) => {
                    say(&self.told(call, &path));
                    missing.iter().for_each(|line| say(&format!("{}: {line}", path.display())));
                }
                Err(error) => say(&format!("{} can't be written: {error}", path.display())),
            }
        }
        self.ignored = call.ignored();
    }

    /// Returns the line about a snapshot.
    fn told(&self, call: &TriggerCall, path: &Path) -> String {
        let took = Time(u64::try_from(call.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut line =
            format!("{} took {took}, over {}; the snapshot is {}", call.path(), self.limit, path.display());
        let ignored = call.ignored() - self.ignored;
        let calls = if ignored == 1 { "call" } else { "calls" };
        // Writing to a `String` can't fail.
        if ignored != 0 {
            let _ = write!(line, "; {ignored} more {calls} took too long since the one before");
        }
        if self.taken == self.at_most {
            let _ = write!(line, "; it is the last of {}, as `at most` says", self.taken);
        }
        line
    }
}

/// An attached flight recorder.
struct Recorder {
    /// The recorder may be detached while a trigger still runs.
    reported: Weak<dyn Reported>,
    /// The file of its report, with an ending.
    report: PathBuf,
    format: Format,
}

/// The flight recorders of a text.
struct Recorders {
    all: Vec<Recorder>,
    /// How their sites are written, and those of triggers.
    text: TextPolicy,
}

/// Returns the next number of a snapshot, from 1. All triggers of the process share the numbers:
/// texts may name the same files, at once or one after another.
fn next_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Recorders {
    /// Calls `run` with each recorder that is attached.
    fn each(&self, mut run: impl FnMut(&Attachment<Trace>)) {
        for recorder in &self.all {
            let Some(reported) = recorder.reported.upgrade() else { continue };
            let any: &dyn Any = &*reported;
            any.downcast_ref().into_iter().for_each(&mut run);
        }
    }

    /// Writes a snapshot of each recorder. Returns the files, each with notes on missing parts.
    fn write(&self, number: Option<u32>) -> Vec<(PathBuf, io::Result<Vec<String>>)> {
        let attached = self.all.iter().filter_map(|it| Some((it, it.reported.upgrade()?)));
        let written = attached.map(|(recorder, reported)| {
            let format =
                if reported.is_streamed(recorder.format) { recorder.format } else { Format::Perfetto };
            let path = recorder.file(format, number);
            let mut staged = Staged::new(path.clone());
            let written = reported.write(format, &mut staged).and_then(|missing| {
                staged.sync()?;
                staged.finish()?;
                Ok(missing)
            });
            (path, written)
        });
        written.collect()
    }
}

impl Recorder {
    /// Returns the file of a snapshot: `run-12.pftrace` has `run-12-snapshot-1.pftrace` beside it.
    fn file(&self, format: Format, number: Option<u32>) -> PathBuf {
        let mut name = file::without_ending(&self.report).into_os_string();
        name.push("-snapshot");
        number.into_iter().for_each(|number| name.push(format!("-{number}")));
        name.push(format!(".{}", format.ending()));
        name.into()
    }
}

/// Writes a line to stderr.
fn say(line: &str) {
    os::stderr::print_line(&format!("PROBES: {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_stand_beside_the_report() {
        for (report, format, number, file) in [
            ("/tmp/run-12.pftrace", Format::Perfetto, Some(1), "/tmp/run-12-snapshot-1.pftrace"),
            ("/tmp/app.2.json", Format::Json, Some(12), "/tmp/app.2-snapshot-12.json"),
            ("/tmp/app.2.firefox.json", Format::Firefox, Some(1), "/tmp/app.2-snapshot-1.firefox.json"),
            ("app.2-1-trace.txt", Format::Perfetto, None, "app.2-1-trace-snapshot.pftrace"),
        ] {
            let reported: Weak<Attachment<Trace>> = Weak::new();
            let recorder = Recorder { reported, report: report.into(), format: Format::Text };
            assert_eq!(recorder.file(format, number).to_str(), Some(file));
        }
    }
}
