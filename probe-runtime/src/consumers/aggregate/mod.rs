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
//! of times.

mod callers;
mod groups;
mod key;
mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use callers::CallerNames;
use key::{Key, StoredKeys, WrittenKeys};
use probe_lang::aggregation::{Aggregation, Function as AggregateFunction};
use table::{PLAIN, POWERS, Table, add_float, add_int, power};

use super::buckets::{BUCKETS, index};
use super::filter::{CallFilter, EvaluatedParts, Expressions, HitContext, PassedHit, Plan, fields};
use crate::engine::by_probe::{Appended, ByProbe};
use crate::engine::c_values::WantedFields;
use crate::engine::calls::add_single_writer;
use crate::engine::control::{Baseline, Consumer, ProbeSet, Start, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::PerThread;
use crate::engine::registry::{ProbeId, ProbeInfo};
use crate::engine::stacks::{Callers, NO_CALLERS, Rules};
use probe_core::abi::{Kind, Value, ValueRef};
use probe_lang::ParseError;
use probe_lang::expression::{Callers as CallersKind, Datum, Fault, Node, Predicate, Program, Scope};
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
}

enum KeySource {
    Field(usize),
    Value(Program),
    /// A field that formats itself.
    Shown(usize),
    /// The function that called, or all that led there.
    Callers(CallersKind),
    /// The same at a hit that may be in another function than the probe's, unless it is of C: a
    /// guard's `drop` has the exits of Rust.
    CallersOfC(CallersKind),
    /// The next key of the group that the entry of the call has named.
    OfEntry,
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

    fn cells(&self) -> usize {
        match self.aggregation.function {
            AggregateFunction::Quantize => PLAIN + POWERS,
            AggregateFunction::Latency => PLAIN + BUCKETS,
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
        let expressions = Expressions {
            predicate: self.predicate.as_ref(),
            text: &self.aggregation.text,
            keys: &|key, scope| self.aggregation.key_fits(key, scope, caller_keys),
            key_count: self.aggregation.keys.len(),
            value: &|scope| self.aggregation.value_fits(scope),
            asks_latency: is_latency || self.aggregation.uses("latency"),
            asks_time: self.aggregation.uses("time"),
            is_of_one_hit: true,
            others: &[],
            needs_entries: None,
        };
        Plan::of(probes, &expressions)
    }

    /// Adds the programs of a plan's probes. One thread at a time calls it.
    fn add(&self, prepared: &Prepared, plan: &Plan) -> Result<(), Error> {
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
            programs.push((info.id(), self.programs(prepared, info, subject, place)?));
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
        let unfit = |_| Error::Consumer("the probe's fields have changed; attach again".into());
        let is_inside = !matches!(info.kind(), Kind::Exit | Kind::Drop | Kind::Suspend);
        if prepared.caller_keys != 0 && prepared.callers.is_none() {
            return Err(Error::Consumer(NO_CALLERS.into()));
        }
        let source = |key: &Node| match (key.callers(&scope), key.shown_field(&scope)) {
            (Some(callers), _) if is_inside => Ok(KeySource::Callers(callers)),
            (Some(callers), _) => Ok(KeySource::CallersOfC(callers)),
            (_, Some(field)) => Ok(KeySource::Shown(field)),
            _ => Program::of_value(key, &scope).map(|program| match program.field() {
                Some(field) => KeySource::Field(field),
                None => KeySource::Value(program),
            }),
        };
        let mut keys = Vec::new();
        for (number, key) in self.aggregation.keys.iter().enumerate() {
            if place.keys >> number & 1 != 0 {
                keys.push(source(key).map_err(unfit)?);
            } else if place.keys_of_entry >> number & 1 != 0 {
                keys.push(KeySource::OfEntry);
            }
        }
        let value = self.aggregation.value.as_ref().filter(|_| place.value);
        let value = value.map(|value| Program::of_value(value, &scope)).transpose().map_err(unfit)?;
        Ok(Programs { subject, place, room: Key::room(self.aggregation.keys.len()), keys, value })
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

/// A hit: its keys, and its number. Finding a group and counting are inlined where they are called;
/// numbers are added by a function of their own.
impl Aggregate {
    /// Returns the number of the group that a hit's keys name; `None` after a fault. `of_entry` are
    /// those of its call's entry.
    #[inline(always)]
    fn group(
        &self,
        prepared: &Prepared,
        memory: &Memory<'_>,
        programs: &Programs,
        event: &Event<'_>,
        context: &HitContext<'_>,
        of_entry: Option<&mut StoredKeys>,
    ) -> Option<usize> {
        let mut key = Key::new(programs.subject, programs.room);
        match Self::add_keys(&mut key, prepared, memory, programs, event, context, of_entry) {
            Ok(()) => Some(memory.table.find(&key)),
            Err(fault) => {
                self.filter.fault(event, fault);
                None
            }
        }
    }

    /// Returns the group of a call that ends, whose entry has named some or all of the keys.
    #[inline(never)]
    fn group_of_call(
        &self,
        prepared: &Prepared,
        memory: &Memory<'_>,
        programs: &Programs,
        event: &Event<'_>,
        context: &HitContext<'_>,
        of_entry: u64,
    ) -> Option<usize> {
        let table = &memory.table;
        let named = table.of_handle(of_entry).or_else(|| prepared.moved(table, of_entry))?;
        match table.stored_keys(named) {
            Some(mut stored) if programs.place.keys != 0 => {
                self.group(prepared, memory, programs, event, context, Some(&mut stored))
            }
            _ => Some(named),
        }
    }

    #[inline(always)]
    fn add_keys(
        key: &mut Key,
        prepared: &Prepared,
        memory: &Memory<'_>,
        programs: &Programs,
        event: &Event<'_>,
        context: &HitContext<'_>,
        mut of_entry: Option<&mut StoredKeys>,
    ) -> Result<(), Fault> {
        for source in &programs.keys {
            match source {
                KeySource::OfEntry => of_entry.iter_mut().for_each(|stored| key.add_stored(stored)),
                KeySource::Field(field) => key.add_field(event.values().get(*field))?,
                KeySource::Value(program) => key.add(context.value(program))?,
                KeySource::CallersOfC(_) if !event.may_skip_exit() => key.add_call(None),
                KeySource::Callers(kind) | KeySource::CallersOfC(kind) => {
                    prepared.add_callers(key, *kind, event, memory);
                }
                KeySource::Shown(field) => match event.values().get(*field).map(Value::get) {
                    None | Some(ValueRef::Absent | ValueRef::Failed) => key.add(Err(Fault::Missing))?,
                    Some(ValueRef::Unreadable) => key.add(Err(Fault::Unreadable))?,
                    Some(value) => key.add_shown(&value),
                },
            }
        }
        Ok(())
    }

    /// Adds a hit to a group.
    #[inline(always)]
    fn add_hit(
        &self,
        prepared: &Prepared,
        programs: &Programs,
        cells: &[AtomicU64],
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) {
        if self.aggregation.function == AggregateFunction::Count {
            cells.first().into_iter().for_each(|count| add_single_writer(count, 1));
        } else if let Err(fault) = self.add_number_of_hit(prepared, programs, cells, context) {
            self.filter.fault(event, fault);
        }
    }

    #[inline(never)]
    fn add_number_of_hit(
        &self,
        prepared: &Prepared,
        programs: &Programs,
        cells: &[AtomicU64],
        context: &HitContext<'_>,
    ) -> Result<(), Fault> {
        let number = match &programs.value {
            Some(program) => context.value(program)?,
            None => Datum::Int(context.call_time()?.into()),
        };
        let int = match number {
            Datum::Large(it) if prepared.is_float() => {
                Self::add_number(cells, Datum::Large(it).float())?;
                i64::MAX
            }
            Datum::Large(_) => return Err(Fault::Overflow),
            Datum::Int(it) if prepared.is_float() => {
                Self::add_number(cells, Datum::Int(it).float())?;
                i64::try_from(it).unwrap_or(if it < 0 { i64::MIN } else { i64::MAX })
            }
            Datum::Float(it) if prepared.is_float() => {
                Self::add_number(cells, Some(it))?;
                #[expect(clippy::cast_possible_truncation, reason = "its bucket is of the whole number")]
                let whole = it as i64;
                whole
            }
            Datum::Int(it) => {
                let int = i64::try_from(it).map_err(|_| Fault::Overflow)?;
                let needs_sum =
                    !matches!(self.aggregation.function, AggregateFunction::Min | AggregateFunction::Max);
                if !add_int(cells, int, needs_sum) {
                    return Err(Fault::Overflow);
                }
                int
            }
            _ => return Err(Fault::OtherType),
        };
        let bucket = match self.aggregation.function {
            AggregateFunction::Quantize => cells.get(PLAIN + power(int)),
            AggregateFunction::Latency => cells.get(PLAIN + index(int.unsigned_abs())),
            _ => None,
        };
        bucket.into_iter().for_each(|bucket| add_single_writer(bucket, 1));
        Ok(())
    }

    fn add_number(cells: &[AtomicU64], number: Option<f64>) -> Result<(), Fault> {
        add_float(cells, number.filter(|number| !number.is_nan()).ok_or(Fault::OtherType)?);
        Ok(())
    }
}

impl Consumer for Aggregate {
    fn wanted_fields(&self) -> WantedFields {
        let of_predicate = self.predicate.as_ref().map_or_else(Vec::new, |it| it.node().fields());
        WantedFields::named([self.aggregation.fields(), of_predicate].concat())
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let caller_keys = self.caller_keys(probes);
        let callers = self.callers(caller_keys);
        let words = table::words(self.cells()) + callers.as_ref().map_or(0, Callers::words);
        let prepared = Prepared {
            caller_keys,
            callers,
            probes: ByProbe::new(probes.numbers()),
            subjects: Appended::new(Vec::new(), probes.len() + probes.room()),
            is_float: OnceLock::new(),
            cells: self.cells(),
            memory: PerThread::new(words)?,
            since: Since::now(),
        };
        let plan = self.plan(probes, caller_keys)?;
        // An error about its fields comes first.
        plan.check()?;
        self.add(&prepared, &plan)?;
        self.filter.prepare(probes, plan)?;
        let _ = self.groups.set(prepared);
        Ok(())
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let Some(prepared) = self.groups.get() else { return Ok(()) };
        prepared.callers.iter().for_each(Callers::look);
        let set = self.filter.joined_by(probes);
        let plan = self.plan(&set, prepared.caller_keys)?;
        self.filter.check(&set)?;
        self.add(prepared, &plan)?;
        self.filter.join(&set, plan)
    }

    fn look_at_objects(&self) {
        self.groups.get().and_then(|it| it.callers.as_ref()).into_iter().for_each(Callers::look);
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.filter.attached(&switch);
        Ok(())
    }

    fn start(&self, probe: ProbeId) -> Start {
        self.filter.start(probe, Start::On)
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        let Some(prepared) = self.groups.get() else { return };
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
                && let Some(group) = self.group(prepared, &memory, programs, event, context, None)
            {
                self.add_hit(prepared, programs, memory.table.cells(group), event, context);
            }
        };
        self.filter.hit(event, alone, |passed, context| {
            let Some(memory) = memory() else { return 0 };
            let table = &memory.table;
            let group = match passed {
                PassedHit::Other(of_entry) if programs.place.keys_of_entry != 0 => {
                    self.group_of_call(prepared, &memory, programs, event, context, of_entry)
                }
                _ => self.group(prepared, &memory, programs, event, context, None),
            };
            // Without one, its keys had a fault, which was counted.
            let Some(group) = group else { return 0 };
            if programs.place.value {
                self.add_hit(prepared, programs, table.cells(group), event, context);
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
