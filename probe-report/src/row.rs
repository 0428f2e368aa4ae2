//! Rows with named values, which programs read: as JSON, as CSV, or as the values that they are.

use std::borrow::Cow;
use std::slice;
use std::time::Duration;

use crate::json::{JsonObject, array, decimal, quoted};

/// One value of a row.
///
/// ```
/// use probe_report::Cell;
///
/// assert_eq!(Cell::from(Some(7_u64)), Cell::Number(7));
/// assert_eq!(Cell::from(None::<f64>), Cell::Nothing);
/// ```
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Cell<'a> {
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
    /// As a message, it has no rows in it.
    Row(#[cfg_attr(feature = "serde", serde(deserialize_with = "flat::row"))] Row<'a>),
    /// The same.
    Rows(#[cfg_attr(feature = "serde", serde(deserialize_with = "flat::rows"))] Vec<Row<'a>>),
}

/// Named values.
///
/// ```
/// use probe_report::Row;
///
/// let row = Row::new().with("function", "app::go").with("calls", 7_u64);
/// assert_eq!((row.text("function"), row.number("calls")), (Some("app::go"), Some(7.0)));
/// assert_eq!(row.number("mean_ns"), None);
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Row<'a>(pub Vec<(Cow<'a, str>, Cell<'a>)>);

impl<'a> Row<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, cell: impl Into<Cell<'a>>) -> Self {
        self.push(name.into(), cell.into());
        self
    }

    #[inline(never)]
    pub fn push(&mut self, name: Cow<'a, str>, cell: Cell<'a>) {
        self.0.push((name, cell));
    }

    pub fn json(&self) -> String {
        self.add_to(JsonObject::new()).finish()
    }

    pub fn add_to(&self, object: JsonObject) -> JsonObject {
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

/// Reading values by their names.
impl Row<'_> {
    /// Returns the value with this name.
    pub fn cell(&self, name: &str) -> Option<&Cell<'_>> {
        self.0.iter().find(|(it, _)| it == name).map(|(_, cell)| cell)
    }

    /// Returns a number. `None` without a number of this name, or if nothing was measured.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.cell(name)? {
            Cell::Number(it) => Some(*it as f64),
            Cell::Integer(it) => Some(*it as f64),
            Cell::Decimal(it) => Some(*it),
            Cell::Seconds(it) => Some(it.as_secs_f64()),
            _ => None,
        }
    }

    /// Returns a number without a fraction that is not negative.
    pub fn whole(&self, name: &str) -> Option<u64> {
        match self.cell(name)? {
            Cell::Number(it) => Some(*it),
            _ => None,
        }
    }

    /// Returns a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.cell(name)? {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the row or the rows with this name.
    pub fn rows(&self, name: &str) -> &[Row<'_>] {
        match self.cell(name) {
            Some(Cell::Row(row)) => slice::from_ref(row),
            Some(Cell::Rows(rows)) => rows,
            _ => &[],
        }
    }
}

impl Cell<'_> {
    /// Formats a cell of CSV; empty if there is no value.
    pub fn plain(&self) -> String {
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

/// Reads rows inside of cells, which hold no rows themselves: a message of a stranger does not
/// choose how deep its reader's stack goes.
#[cfg(feature = "serde")]
mod flat {
    use std::borrow::Cow;
    use std::time::Duration;

    use serde::{Deserialize, Deserializer};

    use super::{Cell, Row};

    /// A [`Cell`] without rows. The variants have the same order.
    #[derive(Deserialize)]
    enum FlatCell {
        Nothing,
        Text(String),
        Number(u64),
        Integer(i128),
        Decimal(f64),
        Flag(bool),
        Seconds(Duration),
        Texts(Vec<String>),
    }

    type FlatRow = Vec<(String, FlatCell)>;

    pub(super) fn row<'de, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Row<'a>, D::Error> {
        FlatRow::deserialize(deserializer).map(widened)
    }

    pub(super) fn rows<'de, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Row<'a>>, D::Error> {
        Vec::deserialize(deserializer).map(|rows: Vec<FlatRow>| rows.into_iter().map(widened).collect())
    }

    fn widened<'a>(row: FlatRow) -> Row<'a> {
        let cell = |cell| match cell {
            FlatCell::Nothing => Cell::Nothing,
            FlatCell::Text(it) => Cell::Text(it.into()),
            FlatCell::Number(it) => Cell::Number(it),
            FlatCell::Integer(it) => Cell::Integer(it),
            FlatCell::Decimal(it) => Cell::Decimal(it),
            FlatCell::Flag(it) => Cell::Flag(it),
            FlatCell::Seconds(it) => Cell::Seconds(it),
            FlatCell::Texts(it) => Cell::Texts(it),
        };
        Row(row.into_iter().map(|(name, it)| (Cow::Owned(name), cell(it))).collect())
    }
}

/// A report for programs: its rows, and the members around them.
///
/// ```
/// use probe_report::{Document, Row};
///
/// let rows = vec![Row::new().with("calls", 7_u64)];
/// let document = Document { rows, ..Document::default() };
/// assert_eq!(document.json(), "{\"rows\":[\n{\"calls\":7}\n]}");
/// ```
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Document<'a> {
    /// The members before the rows: whose report it is, and when it was measured.
    pub head: Row<'a>,
    pub rows: Vec<Row<'a>>,
    /// The members after the rows.
    pub rest: Row<'a>,
    /// Sentences that complete it, of a line or more each.
    pub notes: Vec<String>,
}

impl Document<'_> {
    /// Writes the report as JSON, with one row per line, and the notes as its last member.
    pub fn json(&self) -> String {
        json(&self.head, self.rows.iter().map(Row::json), &self.rest, &self.notes)
    }
}

/// Writes a report as JSON, given its rows, each as JSON.
pub fn json(head: &Row<'_>, rows: impl Iterator<Item = String>, rest: &Row<'_>, notes: &[String]) -> String {
    let object = rest.add_to(head.add_to(JsonObject::new()).json("rows", &array(rows)));
    if notes.is_empty() {
        return object.finish();
    }
    object.json("notes", &array(notes.iter().map(|note| quoted(note)))).finish()
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
