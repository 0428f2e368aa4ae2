//! Text tables: columns that line up, words to the left, numbers to the right.

use std::fmt;

/// Rows under a heading.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// A row with as many cells as the heading has.
    pub(crate) fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }
}

/// A number, with or without a unit, or what is at most one; or a dash where there is none.
fn is_number(cell: &str) -> bool {
    let cell = cell.strip_prefix("≤ ").unwrap_or(cell);
    cell.starts_with(|c: char| c.is_ascii_digit()) || cell == "-"
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let numeric =
            |column: usize| self.rows.len() > 1 && self.rows[1..].iter().all(|row| is_number(&row[column]));
        let last = self.rows[0].len() - 1;
        let columns: Vec<_> = (0..=last).map(|column| (width(column), numeric(column))).collect();
        for (at, row) in self.rows.iter().enumerate() {
            if at != 0 {
                writeln!(f)?;
            }
            for (column, (cell, (width, numeric))) in row.iter().zip(&columns).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                match (numeric, column == last) {
                    (true, _) => write!(f, "{gap}{cell:>width$}")?,
                    (false, false) => write!(f, "{gap}{cell:<width$}")?,
                    (false, true) => write!(f, "{gap}{cell}")?,
                }
            }
        }
        Ok(())
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
}
