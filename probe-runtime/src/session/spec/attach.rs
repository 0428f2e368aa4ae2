//! Attaches all that a spec has: the consumers, and then the triggers.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Format;
use super::builder::{ConsumerBuilder, OutputPolicy};
use super::parse::SpecAst;
use super::reported::Reported;
#[cfg(feature = "trace")]
pub(crate) use super::trigger::Triggers;
#[cfg(feature = "trace")]
use super::trigger::{arm, select_triggers};
use crate::engine::control::select_persistent_parsed;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{TextPolicy, UnmatchedTerm};
use probe_lang::spec::SpecItem;

/// The attached consumers and triggers of a text.
pub(crate) struct AttachedText {
    /// The consumers, each with its place among the requests.
    pub(crate) consumers: Vec<(usize, Listening)>,
    pub(crate) triggers: Triggers,
    /// Terms of the triggers' selectors that match no probe.
    pub(crate) unmatched: Vec<UnmatchedTerm>,
}

pub(crate) struct ReportFiles {
    /// In the order of the requests, each with an ending.
    pub(crate) files: Vec<PathBuf>,
    #[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "snapshots have it"))]
    pub(crate) format: Format,
}

/// Takes a request that can't be attached, and the reason.
pub(super) type Failed<'a> = &'a mut dyn FnMut(&dyn Display, Error) -> Result<(), Error>;

/// Returns the name of a consumer's report where nobody has chosen one.
pub(crate) fn own_file(program: &str, process: u32, number: usize, consumer: &str) -> String {
    format!("{program}-{process}-{number}-{consumer}.txt")
}

/// A consumer that is attached.
pub(crate) struct Listening {
    pub(crate) reported: Arc<dyn Reported>,
    /// Terms of the selector that match no probe.
    pub(crate) unmatched: Arc<[UnmatchedTerm]>,
    /// Whether the selector matches any probe yet.
    pub(crate) has_probes: bool,
    /// How its sites are written.
    #[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "triggers have it, too"))]
    pub(super) text: TextPolicy,
}

/// The triggers of a spec: without the feature `trace`, there are none.
#[cfg(not(feature = "trace"))]
#[derive(Default, Debug)]
pub(crate) struct Triggers(());

#[cfg(not(feature = "trace"))]
impl Triggers {
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn end(&self) {}
}

/// Attaches all. `writes` returns the further files that a consumer may write, by the file of its
/// report. Calls `failed` with each part that can't be attached; if that returns an error, nothing
/// stays attached.
pub(crate) fn attach_ast(
    spec: &SpecAst,
    reports: &ReportFiles,
    writes: &dyn Fn(&Path) -> OutputPolicy<'_>,
    failed: Failed<'_>,
) -> Result<AttachedText, Error> {
    let mut attached =
        AttachedText { consumers: Vec::new(), triggers: Triggers::default(), unmatched: Vec::new() };
    #[cfg(feature = "trace")]
    let selected = select_triggers(&spec.triggers, failed)?;
    #[cfg(feature = "trace")]
    let more: Vec<_> = selected.iter().flat_map(super::trigger::Selected::more).copied().collect();
    #[cfg(not(feature = "trace"))]
    let more = Vec::new();
    for ((at, item), report) in spec.items.iter().enumerate().zip(&reports.files) {
        match attach_item(item, writes(report), &more) {
            Ok(listening) => attached.consumers.push((at, listening)),
            Err(error) => failed(item, error)?,
        }
    }
    #[cfg(feature = "trace")]
    arm(spec, selected, reports, &mut attached, failed)?;
    Ok(attached)
}

/// Attaches a consumer to its probes. Its reports go to the file, if one is given. A recorder also
/// has the probes that triggers attach for a while, which are off at first.
fn attach_item(
    item: &SpecItem<ConsumerBuilder>,
    writes: OutputPolicy<'_>,
    more: &[ProbeId],
) -> Result<Listening, Error> {
    let built = item.consumer.build()?;
    let mut set = select_persistent_parsed(&item.selector)?;
    if let Some(ends) = item.consumer.ends() {
        set = set.or(&select_persistent_parsed(&ends.selector)?);
    }
    #[cfg(probe_agent)]
    let set = if matches!(writes, OutputPolicy::Only(_)) { set.of_parent() } else { set };
    let (unmatched, has_probes, text) = (set.unmatched(), !set.is_empty(), built.text);
    let reported = (built.attach)(&set.text_policy(text), writes, more, item.predicate.as_ref())?;
    Ok(Listening { reported, unmatched, has_probes, text })
}
