//! Points as counters: one with exactly one numeric field is shown as a line over time, too. Where
//! a point has several, they may be anything, such as ids.

use crate::calls::Instant;
use crate::item::{FieldValue, Kind};

/// Returns the name of the point's only numeric field, and its value.
pub(super) fn counter_value(instant: &Instant) -> Option<(&str, &FieldValue)> {
    let is_number = |value| matches!(value, &FieldValue::U64(_) | &FieldValue::I64(_) | &FieldValue::F64(_));
    let mut numbers = instant.fields.iter().filter(|(_, value)| is_number(*value));
    let first = numbers.next().filter(|_| instant.fields.definition().kind == Some(Kind::Point))?;
    numbers.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::counter_value;
    use crate::calls::{Calls, Step};
    use crate::fixtures::Fixture;
    use crate::item::FieldValue;

    #[test]
    fn a_point_with_one_number_counts() {
        let text = || FieldValue::Str { text: "a".to_owned(), cut: 0 };
        let fixture = Fixture::new()
            .fields(1, 10, "point app::one", vec![("to", text()), ("length", FieldValue::I64(-3))])
            .fields(1, 11, "point app::two", vec![("x", FieldValue::U64(1)), ("y", FieldValue::F64(0.5))])
            .fields(1, 12, "point app::none", vec![("to", text())])
            .fields(1, 13, "exit app::f", vec![("result", FieldValue::U64(2))]);
        let counters: Vec<_> = Calls::new(fixture.results())
            .filter_map(|step| match step {
                Ok(Step::Instant(instant)) => Some(counter_value(&instant).map(|(name, _)| name.to_owned())),
                _ => None,
            })
            .collect();
        assert_eq!(counters, [Some("length".to_owned()), None, None, None]);
    }
}
