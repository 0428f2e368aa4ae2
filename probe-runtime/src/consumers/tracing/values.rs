//! A hit's fields as values of `tracing`.

use tracing_core::field::{DisplayValue, Field, FieldSet, Value, ValueSet, display};

use crate::engine::dispatch::Event;
use probe_core::abi::ValueRef;

/// The most fields of a probe, and the name of a point.
const MOST: usize = 32 + 1;

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
        _ => with_array::<MOST>(event, set, fields, message, run),
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
