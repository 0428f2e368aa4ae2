//! Comma-separated values, as RFC 4180 has them, but for its line ends: a line feed.

use std::fmt::Write;

/// Rows under a heading.
pub(crate) struct Csv(String);

impl Csv {
    pub(crate) fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Self {
        let mut csv = Self(String::new());
        csv.row(heading.into_iter().map(str::to_owned));
        csv
    }

    pub(crate) fn row(&mut self, row: impl IntoIterator<Item = String>) {
        for (at, cell) in row.into_iter().enumerate() {
            if at != 0 {
                self.0.push(',');
            }
            self.cell(&cell);
        }
        self.0.push('\n');
    }

    fn cell(&mut self, cell: &str) {
        if cell.contains(['"', ',', '\n', '\r']) {
            // Writing to a `String` can't fail.
            let _ = write!(self.0, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            self.0.push_str(cell);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_needs_it_is_quoted() {
        let mut csv = Csv::new(["name", "n"]);
        csv.row(["F<a,b>::\"c\"", "7"].map(String::from));
        csv.row(["two\nlines", "-1"].map(String::from));
        assert_eq!(csv.finish(), "name,n\n\"F<a,b>::\"\"c\"\"\",7\n\"two\nlines\",-1\n");
    }

    /// Reads it back, as the RFC says.
    fn parse(text: &str) -> Vec<Vec<String>> {
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
        fn what_was_written_is_read(cells: [String; 4]) {
            let [a, b, c, d] = &cells;
            let mut csv = Csv::new([a.as_str(), b.as_str()]);
            csv.row([c.clone(), d.clone()]);
            prop_assert_eq!(parse(&csv.finish()), [[a.clone(), b.clone()], [c.clone(), d.clone()]]);
        }
    }
}
