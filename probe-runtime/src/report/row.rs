//! The rows of a report, and the members around them. JSON, CSV and the formats of `serde` are made
//! from these, so they agree.

use std::borrow::Cow;
use std::time::Duration;

use super::json::{JsonObject, array, quoted};

/// One value of a row.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "no feature alone has all of them")]
pub(crate) enum Cell<'a> {
    /// There was no measurement.
    Nothing,
    Text(Cow<'a, str>),
    Number(u64),
    /// A whole number that may be negative, or beyond 64 bits.
    Integer(i128),
    Decimal(f64),
    Flag(bool),
    /// Written in seconds.
    Seconds(Duration),
    Texts(Vec<String>),
    Row(Row<'a>),
    Rows(Vec<Row<'a>>),
}

/// Named values.
#[derive(Clone, Default, Debug)]
pub(crate) struct Row<'a>(pub(crate) Vec<(Cow<'a, str>, Cell<'a>)>);

impl<'a> Row<'a> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, name: impl Into<Cow<'a, str>>, cell: impl Into<Cell<'a>>) -> Self {
        self.push(name.into(), cell.into());
        self
    }

    #[inline(never)]
    pub(super) fn push(&mut self, name: Cow<'a, str>, cell: Cell<'a>) {
        self.0.push((name, cell));
    }

    pub(crate) fn json(&self) -> String {
        self.add_to(JsonObject::new()).finish()
    }

    pub(super) fn add_to(&self, object: JsonObject) -> JsonObject {
        self.0.iter().fold(object, |object, (name, cell)| match cell {
            Cell::Nothing => object.json(name, "null"),
            // JSON has no such number.
            Cell::Decimal(number) if !number.is_finite() => object.json(name, "null"),
            Cell::Text(text) => object.text(name, text),
            Cell::Number(number) => object.number(name, *number),
            Cell::Row(row) => object.json(name, &row.json()),
            Cell::Rows(rows) => object.json(name, &array(rows.iter().map(Row::json))),
            Cell::Texts(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                object.json(name, &format!("[{}]", texts.join(",")))
            }
            Cell::Integer(_) | Cell::Decimal(_) | Cell::Flag(_) | Cell::Seconds(_) => {
                object.json(name, &cell.plain())
            }
        })
    }
}

impl Cell<'_> {
    /// Formats a cell of CSV; empty if there is no value.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(text) => text.clone().into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Integer(number) => number.to_string(),
            Self::Texts(texts) => texts.join(" "),
            Self::Decimal(number) if !number.is_finite() => String::new(),
            Self::Decimal(number) => decimal(*number),
            Self::Flag(is) => is.to_string(),
            Self::Seconds(duration) => format!("{:.6}", duration.as_secs_f64()),
            Self::Row(row) => row.json(),
            Self::Rows(rows) => array(rows.iter().map(Row::json)),
        }
    }
}

/// Formats a number as in JSON, without trailing zeros.
pub(crate) fn decimal(number: f64) -> String {
    // Most are whole, and these are formatted in a fraction of the time.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far below the largest")]
        return (number as i64).to_string();
    }
    let mut text = format!("{number:.4}");
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text
}

/// `from!(Type as value => cell)`.
macro_rules! from {
    ($($of:ty as $value:ident => $cell:expr),* $(,)?) => {$(
        impl<'a> From<$of> for Cell<'a> {
            fn from($value: $of) -> Self {
                $cell
            }
        }
    )*};
}

from! {
    &'a str as text => Self::Text(text.into()),
    String as text => Self::Text(text.into()),
    u64 as number => Self::Number(number),
    u32 as number => Self::Number(number.into()),
    usize as number => Self::Number(number as u64),
    f64 as number => Self::Decimal(number),
    bool as is => Self::Flag(is),
    Row<'a> as row => Self::Row(row),
}

impl<'a> FromIterator<Row<'a>> for Cell<'a> {
    fn from_iter<Rows: IntoIterator<Item = Row<'a>>>(rows: Rows) -> Self {
        Self::Rows(rows.into_iter().collect())
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Nothing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_programs_read_them() {
        assert_eq!(Cell::from(7_u64).plain(), "7");
        let shown =
            [Some(2.0), Some(0.125), Some(1.0 / 3.0), Some(1e15), None].map(|it| Cell::from(it).plain());
        assert_eq!(shown, ["2", "0.125", "0.3333", "1000000000000000", ""]);
        let whole = [-7.0, 0.0, 1e15 - 1.0, 9.99999, 1e22].map(decimal);
        assert_eq!(whole, ["-7", "0", "999999999999999", "10", "10000000000000000000000"]);
    }

    #[test]
    fn a_row_as_json() {
        let inner = Row::new().with("text", "a\"b").with("none", None::<f64>);
        let row = Row::new().with("n", 7_u32).with("is", true).with("row", inner.clone());
        let row =
            row.with("rows", Cell::from_iter([inner])).with("s", Cell::Seconds(Duration::from_micros(5)));
        let text = r#"{"text":"a\"b","none":null}"#;
        let expected = format!("{{\"n\":7,\"is\":true,\"row\":{text},\"rows\":[\n{text}\n],\"s\":0.000005}}");
        assert_eq!(row.json(), expected);
    }
}
