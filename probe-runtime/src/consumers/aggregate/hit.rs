//! A hit of an aggregation: its keys, and its number.
//!
//! Cost: [`Aggregate::group`] and the counting of a hit are inlined where they are called. Numbers
//! are added by a function of their own.

use std::sync::atomic::AtomicU64;

use super::key::Key;
use super::table::{PLAIN, Table, add_float, add_int, power};
use super::{Aggregate, AggregateFunction, KeySource, Prepared, Programs};
use crate::consumers::buckets::index;
use crate::consumers::filter::HitContext;
use crate::engine::calls::add_single_writer;
use crate::engine::dispatch::Event;
use probe_core::abi::{Value, ValueRef};
use probe_lang::expression::{Datum, Fault};

impl Aggregate {
    /// Returns the number of the group that a hit's keys name; `None` after a fault.
    #[inline(always)]
    pub(super) fn group(
        &self,
        table: &Table<'_>,
        programs: &Programs,
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) -> Option<usize> {
        let mut key = Key::new(programs.subject, programs.room);
        match Self::add_keys(&mut key, programs, event, context) {
            Ok(()) => Some(table.find(&key)),
            Err(fault) => {
                self.filter.fault(event, fault);
                None
            }
        }
    }

    #[inline(always)]
    fn add_keys(
        key: &mut Key,
        programs: &Programs,
        event: &Event<'_>,
        context: &HitContext<'_>,
    ) -> Result<(), Fault> {
        for source in &programs.keys {
            match source {
                KeySource::Field(field) => key.add_field(event.values().get(*field))?,
                KeySource::Value(program) => key.add(context.value(program))?,
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
        if self.asked.function == AggregateFunction::Count {
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
                    !matches!(self.asked.function, AggregateFunction::Min | AggregateFunction::Max);
                if !add_int(cells, int, needs_sum) {
                    return Err(Fault::Overflow);
                }
                int
            }
            _ => return Err(Fault::OtherType),
        };
        let bucket = match self.asked.function {
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
