//! Text tables with aligned columns: words to the left, numbers to the right.

use std::fmt::{self, Write};
use std::mem;

use super::names::{beginning, names};

/// Spaces between two columns.
const GAP: usize = 2;
/// No column of texts is cut below this width, and no first one below the other.
const LEAST: usize = 8;
const LEAST_OF_NAMES: usize = 12;
/// The heading of the column whose beginnings matter.
const BEGINS: &str = "fields";

/// Rows under a heading.
pub struct Table {
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

impl Table {
    /// Begins a table with these columns.
    pub fn new(heading: &[&str]) -> Self {
        let mut table = Self { columns: heading.len(), text: String::new(), cells: Vec::new() };
        heading.iter().for_each(|name| table.cell(name));
        table
    }

    /// Adds a row with as many cells as the heading.
    ///
    /// # Panics
    /// If the number of cells is another one.
    pub fn row(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns, "a cell for each column");
        row.into_iter().for_each(|cell| self.cell(&cell));
    }

    /// Adds the next cell of a row, without a `String` for each. A row has as many as the heading.
    pub fn shown(&mut self, cell: fmt::Arguments<'_>) {
        let start = self.text.len();
        // Writing to a `String` can't fail.
        let _ = self.text.write_fmt(cell);
        self.ends_from(start);
    }

    /// Adds the table's lines to a text, without spaces at their ends.
    pub fn add_lines_to(&self, text: &mut String) {
        // Writing to a `String` can't fail.
        let _ = self.lines(None, |line| {
            text.push_str(line.trim_end());
            text.push('\n');
            Ok(())
        });
    }

    /// Adds the next cell of a row, a text.
    pub fn cell(&mut self, cell: &str) {
        let start = self.text.len();
        self.text.push_str(cell);
        self.ends_from(start);
    }

    /// Ends a cell that began at this place.
    fn ends_from(&mut self, start: usize) {
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

impl Table {
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
        let total = |columns: &[Drawn<'_>], cap: usize| {
            let widths = columns.iter().enumerate().filter(|(_, it)| !it.is_left_out);
            let widths = widths.map(|(at, it)| it.least(at).max(it.width.min(cap)) + GAP);
            widths.sum::<usize>().saturating_sub(GAP)
        };
        while total(columns, 0) > room {
            // A table without a number says nothing.
            let mut numbers = columns.iter_mut().filter(|it| it.is_whole && !it.is_left_out).rev();
            let (Some(last), Some(_)) = (numbers.next(), numbers.next()) else { break };
            last.is_left_out = true;
        }
        let widest = columns.iter().map(|it| it.width).max().unwrap_or(0);
        let cap = (0..=widest).rev().find(|cap| total(columns, *cap) <= room).unwrap_or(0);
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
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (room, mut is_first) = (f.width(), true);
        self.lines(room, |line| {
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
    use super::Table;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["probe", "kind", "hits", "mean"]);
        table.row(vec!["app::handle".into(), "entry".into(), "7".into(), "≤ 1.50 µs".into()]);
        table.row(vec!["app::é".into(), "point".into(), "1234".into(), "-".into()]);
        assert_eq!(
            table.to_string(),
            "probe        kind   hits       mean\n\
             app::handle  entry     7  ≤ 1.50 µs\n\
             app::é       point  1234          -"
        );
    }

    #[test]
    fn a_heading_alone_is_aligned_as_words_and_long_names_fit() {
        assert_eq!(Table::new(&["probe", "hits"]).to_string(), "probe  hits");
        let name = "long_".repeat(20);
        let mut table = Table::new(&["probe", "hits"]);
        table.row(vec![name.clone(), "7".into()]);
        assert_eq!(table.to_string(), format!("probe{}  hits\n{name}     7", " ".repeat(95)));
    }

    #[test]
    fn lines_without_spaces_at_their_ends() {
        let mut table = Table::new(&["probe", "hits", "fields"]);
        ["a", "12", "", "b:7"].iter().for_each(|cell| table.cell(cell));
        table.shown(format_args!("{}", 3));
        table.cell("x");
        assert_eq!(table.to_string(), "probe  hits  fields\na        12  \nb:7       3  x");
        let mut text = "> ".to_owned();
        table.add_lines_to(&mut text);
        assert_eq!(text, "> probe  hits  fields\na        12\nb:7       3  x\n");
    }

    fn fitting() -> Table {
        let mut table = Table::new(&["function", "calls", "self", "±", "fields"]);
        for (name, calls, error) in
            [("app::store::read_the_whole", "7", "±2 %"), ("app::Pool<app::Item>::take", "1234567890123", "")]
        {
            table.row([name, calls, "3.21 ms", error, "bytes: u64, request: str"].map(str::to_owned).into());
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
}
