//! Text tables with aligned columns: words to the left, numbers to the right.

use std::fmt::{self, Write};
use std::mem;

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
        let _ = self.lines(|line| {
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

impl Table {
    /// Calls `each` with every line.
    fn lines(&self, mut each: impl FnMut(&str) -> fmt::Result) -> fmt::Result {
        let mut widths = vec![0; self.columns];
        let mut are_numbers = vec![self.cells.len() > self.columns; self.columns];
        for (at, (cell, width)) in self.cells().enumerate() {
            let column = at % self.columns;
            widths[column] = width.max(widths[column]);
            are_numbers[column] = are_numbers[column] && (at < self.columns || is_number(cell));
        }
        let mut line = String::new();
        for (at, (cell, width)) in self.cells().enumerate() {
            let column = at % self.columns;
            let (fill, is_last) = (widths[column] - width, column + 1 == self.columns);
            if column != 0 {
                line.push_str("  ");
            }
            if are_numbers[column] {
                push_spaces(&mut line, fill);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                push_spaces(&mut line, if is_last { 0 } else { fill });
            }
            if is_last {
                each(&line)?;
                line.clear();
            }
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        self.lines(|line| {
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
}
