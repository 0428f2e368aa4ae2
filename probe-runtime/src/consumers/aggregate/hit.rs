//! What a hit does: its keys name a group, to which its number is added.

use std::sync::atomic::AtomicU64;

use super::key::{Key, StoredKeys};
use super::table::{PLAIN, add_float, add_int, power};
use super::{Aggregate, AggregateFunction, KeySource, Memory, Prepared, Programs};
use crate::consumers::buckets::index;
use crate::consumers::filter::HitContext;
use crate::engine::calls::add_single_writer;
use crate::engine::dispatch::Event;
use probe_core::abi::{Value, ValueRef};
use probe_lang::expression::{Datum, Fault};

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
