//! Tables: typed cells, drawn as text with aligned columns: words to the left, numbers to the
//! right.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::mem;

use probe_lang::units::Time;

use crate::json::decimal;
use crate::names::{Definition, beginning, labels, names};

/// Spaces between two columns.
const GAP: usize = 2;
/// No column of texts is cut below this width, and no first one below the other.
const LEAST: usize = 8;
const LEAST_OF_NAMES: usize = 12;
/// The heading of the column whose beginnings matter.
const BEGINS: &str = "fields";

/// How exact a shown value is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Bound {
    #[default]
    Exact,
    /// The value is no larger.
    AtMost,
    /// The value is no smaller.
    AtLeast,
}

/// A value as people see it.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Shown<'a> {
    /// There was no measurement: `-`.
    Nothing,
    Text(Cow<'a, str>),
    /// A definition's path. Definitions of the same path get their file and line.
    Name {
        path: Cow<'a, str>,
        file: Cow<'a, str>,
        line: u32,
    },
    Number(u64),
    Integer(i128),
    /// Without trailing zeros.
    Decimal(f64),
    /// A mean: fewer digits, the larger it is.
    Mean(f64),
    /// With two digits after the point.
    Fixed(f64),
    /// A part of 1, as a percentage.
    Share(f64),
    /// Nanoseconds.
    Time(u64),
    /// In a second.
    Rate(u64),
    /// A bar of this many letters.
    Bar(u8),
}

/// A cell of a table.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TableCell<'a> {
    pub bound: Bound,
    pub value: Shown<'a>,
}

impl<'a> TableCell<'a> {
    /// Returns its texts.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut Cow<'a, str>> {
        let (one, other) = match &mut self.value {
            Shown::Text(text) => (Some(text), None),
            Shown::Name { path, file, .. } => (Some(path), Some(file)),
            _ => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// The value is a bound of the true one.
    pub fn bounded(bound: Bound, value: impl Into<Self>) -> Self {
        Self { bound, ..value.into() }
    }

    /// A part of 1, as a percentage.
    pub fn share(part: f64) -> Self {
        Shown::Share(part).into()
    }
}

impl fmt::Display for TableCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.bound {
            Bound::Exact => "",
            Bound::AtMost => "≤ ",
            Bound::AtLeast => "≥ ",
        })?;
        match &self.value {
            Shown::Nothing => f.write_str("-"),
            Shown::Text(text) | Shown::Name { path: text, .. } => f.write_str(text),
            Shown::Number(number) => write!(f, "{number}"),
            Shown::Integer(number) => write!(f, "{number}"),
            Shown::Decimal(number) => f.write_str(&decimal(*number)),
            Shown::Mean(mean) if *mean >= 100.0 => write!(f, "{mean:.0}"),
            Shown::Mean(mean) => f.write_str(&decimal((mean * 100.0).round() / 100.0)),
            Shown::Fixed(number) => write!(f, "{number:.2}"),
            Shown::Share(part) => write!(f, "{:.2} %", 100.0 * part),
            Shown::Time(time) => write!(f, "{}", Time(*time)),
            Shown::Rate(rate) => write!(f, "{rate} /s"),
            Shown::Bar(letters) => (0..*letters).try_for_each(|_| f.write_str("█")),
        }
    }
}

impl<'a> From<Shown<'a>> for TableCell<'a> {
    fn from(value: Shown<'a>) -> Self {
        Self { bound: Bound::Exact, value }
    }
}

/// `from!(Type as value => shown)`.
macro_rules! from {
    ($($of:ty as $value:ident => $shown:expr),* $(,)?) => {$(
        impl<'a> From<$of> for TableCell<'a> {
            fn from($value: $of) -> Self {
                $shown.into()
            }
        }
    )*};
}

from! {
    &'a str as text => Shown::Text(text.into()),
    String as text => Shown::Text(text.into()),
    Cow<'a, str> as text => Shown::Text(text),
    u64 as number => Shown::Number(number),
    u32 as number => Shown::Number(number.into()),
    usize as number => Shown::Number(number as u64),
    Time as time => Shown::Time(time.0),
    Definition<'a> as it => Shown::Name { path: it.path.into(), file: it.file.into(), line: it.line },
}

/// No measurement is a dash.
impl<'a, T: Into<TableCell<'a>>> From<Option<T>> for TableCell<'a> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Shown::Nothing.into(), Into::into)
    }
}

/// Rows under a heading.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Table<'a> {
    pub(crate) heading: Vec<Cow<'a, str>>,
    /// Row by row.
    pub(crate) cells: Vec<TableCell<'a>>,
}

impl<'a> Table<'a> {
    /// Begins a table with these columns.
    pub fn new<Name: Into<Cow<'a, str>>>(heading: impl IntoIterator<Item = Name>) -> Self {
        Self { heading: heading.into_iter().map(Into::into).collect(), cells: Vec::new() }
    }

    /// Adds the next cell of a row. A row has as many as the heading: a view of the table asserts
    /// that in debug builds.
    pub fn push(&mut self, cell: impl Into<TableCell<'a>>) -> &mut Self {
        self.cells.push(cell.into());
        self
    }

    /// Adds a row with as many cells as the heading.
    ///
    /// # Panics
    /// If the number of cells is another one.
    pub fn row(&mut self, row: impl IntoIterator<Item: Into<TableCell<'a>>>) {
        let before = self.cells.len();
        self.cells.extend(row.into_iter().map(Into::into));
        assert_eq!(self.cells.len(), before + self.heading.len(), "a cell for each column");
    }

    /// Returns whether each row has as many cells as the heading.
    pub(crate) fn is_whole(&self) -> bool {
        self.cells.len().checked_rem(self.heading.len()).unwrap_or(self.cells.len()) == 0
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Adds the table's lines to a text, without spaces at their ends.
    pub fn add_lines_to(&self, text: &mut String) {
        debug_assert!(self.is_whole(), "a cell for each column");
        // Writing to a `String` can't fail.
        let _ = Layout::new(self).lines(None, |line| {
            text.push_str(line.trim_end());
            text.push('\n');
            Ok(())
        });
    }

    /// Returns the labels of definitions, by their places among the cells.
    fn labels(&self) -> Vec<(usize, String)> {
        let names = self.cells.iter().enumerate().filter_map(|(at, cell)| match &cell.value {
            Shown::Name { path, file, line } => Some((at, Definition { path, file, line: *line })),
            _ => None,
        });
        let (places, names): (Vec<_>, Vec<_>) = names.unzip();
        places.into_iter().zip(labels(names)).collect()
    }
}

/// The text of a table's cells.
struct Layout {
    columns: usize,
    /// The text of all cells in one string: a row has about ten cells, and tables have thousands of
    /// rows.
    text: String,
    cells: Vec<CellEnd>,
}

/// The end of a cell in the text, and the number of its characters.
struct CellEnd {
    end: usize,
    width: usize,
}

impl Layout {
    fn new(table: &Table<'_>) -> Self {
        let mut layout = Self { columns: table.heading.len(), text: String::new(), cells: Vec::new() };
        table.heading.iter().for_each(|name| layout.add(format_args!("{name}")));
        let mut labels = table.labels().into_iter().peekable();
        // A program may have sent a row that is not whole.
        let whole = table.cells.len().checked_div(layout.columns).unwrap_or(0) * layout.columns;
        for (at, cell) in table.cells.iter().enumerate().take(whole) {
            match labels.next_if(|(label_at, _)| *label_at == at) {
                Some((_, label)) => layout.add(format_args!("{label}")),
                None => layout.add(format_args!("{cell}")),
            }
        }
        layout
    }

    /// Adds the text of the next cell.
    fn add(&mut self, cell: fmt::Arguments<'_>) {
        let start = self.text.len();
        // Writing to a `String` can't fail.
        let _ = self.text.write_fmt(cell);
        let cell = &self.text[start..];
        let width = if cell.is_ascii() { cell.len() } else { cell.chars().count() };
        self.cells.push(CellEnd { end: self.text.len(), width });
    }

    /// Iterates over the text and width of all cells, row by row.
    fn cells(&self) -> impl Iterator<Item = (&str, usize)> {
        let mut start = 0;
        self.cells.iter().map(move |cell| {
            let text = &self.text[start..cell.end];
            start = cell.end;
            (text, cell.width)
        })
    }
}

/// Returns whether a cell holds a number, with or without a unit; an upper bound; or a dash.
fn is_number(cell: &str) -> bool {
    let cell = cell.strip_prefix("≤ ").unwrap_or(cell);
    cell.starts_with(|c: char| c.is_ascii_digit()) || cell == "-"
}

/// Returns whether a cell can't lose a part: a number with or without a sign, or nothing.
fn is_whole(cell: &str) -> bool {
    let number = cell.trim_start_matches(['±', '+', '-', '≤', '≥', ' ']);
    number.is_empty() || number.starts_with(|c: char| c.is_ascii_digit())
}

/// How a column is drawn.
struct Drawn<'a> {
    heading: &'a str,
    width: usize,
    is_number: bool,
    /// Its cells can't be cut.
    is_whole: bool,
    is_left_out: bool,
    /// The cells of a column that was cut, with the heading.
    cut: Option<Vec<String>>,
}

impl Drawn<'_> {
    /// Returns the least width of this column.
    fn least(&self, at: usize) -> usize {
        let least = if at == 0 { LEAST_OF_NAMES } else { LEAST };
        if self.is_whole { self.width } else { self.width.min(self.heading.chars().count().max(least)) }
    }
}

impl Layout {
    fn columns(&self) -> Vec<Drawn<'_>> {
        let has_rows = self.cells.len() > self.columns;
        let mut columns: Vec<_> = (self.cells().take(self.columns))
            .map(|(heading, width)| Drawn {
                heading,
                width,
                is_number: has_rows,
                is_whole: has_rows,
                is_left_out: false,
                cut: None,
            })
            .collect();
        for (at, (cell, width)) in self.cells().enumerate().skip(self.columns) {
            let column = &mut columns[at % self.columns];
            column.width = width.max(column.width);
            column.is_number = column.is_number && is_number(cell);
            column.is_whole = column.is_whole && is_whole(cell);
        }
        columns
    }

    /// Makes the columns fit a width: texts are cut, and then the last numbers are left out.
    fn fit(&self, columns: &mut [Drawn<'_>], room: usize) {
        let widths = |columns: &[Drawn<'_>], cap: usize| {
            let shown = columns.iter().enumerate().filter(|(_, it)| !it.is_left_out);
            shown.map(|(at, it)| it.least(at).max(it.width.min(cap)) + GAP).sum::<usize>().saturating_sub(GAP)
        };
        let mut least = widths(columns, 0);
        // A table without a number says nothing, so the first one stays.
        let numbers: Vec<_> = (0..columns.len()).filter(|at| columns[*at].is_whole).skip(1).collect();
        for at in numbers.into_iter().rev() {
            if least <= room {
                break;
            }
            least = least.saturating_sub(columns[at].least(at) + GAP);
            columns[at].is_left_out = true;
        }
        // The largest cap that fits; 0 if none does.
        let (mut cap, mut too_wide) = (0, columns.iter().map(|it| it.width).max().unwrap_or(0) + 1);
        while too_wide - cap > 1 {
            let middle = cap.midpoint(too_wide);
            if widths(columns, middle) <= room {
                cap = middle;
            } else {
                too_wide = middle;
            }
        }
        for (at, column) in columns.iter_mut().enumerate() {
            let width = column.least(at).max(column.width.min(cap));
            if column.is_whole || column.is_left_out || column.width <= width {
                continue;
            }
            let cells: Vec<_> = self.cells().skip(at).step_by(self.columns).map(|(cell, _)| cell).collect();
            let cut: Vec<_> = match column.heading {
                BEGINS => cells.into_iter().map(|it| beginning(it, width).into_owned()).collect(),
                _ => names(&cells, width),
            };
            column.width = cut.iter().map(|it| it.chars().count()).max().unwrap_or(0);
            column.cut = Some(cut);
        }
    }

    /// Calls `each` with every line.
    fn lines(&self, room: Option<usize>, mut each: impl FnMut(&str) -> fmt::Result) -> fmt::Result {
        let mut columns = self.columns();
        if let Some(room) = room {
            self.fit(&mut columns, room);
        }
        let shown_last = columns.iter().rposition(|it| !it.is_left_out);
        let mut line = String::new();
        for (at, (cell, width)) in self.cells().enumerate() {
            let (row, column) = (at / self.columns, at % self.columns);
            let (drawn, is_last) = (&columns[column], Some(column) == shown_last);
            if !drawn.is_left_out {
                let cut = drawn.cut.as_ref().map(|cells| &*cells[row]);
                let (cell, width) = cut.map_or((cell, width), |cell| (cell, cell.chars().count()));
                if column != 0 {
                    line.push_str("  ");
                }
                if drawn.is_number {
                    push_spaces(&mut line, drawn.width - width);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    push_spaces(&mut line, if is_last { 0 } else { drawn.width - width });
                }
            }
            if column + 1 == self.columns {
                each(&line)?;
                line.clear();
            }
        }
        let left_out: Vec<_> = columns.iter().filter(|it| it.is_left_out).map(|it| it.heading).collect();
        if left_out.is_empty() {
            return Ok(());
        }
        each(&format!("too wide to show: {}", left_out.join(", ")))
    }
}

/// Draws the table, within the formatter's width if there is one.
impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (room, mut is_first) = (f.width(), true);
        Layout::new(self).lines(room, |line| {
            if !mem::take(&mut is_first) {
                f.write_str("\n")?;
            }
            f.write_str(line)
        })
    }
}

fn push_spaces(line: &mut String, mut many: usize) {
    const SPACES: &str = "                                ";
    while many != 0 {
        let some = many.min(SPACES.len());
        line.push_str(&SPACES[..some]);
        many -= some;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["probe", "kind", "hits", "mean"]);
        table.row(["app::handle", "entry", "7", "≤ 1.50 µs"]);
        table.row(["app::é", "point", "1234", "-"]);
        assert_eq!(
            table.to_string(),
            "probe        kind   hits       mean\n\
             app::handle  entry     7  ≤ 1.50 µs\n\
             app::é       point  1234          -"
        );
    }

    #[test]
    fn a_heading_alone_is_aligned_as_words_and_long_names_fit() {
        assert_eq!(Table::new(["probe", "hits"]).to_string(), "probe  hits");
        let name = "long_".repeat(20);
        let mut table = Table::new(["probe", "hits"]);
        table.row([&*name, "7"]);
        assert_eq!(table.to_string(), format!("probe{}  hits\n{name}     7", " ".repeat(95)));
    }

    #[test]
    fn lines_without_spaces_at_their_ends() {
        let mut table = Table::new(["probe", "hits", "fields"]);
        table.row(["a", "12", ""]);
        table.push("b:7").push(3_u64).push("x");
        assert_eq!(table.to_string(), "probe  hits  fields\na        12  \nb:7       3  x");
        let mut text = "> ".to_owned();
        table.add_lines_to(&mut text);
        assert_eq!(text, "> probe  hits  fields\na        12\nb:7       3  x\n");
    }

    fn fitting() -> Table<'static> {
        let mut table = Table::new(["function", "calls", "self", "±", "fields"]);
        for (name, calls, error) in
            [("app::store::read_the_whole", "7", "±2 %"), ("app::Pool<app::Item>::take", "1234567890123", "")]
        {
            table.row([name, calls, "3.21 ms", error, "bytes: u64, request: str"]);
        }
        table
    }

    #[test]
    fn texts_are_cut_to_a_width_and_numbers_are_not() {
        let table = fitting();
        assert_eq!(format!("{table:200}"), table.to_string());
        assert_eq!(
            format!("{table:72}"),
            "function                      calls     self  ±     fields\n\
             …ore::read_the_whole              7  3.21 ms  ±2 %  bytes: u64, request…\n\
             app::Pool<…>::take    1234567890123  3.21 ms        bytes: u64, request…",
        );
    }

    #[test]
    fn numbers_without_room_are_left_out_and_named() {
        assert_eq!(
            format!("{:40}", fitting()),
            "function              calls  fields\n\
             …d_the_whole              7  bytes: u64…\n\
             …ol<…>::take  1234567890123  bytes: u64…\n\
             too wide to show: self, ±",
        );
    }

    #[test]
    fn values_have_their_units() {
        let name = |line| Definition { path: "app::go", file: "a.rs", line };
        let mut table = Table::new(["function", "of", "max", "share", "mean", "IPC", ""]);
        table.row([
            name(3).into(),
            7_u64.into(),
            TableCell::bounded(Bound::AtMost, Time(1_500)),
            TableCell::share(0.5),
            Shown::Mean(1234.5).into(),
            Shown::Fixed(2.0).into(),
            Shown::Bar(3).into(),
        ]);
        table.row([
            name(9).into(),
            Shown::Integer(-7).into(),
            TableCell::bounded(Bound::AtLeast, Shown::Rate(9)),
            None::<u64>.into(),
            Shown::Mean(0.126).into(),
            Shown::Decimal(0.5).into(),
            "".into(),
        ]);
        assert_eq!(
            table.to_string(),
            "function          of  max          share  mean   IPC  \n\
             app::go (a.rs:3)  7   ≤ 1.50 µs  50.00 %  1234  2.00  ███\n\
             app::go (a.rs:9)  -7  ≥ 9 /s           -  0.13   0.5  "
        );
    }
}
