//! Text tables: columns that line up, words to the left, numbers to the right.

use std::fmt;

/// Rows under a heading.
pub(super) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned)] }
    }

    pub(super) fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }
}

fn is_number(cell: &str) -> bool {
    !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit())
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let numeric =
            |column: usize| self.rows.len() > 1 && self.rows[1..].iter().all(|row| is_number(&row[column]));
        let columns: [(usize, bool); N] = std::array::from_fn(|column| (width(column), numeric(column)));
        for (at, row) in self.rows.iter().enumerate() {
            if at != 0 {
                writeln!(f)?;
            }
            for (column, (cell, (width, numeric))) in row.iter().zip(columns).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                match (numeric, column == N - 1) {
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
        let mut table = Table::new(["probe", "kind", "hits"]);
        table.row(["app::handle".into(), "entry".into(), "7".into()]);
        table.row(["app::é".into(), "point".into(), "1234".into()]);
        assert_eq!(
            table.to_string(),
            "probe        kind   hits\n\
             app::handle  entry     7\n\
             app::é       point  1234"
        );
    }
}
