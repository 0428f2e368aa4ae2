//! Groups hits by values of their fields, and counts, sums or measures each group.
//!
//! ```text
//! sum(bytes) by(path) ▸ text (pure) ▸ attach: programs for each probe
//! hit ▸ filter: does it count? ▸ key ▸ table (this thread's) ▸ cells      ▸ report: merged over threads
//! ```
//! Life cycle: [`Aggregate`] is parsed, attached, read any number of times and dropped. A thread's
//! groups are mapped at its first hit and stay when it ends, as for all consumers.
//!
//! Cost: a hit evaluates its keys and its value, hashes and compares the keys, and adds. It uses no
//! heap, lock or system call. A thread has room for 1,024 groups; pages that no group touches take
//! no memory. A group takes 176 bytes; 1.2 KB with a histogram of powers of two, and 11 KB with one
//! of times. An open interval takes 176 bytes, which other threads may read.

mod callers;
mod groups;
mod hit;
mod intervals;
mod key;
mod open;
mod roles;
mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use callers::CallerNames;
use hit::{KeySource, unfit};
use intervals::{Intervals, SharedKey};
use key::{Key, WrittenKeys};
use probe_lang::aggregation::{Aggregation, Function as AggregateFunction};
use roles::Roles;
use table::{NO_GROUP, PLAIN, POWERS, Table};

use super::buckets::BUCKETS;
use super::filter::{
    CallFilter, EvaluatedParts, Expressions, HitContext, HitsOfCall, PassedHit, Plan, fields,
};
use crate::engine::by_probe::{Appended, ByProbe};
use crate::engine::c_values::WantedFields;
use crate::engine::control::{Baseline, Consumer, ProbeSet, Start, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::PerThread;
use crate::engine::registry::{ProbeId, ProbeInfo};
use crate::engine::stacks::{Callers, NO_CALLERS, Rules};
use probe_lang::ParseError;
use probe_lang::expression::{Callers as CallersKind, Predicate, Program, Scope};
use probe_report::reports::{Groups, Threads};
use probe_report::source::{Period, Since};

/// Groups hits, and shows figures of each group: `count by(path)`, `sum(bytes)`,
/// `latency by(outcome)`.
///
/// | text | figures of a group |
/// |---|---|
/// | `count` | hits |
/// | `sum(x)`, `min(x)`, `max(x)`, `avg(x)` | hits, and the sum, least, greatest or mean of a number |
/// | `quantize(x)` | hits for each power of two |
/// | `latency` | calls, and the mean, 50th and 99th percentile and maximum of their times |
/// | `until(a::b)` | the same of the times to a hit of another probe, and the intervals that have not ended |
/// | `held` | the same of things that functions of modules take and give, such as locks |
///
/// `by(a, b)` follows, with at most four keys. Numbers and keys are expressions as in
/// [`Predicate`], or `caller` and `stack`, if no probe has such a field: the functions that called,
/// which need no probes. Each probe has groups of its own. Of a function, each call counts once: at
/// its entry, or at its exit if a field or the time is known only there. A key may be of the entry
/// although the number is of the exit.
///
/// Texts are shown in parts, and stay apart, if they are longer than 128 bytes divided by the
/// number of keys. A missing value is a key, too: `(absent)`. Each thread has room for 1,024
/// groups; hits of further ones are in a row of their own, `(others)`. A hit whose number is
/// missing, is not a number, or is beyond 64 bits is left out, which the report counts.
///
/// `until` measures intervals from a hit to the next hit of the probes that it names, on the same
/// thread, with the same first key; `until(a::b by(x))` names that key otherwise there. Select the
/// probes of both. A probe that ends intervals begins none, unless all of them do. If a function's
/// entry and exit are selected, it begins an interval at its exit, and ends one at its entry. Of
/// nested intervals of one key, the outermost counts. Nothing is paired across a switch of sites;
/// such hits, and ends without a beginning, are counted.
/// [`Group::open`](crate::aggregate::Group::open) has the intervals that have not ended. While the
/// attachment is paused, these are those of the pause. A thread has room for some 400 of them, or
/// up to 1,024, by the places of their keys.
///
/// Keys of the entry and keys of the exit can stand together: `count by(path, ret)`. Then what the
/// entries have named takes some of the room for groups, too. The number must be known where the
/// last key is.
///
/// ```
/// use probe_runtime::{Aggregate, probe, select};
///
/// #[probe(args(path, bytes))]
/// fn serve(path: &str, bytes: u64) {}
///
/// let sums = select("**::serve")?.attach(Aggregate::new("sum(bytes) by(path)")?)?;
/// serve("/a", 10);
/// serve("/b", 1);
/// serve("/a", 5);
/// let groups = sums.groups();
/// assert_eq!(groups.get(&["/a"]).unwrap().sum(), 15.0);
/// println!("{sums}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Aggregate {
    aggregation: Aggregation,
    predicate: Option<Predicate>,
    filter: CallFilter,
    groups: OnceLock<Prepared>,
    began: Baseline<Groups>,
}

/// The data that hits use.
struct Prepared {
    probes: ByProbe<Programs>,
    subjects: Appended<ProbeInfo>,
    /// Whether sums are fractions. Set by the first probes.
    is_float: OnceLock<bool>,
    cells: usize,
    /// A bit for each key that asks for callers. The first probes decide.
    caller_keys: u8,
    /// If keys ask for callers.
    callers: Option<Callers>,
    intervals: Option<Box<Intervals>>,
    /// The groups, and then the stacks.
    memory: PerThread<Rules, AtomicU64>,
    since: Since,
}

/// The memory of a hit's thread.
struct Memory<'a> {
    table: Table<'a>,
    rules: &'a Rules,
}

/// The expressions of one probe.
struct Programs {
    subject: u32,
    place: EvaluatedParts,
    keys: Vec<KeySource>,
    /// See [`Key::room`].
    room: usize,
    value: Option<Program>,
    /// If hits begin intervals.
    begins: Option<Box<SharedKey>>,
}

impl Aggregate {
    /// Creates an aggregation from its text.
    ///
    /// # Errors
    /// A mistake in the text.
    pub fn new(text: &str) -> Result<Self, ParseError> {
        Aggregation::parse(text).map(Self::of)
    }

    /// The same, of a text that is parsed already.
    pub(crate) fn of(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            predicate: None,
            filter: CallFilter::new(),
            groups: OnceLock::new(),
            began: Baseline::default(),
        }
    }

    /// Leaves out hits that do not fulfil a predicate. Unlike
    /// [`attach_if`](ProbeSet::attach_if), this may group by fields of the exit, or measure calls,
    /// although the predicate is about the exit.
    ///
    /// ```
    /// use probe_runtime::{Aggregate, probe, select};
    ///
    /// #[probe(ret)]
    /// fn answer(code: u32) -> u32 {
    ///     code
    /// }
    ///
    /// let errors = Aggregate::new("latency by(ret)")?.only_if("ret >= 500".parse()?);
    /// let errors = select("**::answer")?.attach(errors)?;
    /// [200, 500, 503, 500].map(answer);
    /// let calls = errors.groups().iter().map(|group| (group.keys()[0].clone(), group.count())).collect::<Vec<_>>();
    /// assert_eq!(calls, [("500".to_owned(), 2), ("503".to_owned(), 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn only_if(self, predicate: Predicate) -> Self {
        Self { predicate: Some(predicate), ..self }
    }

    /// Returns the groups since it was attached, or since the last [`reset`](Self::reset).
    pub fn groups(&self) -> Groups {
        self.began.now(|| self.all_groups(), Groups::since)
    }

    /// Begins anew: later readings have later hits only. Returns the groups up to now.
    pub fn reset(&self) -> Groups {
        self.began.reset(|| self.all_groups(), Groups::since)
    }

    fn all_groups(&self) -> Groups {
        let Some(prepared) = self.groups.get() else {
            let none = Period::default();
            return Groups::new(&self.aggregation, Vec::new(), Threads::default(), 0, Vec::new(), none);
        };
        let tables = prepared.memory.iter();
        let tables = tables.map(|local| Table { words: local.parts(), cells: prepared.cells });
        groups::read(&self.aggregation, prepared, tables, self.filter.notes())
    }

    fn intervals_if_any(&self) -> Option<&Intervals> {
        self.groups.get()?.intervals.as_deref()
    }

    fn cells(&self) -> usize {
        match self.aggregation.function {
            AggregateFunction::Quantize => PLAIN + POWERS,
            function if function.is_of_times() => PLAIN + BUCKETS,
            _ => PLAIN,
        }
    }

    /// Returns the keys that ask for callers: none of the probes has a field of that name.
    fn caller_keys(&self, probes: &ProbeSet) -> u8 {
        let infos = probes.probes();
        let fields: Vec<_> = infos.iter().flat_map(fields).collect();
        let scope = Scope { fields: &fields, has_latency: true };
        let asks = self.aggregation.keys.iter().map(|key| u8::from(key.callers(&scope).is_some()));
        asks.zip(0..).map(|(asks, number)| asks << number).sum()
    }

    /// Gets ready for callers, if these keys ask for them.
    fn callers(&self, caller_keys: u8) -> Option<Callers> {
        let none = Scope { fields: &[], has_latency: true };
        let keys = self.aggregation.keys.iter().zip(0..);
        let asking = keys.filter(|(_, number)| caller_keys >> number & 1 != 0);
        let kinds: Vec<_> = asking.filter_map(|(key, _)| key.callers(&none)).collect();
        (!kinds.is_empty()).then(|| Callers::new(kinds.contains(&CallersKind::Stack)))?
    }

    fn plan(&self, probes: &ProbeSet, caller_keys: u8) -> Result<Plan, Error> {
        let is_latency = self.aggregation.function == AggregateFunction::Latency;
        let is_of_intervals = self.aggregation.function.is_of_intervals();
        let expressions = Expressions {
            predicate: self.predicate.as_ref(),
            is_evaluated_later: self.aggregation.function == AggregateFunction::Held,
            text: &self.aggregation.text,
            keys: &|key, scope| self.aggregation.key_fits(key, scope, caller_keys),
            key_count: self.aggregation.keys.len(),
            value: &|scope| self.aggregation.value_fits(scope),
            asks_latency: is_latency || self.aggregation.uses("latency"),
            asks_time: self.aggregation.uses("time"),
            hits: if is_of_intervals { HitsOfCall::Exit } else { HitsOfCall::One },
            ..Expressions::NONE
        };
        Plan::of(probes, &expressions)
    }

    /// Adds the programs of a plan's probes. One thread at a time calls it.
    fn add(&self, prepared: &Prepared, plan: &Plan, roles: &Roles) -> Result<(), Error> {
        let key = |info: &ProbeInfo| (info.path().to_owned(), info.file().to_owned(), info.line());
        let known = prepared.subjects.iter().map(key).zip(0..);
        // The number of each function that has a subject.
        let mut subjects: HashMap<_, u32> = known.collect();
        let (mut new, mut programs, mut is_float) = (Vec::new(), Vec::new(), false);
        for info in plan.infos.iter().filter(|info| plan.place(info.id()) != EvaluatedParts::default()) {
            let place = plan.place(info.id());
            let next = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
            let subject = *subjects.entry(key(info)).or_insert(next);
            if let Some(value) = self.aggregation.value.as_ref().filter(|_| place.value) {
                is_float |= value.is_float(&Scope { fields: &fields(info), has_latency: true });
            }
            let mut program = self.programs(prepared, info, subject, place)?;
            if let Some(role) = roles.get(&info.id()).filter(|_| prepared.intervals.is_some() && place.value)
            {
                program.begins = self.shared_key(info, role, place.keys_of_entry & 1 != 0)?;
                if program.begins.is_none() {
                    continue;
                }
            }
            programs.push((info.id(), program));
            if subject == next {
                new.push(info.clone());
            }
        }
        if programs.is_empty() {
            return Ok(());
        }
        if is_float && !*prepared.is_float.get_or_init(|| is_float) {
            let problem = "its number is a fraction, and those of earlier probes are integers; attach anew";
            return Err(Error::Consumer(problem.into()));
        }
        let _ = prepared.is_float.set(is_float);
        if !prepared.subjects.add(new) {
            return Err(Error::Consumer("there is no room for more functions; attach anew".into()));
        }
        prepared.probes.add(programs);
        Ok(())
    }

    fn programs(
        &self,
        prepared: &Prepared,
        info: &ProbeInfo,
        subject: u32,
        place: EvaluatedParts,
    ) -> Result<Programs, Error> {
        let fields = fields(info);
        let scope = Scope { fields: &fields, has_latency: true };
        if prepared.caller_keys != 0 && prepared.callers.is_none() {
            return Err(Error::Consumer(NO_CALLERS.into()));
        }
        let mut keys = Vec::new();
        for (number, key) in self.aggregation.keys.iter().enumerate() {
            if place.keys >> number & 1 != 0 {
                keys.push(KeySource::of(key, info)?);
            } else if place.keys_of_entry >> number & 1 != 0 {
                keys.push(KeySource::OfEntry);
            }
        }
        let value = self.aggregation.value.as_ref().filter(|_| place.value);
        let value = value.map(|value| Program::of_value(value, &scope)).transpose().map_err(unfit)?;
        Ok(Programs {
            subject,
            place,
            room: Key::room(self.aggregation.keys.len()),
            keys,
            value,
            begins: None,
        })
    }
}

impl Prepared {
    #[inline]
    fn is_float(&self) -> bool {
        self.is_float.get().copied().unwrap_or_default()
    }

    /// Returns the part of a thread's memory that stacks need.
    fn stacks_memory<'a>(&self, table: &Table<'a>) -> &'a [AtomicU64] {
        table.words.get(table::words(self.cells)..).unwrap_or_default()
    }

    /// Names the callers in these keys.
    fn caller_names<'a>(&'a self, keys: impl Iterator<Item = &'a mut WrittenKeys>) -> CallerNames {
        let Some(callers) = &self.callers else { return CallerNames::default() };
        let tables = self.memory.iter().map(|local| Table { words: local.parts(), cells: self.cells });
        CallerNames::of(callers, tables.map(|table| self.stacks_memory(&table)), keys)
    }

    #[inline(always)]
    fn add_callers(&self, key: &mut Key, kind: CallersKind, event: &Event<'_>, memory: &Memory<'_>) {
        let Some(callers) = &self.callers else { return };
        match kind {
            CallersKind::Nearest => key.add_call(callers.caller(event, memory.rules)),
            CallersKind::Stack => {
                let stacks = self.stacks_memory(&memory.table);
                key.add_stack(callers.stack(event, memory.rules, stacks));
            }
        }
    }

    /// Returns the group of a call that began on another thread.
    #[cold]
    fn moved(&self, table: &Table<'_>, of_entry: u64) -> Option<usize> {
        let mut tables = self.memory.iter().map(|local| Table { words: local.parts(), cells: self.cells });
        let found = tables.find_map(|other| Some((other.of_handle(of_entry)?, other)));
        found.map(|(group, other)| table.adopt(&other, group))
    }
}

impl Consumer for Aggregate {
    fn wanted_fields(&self) -> WantedFields {
        if self.aggregation.function == AggregateFunction::Held {
            return WantedFields::all_known();
        }
        let of_predicate = self.predicate.as_ref().map_or_else(Vec::new, |it| it.node().fields());
        WantedFields::named([self.aggregation.fields(), of_predicate].concat())
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let (all, mut roles) = (probes, Roles::default());
        self.add_roles(&mut roles, all)?;
        let probes = &self.beginning(all, &roles);
        let caller_keys = self.caller_keys(probes);
        let plan = self.plan(probes, caller_keys)?;
        // An error about its fields comes first.
        plan.check()?;
        let callers = self.callers(caller_keys);
        let words = table::words(self.cells()) + callers.as_ref().map_or(0, Callers::words);
        let prepared = Prepared {
            caller_keys,
            callers,
            intervals: self.intervals(all, roles.clone(), &plan)?,
            probes: ByProbe::new(probes.numbers()),
            subjects: Appended::new(Vec::new(), probes.len() + probes.room()),
            is_float: OnceLock::new(),
            cells: self.cells(),
            memory: PerThread::new(words)?,
            since: Since::now(),
        };
        self.add(&prepared, &plan, &roles)?;
        self.filter.prepare(probes, plan)?;
        let _ = self.groups.set(prepared);
        Ok(())
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let Some(prepared) = self.groups.get() else { return Ok(()) };
        prepared.callers.iter().for_each(Callers::look);
        let mut roles =
            prepared.intervals.as_ref().map_or_else(Roles::new, |it| Roles::clone(&it.roles.get()));
        self.add_roles(&mut roles, probes)?;
        let set = self.filter.joined_by(&self.beginning(probes, &roles));
        let plan = self.plan(&set, prepared.caller_keys)?;
        if let Some(intervals) = &prepared.intervals {
            self.join_intervals(intervals, probes, roles.clone(), &plan)?;
        }
        self.filter.check(&set)?;
        self.add(prepared, &plan, &roles)?;
        self.filter.join(&set, plan)
    }

    fn look_at_objects(&self) {
        self.groups.get().and_then(|it| it.callers.as_ref()).into_iter().for_each(Callers::look);
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.filter.attached(&switch);
        self.intervals_if_any().into_iter().for_each(|it| it.attached(&switch));
        Ok(())
    }

    fn pausing(&self) {
        self.intervals_if_any().into_iter().for_each(Intervals::pausing);
    }

    fn start(&self, probe: ProbeId) -> Start {
        match self.intervals_if_any() {
            Some(intervals) if intervals.needs(probe) => Start::On,
            _ => self.filter.start(probe, Start::On),
        }
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        let Some(prepared) = self.groups.get() else { return };
        if let Some(intervals) = &prepared.intervals {
            self.end_interval(prepared, intervals, event);
        }
        let Some(programs) = prepared.probes.get(event.probe()) else {
            // A poll of a future, which belongs to its call.
            self.filter.hit(event, |_| (), |_, _| 0);
            return;
        };
        let memory = || {
            let local = prepared.memory.of(event)?;
            let table = Table { words: local.parts(), cells: prepared.cells };
            Some(Memory { table, rules: local.head() })
        };
        let alone = |context: &HitContext<'_>| {
            if let Some(memory) = memory()
                && !self.begins_without_group(prepared, programs, event, context)
                && let Some(group) = self.group(prepared, &memory, programs, event, context, None)
            {
                self.count(prepared, &memory, programs, group, event, context);
            }
        };
        self.filter.hit(event, alone, |passed, context| {
            let Some(memory) = memory() else { return NO_GROUP };
            let table = &memory.table;
            if self.begins_without_group(prepared, programs, event, context) {
                return NO_GROUP;
            }
            let group = match passed {
                PassedHit::Other(of_entry) if programs.place.keys_of_entry != 0 => {
                    self.group_of_call(prepared, &memory, programs, event, context, of_entry)
                }
                _ => self.group(prepared, &memory, programs, event, context, None),
            };
            // Without one, its keys had a fault, which was counted.
            let Some(group) = group else { return NO_GROUP };
            if programs.place.value {
                self.count(prepared, &memory, programs, group, event, context);
            }
            table.handle(group)
        });
    }
}

impl_display!(Aggregate: groups);

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("subjects", &self.subjects.len()).finish_non_exhaustive()
    }
}
