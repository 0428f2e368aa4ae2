//! The effects of a selection's probes, which make spans or events; the callsites of these, by
//! which subscribers know them; and a hit's fields as values of `tracing`.
//!
//! Life cycle of a callsite: the first attachment to a probe makes it, and registers it ▸ the
//! subscribers' interest in it is cached ▸ it stays as long as the process, since `tracing` refers
//! to it for ever. Later attachments to the probe use the same one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_core::callsite::{Callsite, Identifier, register};
use tracing_core::field::{DisplayValue, Field, FieldSet, Value, ValueSet, display};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Kind as SiteKind, Level, LevelFilter, Metadata};

use crate::engine::calls::{CallEffect, SelectedFunctions};
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::{Event, FUTURE};
use crate::engine::registry::{FieldInfo, ProbeId, ProbeInfo};
use probe_core::abi::{Kind, ValueRef};
use probe_lang::selector::split_last;

/// The effect of a probe's hits.
pub(super) struct SpanAction {
    /// Nothing for a probe whose hits are events.
    pub(super) effect: CallEffect,
    /// A number that stays when other probes join.
    pub(super) function: usize,
    pub(super) site: &'static Site,
    /// The field for each value of a hit.
    pub(super) fields: Vec<Option<Field>>,
    /// Of an event, the field of its message, and the message.
    pub(super) message: Option<(Field, String)>,
}

/// The name of the field that subscribers show as an event's text.
const MESSAGE: &str = "message";

/// Returns the action of each probe, and the probes of functions that lack others.
pub(super) fn actions(probes: &ProbeSet, level: Level) -> (Vec<(ProbeId, SpanAction)>, Vec<ProbeId>) {
    let selected = SelectedFunctions::of(probes);
    let probes = probes.probes();
    let mut functions: Vec<Vec<(&ProbeInfo, CallEffect)>> = vec![Vec::new(); selected.functions.len()];
    let mut actions = Vec::with_capacity(probes.len());
    for probe in &probes {
        match selected.actions.get(probe.id().index()) {
            Some(action) if action.effect != CallEffect::Nothing => {
                functions[action.function as usize].push((probe, action.effect));
            }
            _ => actions.push((probe.id(), event(probe, level))),
        }
    }
    // The probes of a function may have been unloaded since it was selected.
    for probes in functions.into_iter().filter(|probes| !probes.is_empty()) {
        let function = probes.iter().map(|(probe, _)| probe.id().index()).min().unwrap_or_default();
        let site = span(&probes, level);
        actions.extend(probes.into_iter().map(|(probe, effect)| {
            let fields = names(probe).map(|name| site.field(name?)).collect();
            (probe.id(), SpanAction { effect, function, site, fields, message: None })
        }));
    }
    (actions, selected.incomplete)
}

/// Returns the names of a probe's fields. The address of a future is none: its span says which one
/// it is.
fn names(probe: &ProbeInfo) -> impl Iterator<Item = Option<&str>> {
    let is_future =
        probe.kind() != Kind::Point && probe.fields().first().is_some_and(|it| it.name() == FUTURE);
    let names = probe.fields().iter().map(FieldInfo::name).enumerate();
    names.map(move |(at, name)| (at > 0 || !is_future).then_some(name))
}

/// Returns the callsite of a function's spans, with the fields of its entry and its exit.
fn span(probes: &[(&ProbeInfo, CallEffect)], level: Level) -> &'static Site {
    let of = |kind| probes.iter().map(|(probe, _)| *probe).filter(move |probe| probe.kind() == kind);
    let mut fields: Vec<String> = Vec::new();
    for name in of(Kind::Entry).chain(of(Kind::Exit)).flat_map(names).flatten() {
        if !fields.iter().any(|known| known == name) {
            fields.push(name.to_owned());
        }
    }
    site(probes[0].0, fields, true, level)
}

/// Returns the action of a probe whose hits are events.
fn event(probe: &ProbeInfo, level: Level) -> SpanAction {
    let own: Vec<_> = names(probe).flatten().map(str::to_owned).collect();
    let has_message = own.iter().any(|name| name == MESSAGE);
    let fields = if has_message { own } else { [vec![MESSAGE.to_owned()], own].concat() };
    let site = site(probe, fields, false, level);
    let (_, name) = split_last(probe.path());
    let text = if probe.kind() == Kind::Point { name.to_owned() } else { format!("{} {name}", probe.kind()) };
    let message = if has_message { None } else { site.field(MESSAGE).map(|field| (field, text)) };
    let fields = names(probe).map(|name| site.field(name?)).collect();
    SpanAction { effect: CallEffect::Nothing, function: 0, site, fields, message }
}

fn site(probe: &ProbeInfo, fields: Vec<String>, is_span: bool, level: Level) -> &'static Site {
    let (path, file) = (probe.path().to_owned(), probe.file().to_owned());
    Site::of(&SiteText { path, file, line: probe.line(), fields, is_span, level })
}

/// The callsite of one probe, or of one function.
pub(super) struct Site {
    /// Set before it is registered.
    metadata: OnceLock<Metadata<'static>>,
    /// One of the states below.
    interest: AtomicU8,
}

const NEVER: u8 = 0;
const SOMETIMES: u8 = 1;
const ALWAYS: u8 = 2;

/// The text of a callsite.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SiteText {
    path: String,
    file: String,
    line: u32,
    fields: Vec<String>,
    is_span: bool,
    level: Level,
}

impl Callsite for Site {
    fn set_interest(&self, interest: Interest) {
        let interest = match interest {
            it if it.is_always() => ALWAYS,
            it if it.is_never() => NEVER,
            _ => SOMETIMES,
        };
        self.interest.store(interest, Relaxed);
    }

    fn metadata(&self) -> &Metadata<'_> {
        self.known()
    }
}

impl Site {
    /// Returns the callsite of this text.
    fn of(of: &SiteText) -> &'static Self {
        static MADE: Mutex<Option<HashMap<SiteText, &'static Site>>> = Mutex::new(None);
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let made = made.get_or_insert_default();
        if let Some(site) = made.get(of) {
            return site;
        }
        let site = Self::new(of);
        made.insert(of.clone(), site);
        site
    }

    fn new(of: &SiteText) -> &'static Self {
        let site: &'static Self =
            Box::leak(Box::new(Self { metadata: OnceLock::new(), interest: AtomicU8::new(NEVER) }));
        let text = |text: &str| -> &'static str { Box::leak(text.into()) };
        let fields: Vec<&'static str> = of.fields.iter().map(|name| text(name)).collect();
        let fields = FieldSet::new(Vec::leak(fields), Identifier(site));
        let (target, name) = split_last(text(&of.path));
        let kind = if of.is_span { SiteKind::SPAN } else { SiteKind::EVENT };
        let (file, line) = (Some(text(&of.file)), Some(of.line));
        let metadata = Metadata::new(name, target, of.level, file, line, Some(target), fields, kind);
        let _ = site.metadata.set(metadata);
        register(site);
        site
    }

    pub(super) fn known(&self) -> &Metadata<'static> {
        self.metadata.get().expect("set before anybody has the callsite")
    }

    fn field(&self, name: &str) -> Option<Field> {
        self.known().fields().field(name)
    }

    /// Returns whether the subscriber wants this span or event.
    pub(super) fn is_enabled(&self, dispatch: &Dispatch) -> bool {
        let metadata = self.known();
        *metadata.level() <= LevelFilter::current()
            && match self.interest.load(Relaxed) {
                NEVER => false,
                ALWAYS => true,
                _ => dispatch.enabled(metadata),
            }
    }
}

/// The most fields of a probe, and the name of a point.
const MOST_VALUES: usize = 32 + 1;

/// Calls `run` with the values of a hit. Each of its fields has a place in `fields`; a value
/// without a field there is left out.
pub(super) fn with_values(
    event: &Event<'_>,
    set: &FieldSet,
    fields: &[Option<Field>],
    message: Option<(&Field, &str)>,
    run: impl FnOnce(&ValueSet<'_>),
) {
    // Most hits have few fields, and short arrays are sooner filled.
    match fields.len() + usize::from(message.is_some()) {
        0 => run(&set.value_set(&[])),
        1..=2 => with_array::<2>(event, set, fields, message, run),
        3..=8 => with_array::<8>(event, set, fields, message, run),
        _ => with_array::<MOST_VALUES>(event, set, fields, message, run),
    }
}

fn with_array<const N: usize>(
    event: &Event<'_>,
    set: &FieldSet,
    fields: &[Option<Field>],
    message: Option<(&Field, &str)>,
    run: impl FnOnce(&ValueSet<'_>),
) {
    let mut values = [ValueRef::Absent; N];
    for (place, value) in values.iter_mut().zip(event.fields().values()) {
        *place = value;
    }
    let shown = values.map(display);
    let own = fields.iter().zip(values.iter().zip(&shown));
    let own = own.filter_map(|(field, (value, shown))| Some((field.as_ref()?, typed(value, shown))));
    let message = message.as_ref().map(|(field, text)| (*field, Some(text as &dyn Value)));
    let mut all = message.into_iter().chain(own);
    // Places that are left over repeat the first field, without a value.
    let Some(first) = all.next() else { return run(&set.value_set(&[])) };
    let mut array: [(&Field, Option<&dyn Value>); N] = [(first.0, None); N];
    array[0] = first;
    for (place, one) in array[1..].iter_mut().zip(all) {
        *place = one;
    }
    run(&set.value_set(&array));
}

/// Returns a value in its own type. `tracing` takes others as text.
fn typed<'a>(value: &'a ValueRef<'a>, shown: &'a DisplayValue<ValueRef<'a>>) -> Option<&'a dyn Value> {
    Some(match value {
        ValueRef::U64(value) => value,
        ValueRef::I64(value) => value,
        ValueRef::U128(value) => value,
        ValueRef::I128(value) => value,
        ValueRef::F64(value) => value,
        ValueRef::Bool(value) => value,
        ValueRef::Str(value) => value,
        ValueRef::Bytes(value) => value,
        ValueRef::Absent => return None,
        _ => shown,
    })
}
