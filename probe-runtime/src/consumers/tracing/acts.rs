//! The effects of a selection's probes: which make spans, and which make events.

use std::collections::HashMap;

use tracing_core::Level;

use super::site::{About, Site};
use super::{Act, Effect};
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::FUTURE;
use crate::engine::registry::{FieldInfo, ProbeId, ProbeInfo};
use probe_core::abi::Kind;
use probe_lang::selector::split_last;

/// The name of the field that subscribers show as an event's text.
const MESSAGE: &str = "message";

/// Returns the effect of each probe, and the probes of functions that lack others.
pub(super) fn acts(probes: &ProbeSet, level: Level) -> (Vec<(ProbeId, Act)>, Vec<ProbeId>) {
    let probes = probes.probes();
    let mut functions: HashMap<(&str, &str, u32), Vec<&ProbeInfo>> = HashMap::new();
    for probe in &probes {
        functions.entry((probe.path(), probe.file(), probe.line())).or_default().push(probe);
    }
    let (mut acts, mut incomplete) = (Vec::with_capacity(probes.len()), Vec::new());
    for probes in functions.into_values() {
        // A number that stays when other probes join.
        let function = probes.iter().map(|probe| probe.id().index()).min().unwrap_or_default();
        let span = is_paired(&probes).then(|| span(&probes, level));
        for probe in probes {
            let act = match span.zip(effect(probe.kind())) {
                Some((site, effect)) => Act {
                    effect,
                    function,
                    site,
                    fields: names(probe).map(|name| site.field(name?)).collect(),
                    message: None,
                },
                None => event(probe, function, level),
            };
            if span.is_none() && probe.kind() != Kind::Point {
                incomplete.push(probe.id());
            }
            acts.push((probe.id(), act));
        }
    }
    (acts, incomplete)
}

/// Returns the names of a probe's fields. The address of a future is none: its span says which one
/// it is.
fn names(probe: &ProbeInfo) -> impl Iterator<Item = Option<&str>> {
    let is_future =
        probe.kind() != Kind::Point && probe.fields().first().is_some_and(|it| it.name() == FUTURE);
    let names = probe.fields().iter().map(FieldInfo::name).enumerate();
    names.map(move |(at, name)| (at > 0 || !is_future).then_some(name))
}

/// Returns whether calls can be told from their beginning to their end.
fn is_paired(probes: &[&ProbeInfo]) -> bool {
    let has = |kind| probes.iter().any(|probe| probe.kind() == kind);
    let is_future = [Kind::Suspend, Kind::Resume, Kind::Drop].into_iter().any(has)
        || probes.iter().any(|it| it.kind() == Kind::Exit && names(it).next() == Some(None));
    let of_future = [Kind::Suspend, Kind::Resume, Kind::Drop];
    has(Kind::Entry) && has(Kind::Exit) && (!is_future || of_future.into_iter().all(has))
}

fn effect(kind: Kind) -> Option<Effect> {
    match kind {
        Kind::Entry => Some(Effect::Begin),
        Kind::Exit => Some(Effect::End),
        Kind::Suspend => Some(Effect::Suspend),
        Kind::Resume => Some(Effect::Resume),
        Kind::Drop => Some(Effect::Cancel),
        _ => None,
    }
}

/// Returns the callsite of a function's spans, with the fields of its entry and its exit.
fn span(probes: &[&ProbeInfo], level: Level) -> &'static Site {
    let of = |kind| probes.iter().copied().filter(move |probe| probe.kind() == kind);
    let mut fields: Vec<String> = Vec::new();
    for name in of(Kind::Entry).chain(of(Kind::Exit)).flat_map(names).flatten() {
        if !fields.iter().any(|known| known == name) {
            fields.push(name.to_owned());
        }
    }
    site(probes[0], fields, true, level)
}

/// Returns the effect of a probe whose hits are events.
fn event(probe: &ProbeInfo, function: usize, level: Level) -> Act {
    let own: Vec<_> = names(probe).flatten().map(str::to_owned).collect();
    let has_message = own.iter().any(|name| name == MESSAGE);
    let fields = if has_message { own } else { [vec![MESSAGE.to_owned()], own].concat() };
    let site = site(probe, fields, false, level);
    let (_, name) = split_last(probe.path());
    let text = if probe.kind() == Kind::Point { name.to_owned() } else { format!("{} {name}", probe.kind()) };
    let message = if has_message { None } else { site.field(MESSAGE).map(|field| (field, text)) };
    let fields = names(probe).map(|name| site.field(name?)).collect();
    Act { effect: Effect::Event, function, site, fields, message }
}

fn site(probe: &ProbeInfo, fields: Vec<String>, is_span: bool, level: Level) -> &'static Site {
    let (path, file) = (probe.path().to_owned(), probe.file().to_owned());
    Site::of(&About { path, file, line: probe.line(), fields, is_span, level })
}
