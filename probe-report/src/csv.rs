//! CSV, as in RFC 4180, except that lines end with a line feed only.

use std::fmt::Write;

/// Rows under a heading, written cell by cell.
pub struct Csv {
    text: String,
    /// Whether the row has a cell already.
    is_within: bool,
}

impl Csv {
    pub fn new(heading: &[&str]) -> Self {
        let mut csv = Self { text: String::new(), is_within: false };
        heading.iter().fold(&mut csv, |csv, name| csv.cell(name)).end();
        csv
    }

    pub fn cell(&mut self, cell: &str) -> &mut Self {
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

    pub fn number(&mut self, cell: u64) -> &mut Self {
        self.cell(&cell.to_string())
    }

    pub fn end(&mut self) {
        self.text.push('\n');
        self.is_within = false;
    }

    pub fn finish(self) -> String {
        self.text
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
