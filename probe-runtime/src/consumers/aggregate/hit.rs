//! A hit's way: its keys name a group, to which its number is added.

use std::sync::atomic::AtomicU64;

use super::intervals::{Intervals, SharedKey};
use super::key::{Key, StoredKeys};
use super::table::{NO_GROUP, PLAIN, Table, add_float, add_int, power};
use super::{Aggregate, AggregateFunction, Memory, Prepared, Programs};
use crate::consumers::buckets::index;
use crate::consumers::filter::{HitContext, fields};
use crate::engine::calls::add_single_writer;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::registry::ProbeInfo;
use probe_core::abi::{Kind, Value, ValueRef};
use probe_lang::expression::{Callers as CallersKind, Datum, Fault, Mismatch, Node, Program, Scope};

/// The source of a key at a hit.
pub(super) enum KeySource {
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

impl KeySource {
    /// Returns the source of a key at hits of a probe, which it fits.
    pub(super) fn of(key: &Node, info: &ProbeInfo) -> Result<Self, Error> {
        let fields = fields(info);
        let scope = Scope { fields: &fields, has_latency: true };
        let is_inside = !matches!(info.kind(), Kind::Exit | Kind::Drop | Kind::Suspend);
        match (key.callers(&scope), key.shown_field(&scope)) {
            (Some(callers), _) if is_inside => Ok(Self::Callers(callers)),
            (Some(callers), _) => Ok(Self::CallersOfC(callers)),
            (_, Some(field)) => Ok(Self::Shown(field)),
            _ => Program::of_value(key, &scope).map_err(unfit).map(|program| match program.field() {
                Some(field) => Self::Field(field),
                None => Self::Value(program),
            }),
        }
    }
}

pub(super) fn unfit(_: Mismatch) -> Error {
    Error::Consumer("the probe's fields have changed; attach again".into())
}

/// Finding a group and counting are inlined where they are called; numbers are added by a function
/// of their own.
impl Aggregate {
    /// Returns the number of the group that a hit's keys name; `None` after a fault. `of_entry` are
    /// those of its call's entry.
    #[inline(always)]
    pub(super) fn group(
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
    pub(super) fn group_of_call(
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
                KeySource::CallersOfC(_) if !event.may_skip_exit() => key.add_call(None),
                KeySource::Callers(kind) | KeySource::CallersOfC(kind) => {
                    prepared.add_callers(key, *kind, event, memory);
                }
                source => Self::add_value(key, source, event, context)?,
            }
        }
        Ok(())
    }

    /// Adds a key that the hit itself has.
    #[inline(always)]
    fn add_value(
        key: &mut Key,
        source: &KeySource,
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) -> Result<(), Fault> {
        match source {
            KeySource::Field(field) => key.add_field(event.values().get(*field)),
            KeySource::Value(program) => key.add(context.value(program)),
            KeySource::Shown(field) => match event.values().get(*field).map(Value::get) {
                None | Some(ValueRef::Absent | ValueRef::Failed) => key.add(Err(Fault::Missing)),
                Some(ValueRef::Unreadable) => key.add(Err(Fault::Unreadable)),
                Some(value) => {
                    key.add_shown(&value);
                    Ok(())
                }
            },
            KeySource::OfEntry | KeySource::Callers(_) | KeySource::CallersOfC(_) => Ok(()),
        }
    }

    /// Counts a hit in its group, or begins an interval of it.
    #[inline(always)]
    pub(super) fn count(
        &self,
        prepared: &Prepared,
        memory: &Memory<'_>,
        programs: &Programs,
        group: usize,
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) {
        match (&prepared.intervals, &programs.begins) {
            (Some(intervals), Some(shared)) => {
                self.begin_interval(intervals, shared, Some((&memory.table, group)), event, context);
            }
            _ => self.add_hit(prepared, programs, memory.table.cells(group), event, context),
        }
    }

    /// Returns whether the predicate leaves out what a hit begins. The interval then has no group.
    /// It is begun, since its end must not be another interval's.
    #[inline(always)]
    pub(super) fn begins_without_group(
        &self,
        prepared: &Prepared,
        programs: &Programs,
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) -> bool {
        let (Some(intervals), Some(shared)) = (&prepared.intervals, &programs.begins) else { return false };
        let Some(predicate) = &shared.predicate else { return false };
        let passes = predicate.passes(event.values(), context).unwrap_or_else(|fault| {
            self.filter.fault(event, fault);
            false
        });
        if !passes {
            self.begin_interval(intervals, shared, None, event, context);
        }
        !passes
    }

    /// Begins an interval of a group, or of none.
    #[inline(never)]
    fn begin_interval(
        &self,
        intervals: &Intervals,
        shared: &SharedKey,
        group: Option<(&Table<'_>, usize)>,
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) {
        let mut key = shared.key();
        let read = shared.holds(event, context).and_then(|holds| {
            match &shared.source {
                Some(KeySource::OfEntry) => {
                    let Some(mut stored) = group.and_then(|(table, at)| table.stored_keys(at)) else {
                        intervals.without_key(event);
                        return Ok(false);
                    };
                    key.add_stored(&mut stored);
                }
                Some(source) => Self::add_value(&mut key, source, event, context)?,
                None => (),
            }
            if key.is_missing() { Err(Fault::Missing) } else { Ok(holds) }
        });
        match read {
            Ok(true) => intervals.begin(event, &key, group.map_or(NO_GROUP, |(table, at)| table.handle(at))),
            Ok(false) => (),
            Err(fault) => self.filter.fault(event, fault),
        }
    }

    /// Ends the interval whose key the hit has, if it is one that ends.
    #[inline(always)]
    pub(super) fn end_interval(&self, prepared: &Prepared, intervals: &Intervals, event: &Event<'_>) {
        let Some(shared) = intervals.end_of(event) else { return };
        let end = |context: &HitContext<'_>| {
            let now = intervals.now();
            let mut key = shared.key();
            let read =
                shared.source.as_ref().map_or(Ok(()), |it| Self::add_value(&mut key, it, event, context));
            // Two missing values are not the same one.
            if let Some(fault) = read.err().or(key.is_missing().then_some(Fault::Missing)) {
                return intervals.filter.fault(event, fault);
            }
            let Some((group, time)) = intervals.end(event, &key, now) else { return };
            let Some(local) = prepared.memory.of(event) else { return };
            let table = Table { words: local.parts(), cells: prepared.cells };
            let Some(group) = table.of_handle(group) else { return };
            // Its time fits.
            let _ = self.add_int(table.cells(group), time);
        };
        intervals.filter.hit(event, end, |_, context| {
            end(context);
            0
        });
    }

    /// Adds a hit to a group.
    #[inline(always)]
    pub(super) fn add_hit(
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
            Datum::Int(it) => return self.add_int(cells, i64::try_from(it).map_err(|_| Fault::Overflow)?),
            _ => return Err(Fault::OtherType),
        };
        self.add_to_bucket(cells, int);
        Ok(())
    }

    fn add_int(&self, cells: &[AtomicU64], int: i64) -> Result<(), Fault> {
        let needs_sum = !matches!(self.aggregation.function, AggregateFunction::Min | AggregateFunction::Max);
        if !add_int(cells, int, needs_sum) {
            return Err(Fault::Overflow);
        }
        self.add_to_bucket(cells, int);
        Ok(())
    }

    fn add_to_bucket(&self, cells: &[AtomicU64], int: i64) {
        let bucket = match self.aggregation.function {
            AggregateFunction::Quantize => cells.get(PLAIN + power(int)),
            function if function.is_of_times() => cells.get(PLAIN + index(int.unsigned_abs())),
            _ => None,
        };
        bucket.into_iter().for_each(|bucket| add_single_writer(bucket, 1));
    }

    fn add_number(cells: &[AtomicU64], number: Option<f64>) -> Result<(), Fault> {
        add_float(cells, number.filter(|number| !number.is_nan()).ok_or(Fault::OtherType)?);
        Ok(())
    }
}
