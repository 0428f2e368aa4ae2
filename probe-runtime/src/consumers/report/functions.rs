//! What was measured of functions, for programs: the same columns as JSON and as CSV. Each row begins with what names the function.

use super::csv::Csv;
use super::json::{Object, array};
use crate::calls::Function;

/// A number of a row; none where nothing was measured.
pub(crate) trait Number {
    /// As JSON and CSV have it.
    fn shown(self) -> Option<String>;
}

impl Number for u64 {
    fn shown(self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Number for Option<f64> {
    fn shown(self) -> Option<String> {
        self.map(decimal)
    }
}

/// One that is written already.
#[cfg(feature = "perf")]
impl Number for Option<String> {
    fn shown(self) -> Option<String> {
        self
    }
}

/// As JSON has numbers, without digits that say nothing.
pub(crate) fn decimal(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The columns of rows: whose the row is, then its numbers, each with its name.
pub(crate) struct Columns<'a, Row, Name, Of> {
    pub(crate) function: fn(&Row) -> &Function,
    /// A number's name, and where it comes from.
    pub(crate) numbers: &'a [(Name, Of)],
}

/// Columns that are always the same.
pub(crate) type FixedColumns<Row, N> = Columns<'static, Row, &'static str, fn(&Row) -> N>;

impl<Row, N: Number, Name: AsRef<str>, Of: Fn(&Row) -> N> Columns<'_, Row, Name, Of> {
    /// An array of objects; `null` is a number that is none.
    pub(crate) fn json(&self, rows: &[Row]) -> String {
        array(rows.iter().map(|row| {
            let function = (self.function)(row);
            let object = Object::new().text("function", function.path()).text("file", function.file());
            let object = object.number("line", function.line().into()).flag("future", function.is_future());
            let number = |object: Object, (name, number): &(Name, Of)| {
                object.json(name.as_ref(), &number(row).shown().unwrap_or_else(|| "null".to_owned()))
            };
            self.numbers.iter().fold(object, number).finish()
        }))
    }

    /// A line each under a heading; a cell is empty where there is no number.
    pub(crate) fn csv(&self, rows: &[Row]) -> String {
        let names = self.numbers.iter().map(|(name, _)| name.as_ref());
        let mut csv = Csv::new(["function", "file", "line", "future"].into_iter().chain(names));
        for row in rows {
            let function = (self.function)(row);
            let (line, is_future) = (function.line().to_string(), function.is_future().to_string());
            let texts = [function.path().to_owned(), function.file().to_owned(), line, is_future];
            let numbers = self.numbers.iter().map(|(_, number)| number(row).shown().unwrap_or_default());
            csv.row(texts.into_iter().chain(numbers));
        }
        csv.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_programs_read_them() {
        assert_eq!(7_u64.shown().as_deref(), Some("7"));
        let shown = [Some(2.0), Some(0.125), Some(1.0 / 3.0), Some(1e15), None].map(Number::shown);
        assert_eq!(shown.map(Option::unwrap_or_default), ["2", "0.125", "0.3333", "1000000000000000", ""]);
    }
}
