//! Intervals from one hit to another one of the same key, on one thread: `until` and `held`.
//!
//! ```text
//! a hit that begins ▸ its group, as of any hit ▸ the shared key ▸ open (this thread's)
//! a hit that ends   ▸ the shared key           ▸ open ▸ the time is added to that group
//! ```
//! A function begins an interval at its exit, and ends one at its entry, if both are selected.
//!
//! Nothing is guessed: an end without a beginning is counted, and nothing is paired across a switch
//! of sites ([generation](crate::Event::generation)), or with a thread that has ended.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use super::hit::KeySource;
use super::key::Key;
use super::open::{OPEN_WORDS, OpenCounts, OpenHead, OpenRead, OpenTable, Owner};
use super::{Aggregate, AggregateFunction};
use crate::consumers::filter::{CallFilter, Expressions, HitContext, HitsOfCall, Plan, fields};
use crate::engine::by_probe::ByProbe;
use crate::engine::clock::{Clock, Scale};
use crate::engine::control::{ProbeSet, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, PerThread};
use crate::engine::registry::{ProbeId, ProbeInfo};
use probe_core::abi::{Definition, Kind};
use probe_lang::Predicate;
use probe_lang::aggregation::Ends;
use probe_lang::expression::{Fault, Program, Scope, groups};
use probe_lang::modules::RESULT;
use probe_report::reports::OpenInterval;
use probe_report::was;

/// The notes of functions of modules that say which lock they take and give.
const TAKES: &str = "takes";
const GIVES: &str = "gives";
const TAKES_IF: &str = "if";

/// The data that hits of intervals use.
pub(super) struct Intervals {
    memory: PerThread<OpenHead, AtomicU64>,
    /// The probes that end intervals, and which of their hits do.
    ends: ByProbe<SharedKey>,
    pub(super) filter: CallFilter,
    /// Whether any probe is known that ends intervals.
    has_ends: AtomicBool,
    clock: Clock,
    scale: Scale,
    switch: OnceLock<Switch>,
    /// The generation that the last pause has ended.
    paused: AtomicU32,
    /// While paused: the last generation with hits, and the time up to which it was.
    readable: AtomicU32,
    readable_at: AtomicU64,
}

/// The key that the hits of an interval share, at one of them.
pub(super) struct SharedKey {
    /// A number for each module, so that keys of two modules differ.
    about: u32,
    /// See [`Key::room`].
    room: usize,
    /// None if the thread alone is shared.
    pub(super) source: Option<KeySource>,
    /// The interval begins only if it holds.
    condition: Option<Program>,
}

impl SharedKey {
    /// Begins the key.
    #[inline(always)]
    pub(super) fn key(&self) -> Key {
        Key::new(self.about, self.room)
    }

    /// Returns whether a hit begins an interval.
    #[inline(always)]
    pub(super) fn holds(&self, event: &Event<'_>, context: &HitContext<'_>) -> Result<bool, Fault> {
        let Some(condition) = &self.condition else { return Ok(true) };
        condition.quick(event.values()).map_or_else(|| condition.passes(event.values(), context), Ok)
    }
}

/// A probe's part in intervals.
#[derive(Default)]
pub(super) struct Role {
    begins: bool,
    ends: bool,
    about: u32,
    /// Of a function of a module: the fields that it takes and gives, and when it takes.
    takes: Option<String>,
    takes_if: Option<String>,
    gives: Option<String>,
}

pub(super) type Roles = HashMap<ProbeId, Role>;

impl Role {
    /// Reads the notes of a function of a module.
    fn of_notes(definition: &Definition) -> Self {
        let note = |name| definition.note(name).map(str::to_owned);
        let (takes, gives) = (note(TAKES), note(GIVES));
        let module = definition.note("module").unwrap_or_default();
        // FNV-1a.
        let about = module
            .bytes()
            .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self { begins: takes.is_some(), ends: gives.is_some(), about, takes, takes_if: note(TAKES_IF), gives }
    }

    fn of_selectors(definition: &Definition, ends: &Ends) -> Self {
        let begins = ends.begins.as_ref().is_none_or(|begins| begins.matches(definition));
        Self { begins, ends: ends.selector.matches(definition), ..Self::default() }
    }
}

/// Returns the probes whose hits belong to groups: of intervals, those that begin them.
pub(super) fn beginning(probes: &ProbeSet, roles: &Roles) -> ProbeSet {
    probes.only(&|id| roles.get(id).is_some_and(|role| role.begins))
}

impl Intervals {
    fn of(probes: &ProbeSet) -> Result<Self, Error> {
        let clock = Clock::new();
        Ok(Self {
            memory: PerThread::new(OPEN_WORDS)?,
            ends: ByProbe::new(probes.numbers()),
            filter: CallFilter::new(),
            has_ends: AtomicBool::new(false),
            clock,
            scale: clock.scale(),
            switch: OnceLock::new(),
            paused: AtomicU32::new(0),
            readable: AtomicU32::new(0),
            readable_at: AtomicU64::new(0),
        })
    }

    fn table<'a>(local: &Local<'a, OpenHead, AtomicU64>) -> OpenTable<'a> {
        OpenTable { head: local.head(), words: local.parts() }
    }

    pub(super) fn attached(&self, switch: &Switch) {
        self.filter.attached(switch);
        let _ = self.switch.set(switch.clone());
    }

    /// Returns whether hits of a probe are needed for the ends of intervals.
    pub(super) fn needs(&self, probe: ProbeId) -> bool {
        self.ends.get(probe).is_some()
    }

    /// Returns the hits of threads without memory.
    pub(super) fn lost(&self) -> u64 {
        self.memory.lost()
    }

    /// Begins an interval of a group.
    #[inline(always)]
    pub(super) fn begin(&self, event: &Event<'_>, key: &Key, group: u64) {
        if let Some(local) = self.memory.of(event) {
            Self::table(&local).begin(owner(event), key, group, || self.clock.now());
        }
    }

    /// Returns the key of a hit that ends intervals.
    #[inline(always)]
    pub(super) fn end_of(&self, event: &Event<'_>) -> Option<&SharedKey> {
        self.ends.get(event.probe())
    }

    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Ends an interval. Returns the handle of its group, and its nanoseconds.
    #[inline(always)]
    pub(super) fn end(&self, event: &Event<'_>, key: &Key, now: u64) -> Option<(u64, i64)> {
        let ended = Self::table(&self.memory.of(event)?).end(owner(event), key, now)?;
        Some((ended.group, i64::try_from(self.scale.nanoseconds(ended.ticks)).unwrap_or(i64::MAX)))
    }

    /// Returns the open intervals, by the handles of their groups.
    pub(super) fn open(&self) -> HashMap<u64, Vec<OpenInterval>> {
        let (generation, until) = self.readable_state();
        let read = |local: Local<'_, OpenHead, AtomicU64>| {
            let (thread, is_alive, table) = (local.thread(), local.is_alive(), Self::table(&local));
            let (open, name) = (table.read(Owner { thread, generation }), local.thread_name());
            (thread, name, is_alive, open, table.last_unknown_end())
        };
        let threads: Vec<_> = self.memory.iter().map(read).collect();
        let mut all = HashMap::<u64, Vec<OpenInterval>>::new();
        for (at, (thread, name, is_alive, open, _)) in threads.iter().enumerate() {
            let others = threads.iter().enumerate().filter(|(other, _)| *other != at);
            let last_end = others.map(|(_, it)| it.4).max().unwrap_or_default();
            for OpenRead { group, begun } in open {
                all.entry(*group).or_default().push(OpenInterval {
                    thread: *thread,
                    thread_name: name.clone(),
                    elapsed: self.scale.nanoseconds(until.saturating_sub(*begun)),
                    has_thread_ended: !is_alive,
                    may_have_ended: last_end > *begun,
                });
            }
        }
        all
    }

    /// Notes the generation that a pause ends. A further pause ends one without hits.
    pub(super) fn pausing(&self) {
        let generation = self.generation().unwrap_or_default();
        if !self.is_paused(generation) {
            self.readable_at.store(self.clock.now(), Relaxed);
            self.readable.store(generation, Relaxed);
        }
        self.paused.store(generation, Release);
    }

    /// A pause begins a generation, and ends it when all sites are latent.
    fn is_paused(&self, generation: u32) -> bool {
        matches!(generation.wrapping_sub(self.paused.load(Acquire)), 1 | 2)
    }

    fn generation(&self) -> Option<u32> {
        self.switch.get().and_then(Switch::generation)
    }

    /// Returns the generation whose open intervals are known, and the time up to which they are:
    /// of a paused attachment, that of the pause.
    fn readable_state(&self) -> (u32, u64) {
        match self.generation() {
            Some(generation) if !self.is_paused(generation) => (generation, self.clock.now()),
            _ => (self.readable.load(Relaxed), self.readable_at.load(Relaxed)),
        }
    }

    /// Returns lines on hits that have measured nothing.
    pub(super) fn notes(&self) -> Vec<String> {
        let (mut all, (generation, _)) = (OpenCounts::default(), self.readable_state());
        for local in self.memory.iter() {
            let counts = Self::table(&local).counts(Owner { thread: local.thread(), generation });
            all.nested += counts.nested;
            all.no_room += counts.no_room;
            all.switched += counts.switched;
            all.thread_ended += counts.thread_ended;
            all.unknown_ends += counts.unknown_ends;
        }
        let mut notes = self.filter.notes();
        let lines = [
            (
                all.unknown_ends,
                "end",
                "without a beginning: it was before this was attached, or of another thread",
            ),
            (all.nested, "beginning", "inside of an interval of the same key, whose outermost one counts"),
            (
                all.switched,
                "interval",
                "open while probes were switched, so that the end may have been missed",
            ),
            (all.thread_ended, "interval", "open at the end of the thread"),
            (all.no_room, "beginning", "left out: there is no room for more open intervals of a thread"),
        ];
        let counted = lines.into_iter().filter(|(count, ..)| *count != 0);
        notes.extend(counted.map(|(count, noun, what)| format!("{} {what}", was(count, noun))));
        if !self.has_ends.load(Relaxed) {
            notes.push("no selected probe ends intervals".to_owned());
        }
        notes
    }
}

#[inline(always)]
fn owner(event: &Event<'_>) -> Owner {
    Owner { thread: event.thread(), generation: event.generation() }
}

impl Aggregate {
    /// Returns which of these probes begin and end intervals.
    pub(super) fn roles(&self, probes: &ProbeSet) -> Result<Roles, Error> {
        let ends = self.aggregation.ends.as_ref();
        let is_held = self.aggregation.function == AggregateFunction::Held;
        let role = |definition: &Definition| match ends {
            _ if is_held => Role::of_notes(definition),
            Some(ends) => Role::of_selectors(definition, ends),
            None => Role { begins: true, ..Role::default() },
        };
        let read = |all: &mut dyn Iterator<Item = (ProbeId, &Definition)>| {
            all.map(|(id, definition)| (id, role(definition))).collect()
        };
        let mut roles: Roles = probes.with_definitions(read);
        let all_end = |ends: &Ends| match &ends.begins {
            // Whichever probes there are yet.
            Some(begins) => begins.text() == ends.selector.text(),
            None => roles.values().all(|role| role.ends),
        };
        // A hit that ends an interval begins none, unless all hits do.
        if ends.is_some_and(|ends| !all_end(ends)) {
            roles.values_mut().for_each(|role| role.begins &= !role.ends);
        }
        if is_held && !roles.is_empty() && !roles.values().any(|role| role.begins) {
            let problem = "none of these probes takes anything; `held` is of functions whose modules say so, such \
                           as `lock::*=held`, and `until` names the hits: `app::took=until(app::gave)`";
            return Err(Error::Consumer(problem.into()));
        }
        Ok(roles)
    }

    /// Gets ready for intervals between hits of these probes. `begins` is the plan of those that
    /// begin them.
    pub(super) fn intervals(
        &self,
        probes: &ProbeSet,
        roles: &Roles,
        begins: &Plan,
    ) -> Result<Option<Intervals>, Error> {
        if !self.aggregation.function.is_of_intervals() {
            return Ok(None);
        }
        let intervals = Intervals::of(probes)?;
        let ending = self.ending(probes, roles, begins);
        let plan = self.plan_of_ends(&ending)?;
        plan.check()?;
        self.add_ends(&intervals, &plan, roles)?;
        intervals.filter.prepare(&ending, plan)?;
        Ok(Some(intervals))
    }

    pub(super) fn join_intervals(
        &self,
        intervals: &Intervals,
        probes: &ProbeSet,
        roles: &Roles,
        begins: &Plan,
    ) -> Result<(), Error> {
        let set = intervals.filter.joined_by(&self.ending(probes, roles, begins));
        let plan = self.plan_of_ends(&set)?;
        intervals.filter.check(&set)?;
        self.add_ends(intervals, &plan, roles)?;
        intervals.filter.join(&set, plan)
    }

    /// Returns the probes that end intervals, without those of fields that no function takes: keys
    /// leave out the functions that lack them.
    fn ending(&self, probes: &ProbeSet, roles: &Roles, begins: &Plan) -> ProbeSet {
        let is_planned = |id: &ProbeId| begins.place(*id).value;
        let taken: Vec<_> = roles.iter().filter(|(id, _)| is_planned(id)).map(|(_, role)| role).collect();
        let is_taken = |given: &Role| {
            let same = |it: &&Role| it.takes == given.gives || it.takes.as_deref() == Some(RESULT);
            taken.iter().any(|it| it.about == given.about && same(it))
        };
        let is_held = self.aggregation.function == AggregateFunction::Held;
        probes.only(&|id| roles.get(id).is_some_and(|role| role.ends && (!is_held || is_taken(role))))
    }

    fn plan_of_ends(&self, probes: &ProbeSet) -> Result<Plan, Error> {
        // Functions of modules name their keys themselves.
        let key =
            self.aggregation.shared_key().filter(|_| self.aggregation.function == AggregateFunction::Until);
        let expressions = Expressions {
            text: &self.aggregation.text,
            keys: &|_, scope| key.map_or(Ok(()), |key| groups(key, scope, false)),
            key_count: usize::from(key.is_some()),
            value: &|_| Ok(()),
            hits: HitsOfCall::One,
            ..Expressions::NONE
        };
        Plan::of(probes, &expressions)
    }

    /// Adds the probes of a plan that end intervals. One thread at a time calls it.
    fn add_ends(&self, intervals: &Intervals, plan: &Plan, roles: &Roles) -> Result<(), Error> {
        let (room, mut ends) = (Key::room(self.aggregation.keys.len()), Vec::new());
        for info in plan.infos.iter().filter(|info| plan.place(info.id()).value) {
            let Some(role) = roles.get(&info.id()) else { continue };
            let source = match (self.aggregation.function, self.aggregation.shared_key()) {
                (AggregateFunction::Held, _) if info.kind() != Kind::Entry => continue,
                (AggregateFunction::Held, _) => Some(field(info, role.gives.as_deref())?),
                (_, Some(key)) => Some(KeySource::of(key, info)?),
                _ => None,
            };
            ends.push((info.id(), SharedKey { about: role.about, room, source, condition: None }));
        }
        if !ends.is_empty() {
            intervals.has_ends.store(true, Relaxed);
        }
        intervals.ends.add(ends);
        Ok(())
    }

    /// Returns how hits of a probe begin an interval. `is_of_entry` says whether the first key is
    /// known at the entry only.
    pub(super) fn shared_key(
        &self,
        info: &ProbeInfo,
        role: &Role,
        is_of_entry: bool,
    ) -> Result<Option<SharedKey>, Error> {
        let room = Key::room(self.aggregation.keys.len());
        if self.aggregation.function != AggregateFunction::Held {
            let source = match self.aggregation.keys.first() {
                Some(_) if is_of_entry => Some(KeySource::OfEntry),
                key => key.map(|key| KeySource::of(key, info)).transpose()?,
            };
            return Ok(Some(SharedKey { about: 0, room, source, condition: None }));
        }
        if info.kind() == Kind::Entry {
            return Ok(None);
        }
        let source = Some(field(info, role.takes.as_deref())?);
        let condition = role.takes_if.as_ref().map(|condition| {
            let unfit = || Error::Consumer(format!("`{condition}` does not fit {}", info.path()).into());
            let predicate: Predicate = condition.parse().map_err(|_| unfit())?;
            let scope = Scope { fields: &fields(info), has_latency: false };
            Program::condition(predicate.node(), &scope).map_err(|_| unfit())
        });
        Ok(Some(SharedKey { about: role.about, room, source, condition: condition.transpose()? }))
    }
}

/// Returns the source of a field.
fn field(info: &ProbeInfo, name: Option<&str>) -> Result<KeySource, Error> {
    let name = name.unwrap_or_default();
    let at = info.fields().iter().position(|field| field.name() == name);
    let missing = || Error::Consumer(format!("{} has no field `{name}`", info.path()).into());
    at.map(KeySource::Field).ok_or_else(missing)
}
