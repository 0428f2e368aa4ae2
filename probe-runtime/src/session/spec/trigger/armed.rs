//! Triggers that are attached, and what a long call sets off.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::asked::{AttachedText, Failed, ReportFiles};
use super::super::parse::Asked;
use super::keep::Keep;
use super::snapshots::{self, Recorder, Recorders};
use super::text::TriggerRequest;
use crate::consumers::{Trigger, TriggerCall};
use crate::engine::control::{Attachment, ProbeSet, select};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::registry::ProbeId;
use crate::engine::sites::UnmatchedTerm;
use crate::report::Time;

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

impl Asked<'_> {
    /// Selects the probes of the triggers. Calls `failed` with each that has none.
    pub(in crate::session::spec) fn selected(&self, failed: Failed<'_>) -> Result<Vec<Selected<'_>>, Error> {
        let mut selected = Vec::new();
        for request in &self.triggers {
            match request.select() {
                Ok(one) => selected.push(one),
                Err(error) => failed(request, error)?,
            }
        }
        Ok(selected)
    }

    /// Attaches the triggers, now that the recorders are attached: so these have the end of a call
    /// that triggers.
    pub(in crate::session::spec) fn arm(
        &self,
        selected: Vec<Selected<'_>>,
        reports: &ReportFiles,
        attached: &mut AttachedText,
        failed: Failed<'_>,
    ) -> Result<(), Error> {
        let recorders = attached.consumers.iter().filter(|(at, _)| self.requests[*at].is_recorder);
        let text = recorders.clone().next().map(|(_, first)| first.text);
        let recorders = recorders.map(|(at, recorder)| Recorder {
            reported: Arc::downgrade(&recorder.reported),
            report: reports.files[*at].clone(),
            format: reports.format,
        });
        let recorders = Arc::new(Recorders { all: recorders.collect(), text: text.unwrap_or_default() });
        for trigger in selected {
            attached.unmatched.extend(trigger.unmatched());
            let request = trigger.request;
            let trigger = if recorders.all.is_empty() {
                Err(Error::Consumer("there is no flight recorder to take snapshots of".into()))
            } else {
                trigger.attach(&recorders)
            };
            match trigger {
                Ok(trigger) => attached.triggers.0.push(trigger),
                Err(error) => failed(request, error)?,
            }
        }
        Ok(())
    }
}

/// A trigger and its probes.
pub(in crate::session::spec) struct Selected<'a> {
    request: &'a TriggerRequest<'a>,
    calls: ProbeSet,
    more: Option<(ProbeSet, Duration)>,
}

impl TriggerRequest<'_> {
    fn select(&self) -> Result<Selected<'_>, Error> {
        let calls = select(self.selector)?;
        let more = self.more.map(|(selector, time)| Ok::<_, Error>((select(selector)?, time.span)));
        Ok(Selected { request: self, calls, more: more.transpose()? })
    }
}

impl Selected<'_> {
    /// Returns the probes that it attaches for a while.
    pub(in crate::session::spec) fn more(&self) -> &[ProbeId] {
        self.more.as_ref().map_or(&[], |(more, _)| more.ids())
    }

    /// Returns the terms of its selectors that match no probe.
    fn unmatched(&self) -> Vec<UnmatchedTerm> {
        let sets = [Some(&self.calls), self.more.as_ref().map(|(more, _)| more)];
        sets.into_iter().flatten().flat_map(|set| set.unmatched().to_vec()).collect()
    }

    fn attach(self, recorders: &Arc<Recorders>) -> Result<Attachment<Trigger>, Error> {
        let TriggerRequest { limit, keep, .. } = *self.request;
        let mut run = Run {
            recorders: Arc::clone(recorders),
            limit: limit.text.to_owned(),
            more: self.more.map(|(more, time)| (more.ids().to_vec(), time)),
            keep,
            taken: 0,
            ignored: 0,
        };
        let trigger = Trigger::over(limit.span, move |call| run.run(call)).rest(keep.rest);
        let trigger = self.calls.text_policy(recorders.text).attach(trigger)?;
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
    keep: Keep,
    /// Number of snapshots so far.
    taken: u32,
    /// Number of long calls that the trigger had ignored before its latest snapshot.
    ignored: u64,
}

impl Run {
    fn run(&mut self, call: &TriggerCall) {
        if self.taken == self.keep.at_most {
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
        let number = (!self.keep.replace).then(snapshots::next_number);
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
        if self.taken == self.keep.at_most {
            let _ = write!(line, "; it is the last of {}, as `at_most` says", self.taken);
        }
        line
    }
}

/// Writes a line to stderr.
fn say(line: &str) {
    os::stderr::print_line(&format!("PROBES: {line}"));
}
