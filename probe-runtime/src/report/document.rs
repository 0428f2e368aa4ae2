//! Reports for programs: rows, and the members around them. JSON, CSV and the formats of `serde`
//! are made from these, so they agree.
//!
//! JSON is as specified in RFC 8259, and CSV as in RFC 4180, except that lines end with a line feed
//! only. Both are written here and not by a crate: the reports are flat, and the rules for escaping
//! fit on one screen. They are tested against parsers by other authors.

use std::borrow::Cow;
use std::env::{self, consts::EXE_SUFFIX};
use std::fmt::Write;
use std::process;
use std::time::Duration;

use crate::engine::period::Period;

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

/// The version of the format. It changes when a member changes its meaning or is removed, and not
/// when one is added.
const SCHEMA: u64 = 1;

/// Rows, created one after the other.
pub(crate) type Rows<'a> = Box<dyn Iterator<Item = Row<'a>> + 'a>;

/// A report for programs. JSON and `serde` write the same members in this order.
pub(crate) trait Written {
    /// See [`document`].
    fn head(&self) -> Row<'static>;

    fn rows(&self) -> Rows<'_>;

    /// Returns the members after the rows.
    fn rest(&self) -> Row<'_> {
        Row::new()
    }
}

/// Writes a report as JSON, with one row per line.
pub(crate) fn json(report: &dyn Written) -> String {
    let rows = array(report.rows().map(|row| row.json()));
    report.rest().add_to(report.head().add_to(JsonObject::new()).json("rows", &rows)).finish()
}

/// Returns the first members of a report. Its `rows`, and further members of its consumer, follow.
pub(crate) fn document(consumer: &'static str, period: Period) -> Row<'static> {
    Row::new()
        .with("schema", SCHEMA)
        .with("program", program())
        .with("pid", process::id())
        .with("start", period.start().to_string())
        .with("duration", Cell::Seconds(period.duration))
        .with("consumer", consumer)
}

/// Returns the first members of a document that belongs to no consumer and no time: a list of
/// probes.
pub(crate) fn heading(what: &str) -> JsonObject {
    let object = JsonObject::new().number("schema", SCHEMA).text("program", &program());
    object.number("pid", process::id().into()).text("consumer", what)
}

/// Returns the file name of the program.
pub(crate) fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}

/// An object that is being written, member by member.
pub(crate) struct JsonObject(String);

impl JsonObject {
    pub(crate) fn new() -> Self {
        // A row fits: it is not moved as it grows.
        let mut text = String::with_capacity(512);
        text.push('{');
        Self(text)
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        push_text(&mut self.0, value);
        self
    }

    pub(crate) fn number(mut self, name: &str, value: u64) -> Self {
        self.name(name);
        // Writing to a `String` can't fail.
        let _ = write!(self.0, "{value}");
        self
    }

    #[cfg(any(test, feature = "metrics"))]
    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0.push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds a member whose value is JSON already.
    pub(crate) fn json(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.0.push_str(value);
        self
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_text(&mut self.0, name);
        self.0.push(':');
    }
}

/// Returns an array of elements that are JSON already, one per line.
pub(crate) fn array(elements: impl IntoIterator<Item = String>) -> String {
    let mut array = "[".to_owned();
    elements.into_iter().for_each(|element| push_element(&mut array, &element));
    array.push_str("\n]");
    array
}

#[inline(never)]
fn push_element(array: &mut String, element: &str) {
    array.push_str(if array.len() > 1 { ",\n" } else { "\n" });
    array.push_str(element);
}

pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::new();
    push_text(&mut json, text);
    json
}

fn push_text(json: &mut String, text: &str) {
    json.push('"');
    // As all names, and most texts.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push_str(text);
        json.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

/// Rows under a heading, written cell by cell.
pub(crate) struct Csv {
    text: String,
    /// Whether the row has a cell already.
    is_within: bool,
}

impl Csv {
    pub(crate) fn new(heading: &[&str]) -> Self {
        let mut csv = Self { text: String::new(), is_within: false };
        heading.iter().fold(&mut csv, |csv, name| csv.cell(name)).end();
        csv
    }

    pub(crate) fn cell(&mut self, cell: &str) -> &mut Self {
        if self.is_within {
            self.text.push(',');
        }
        self.is_within = true;
        if cell.contains(['"', ',', '\n', '\r']) {
            // Writing to a `String` can't fail.
            let _ = write!(self.text, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            self.text.push_str(cell);
        }
        self
    }

    pub(crate) fn number(&mut self, cell: u64) -> &mut Self {
        self.cell(&cell.to_string())
    }

    pub(crate) fn end(&mut self) {
        self.text.push('\n');
        self.is_within = false;
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn members_and_elements() {
        let object =
            || JsonObject::new().text("name", "a\"b\\c\n\u{1}é").number("n", u64::MAX).flag("is", true);
        let object = object().json("all", &array([JsonObject::new().finish(), "7".to_owned()])).finish();
        let text = r#""a\"b\\c\n\u0001é""#;
        let expected =
            format!("{{\"name\":{text},\"n\":18446744073709551615,\"is\":true,\"all\":[\n{{}},\n7\n]}}");
        assert_eq!(object, expected);
        assert_eq!(array([]), "[\n]");
    }

    /// Reads a string back, as the RFC says; `None` if it is not a string.
    fn parse_json(json: &str) -> Option<String> {
        let mut chars = json.strip_prefix('"')?.strip_suffix('"')?.chars();
        let mut text = String::new();
        while let Some(c) = chars.next() {
            text.push(match c {
                '"' => return None,
                c if c < ' ' => return None,
                '\\' => match chars.next()? {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                    }
                    c @ ('"' | '\\') => c,
                    _ => return None,
                },
                c => c,
            });
        }
        Some(text)
    }

    proptest! {
        #[test]
        fn written_text_is_read_back(text: String) {
            let mut json = String::new();
            push_text(&mut json, &text);
            prop_assert_eq!(parse_json(&json), Some(text));
        }
    }

    #[test]
    fn cells_are_quoted_if_necessary() {
        let mut csv = Csv::new(&["name", "n"]);
        csv.cell("F<a,b>::\"c\"").number(7).end();
        csv.cell("two\nlines").cell("-1").end();
        assert_eq!(csv.finish(), "name,n\n\"F<a,b>::\"\"c\"\"\",7\n\"two\nlines\",-1\n");
    }

    /// Reads the text back, as the RFC says.
    fn parse_csv(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        let mut is_quoted = false;
        while let Some(c) = chars.next() {
            match c {
                '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
                '\n' if !is_quoted => {
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                c => cell.push(c),
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn written_cells_are_read_back(cells: [String; 4]) {
            let [a, b, c, d] = &cells;
            let mut csv = Csv::new(&[a, b]);
            csv.cell(c).cell(d).end();
            prop_assert_eq!(parse_csv(&csv.finish()), [[a.clone(), b.clone()], [c.clone(), d.clone()]]);
        }
    }
}
