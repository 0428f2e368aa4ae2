//! Measurements of functions, for programs: the same columns as JSON and as CSV. Each row begins
//! with the function's name and place.

use std::borrow::Cow;

use probe_report::{Cell, Csv, Definition, Row};

use crate::engine::calls::Function;

impl<'a> From<&'a Function> for Definition<'a> {
    fn from(function: &'a Function) -> Self {
        Self { path: function.path(), file: function.file(), line: function.line() }
    }
}

/// `functions!(Report, Row, "measured", "calls that were lost")`: makes a list of functions of the
/// report, with the functions and the calls that it lacks.
macro_rules! functions {
    ($report:ident, $row:ident, $measured:literal, $lost:literal) => {
        crate::engine::list::list!($report, functions, $row, "functions");

        impl $report {
            /// Returns the function with this path.
            pub fn function(&self, path: &str) -> Option<&$row> {
                self.functions.iter().find(|function| function.path() == path)
            }

            #[doc = concat!("Returns the functions whose calls are not ", $measured, ",")]
            /// because not all of their probes were selected.
            pub fn left_out(&self) -> &[crate::engine::calls::LeftOut] {
                &self.left_out
            }

            #[doc = concat!("Returns the number of ", $lost, ".")]
            pub fn lost(&self) -> u64 {
                self.lost
            }
        }

        impl $row {
            /// Returns the function's path.
            pub fn path(&self) -> &str {
                self.function.path()
            }

            /// Returns the path, file and line of the function, and whether it is a future.
            pub fn function(&self) -> &crate::engine::calls::Function {
                &self.function
            }
        }
    };
}

pub(crate) use functions;

/// The columns of rows: the function, then named numbers.
pub(crate) struct Columns<'a, Of, Name, Number> {
    pub(crate) function: fn(&Of) -> &Function,
    /// Each number's name, and the way to get it.
    pub(crate) numbers: &'a [(Name, Number)],
}

/// Columns that do not depend on the measurement.
pub(crate) type FixedColumns<Of, N> = Columns<'static, Of, &'static str, fn(&Of) -> N>;

impl<Of, N, Name, Number> Columns<'_, Of, Name, Number>
where
    N: Into<Cell<'static>>,
    Name: AsRef<str> + Clone + Into<Cow<'static, str>>,
    Number: Fn(&Of) -> N,
{
    /// Returns a row: the function, then its numbers.
    pub(crate) fn row<'a>(&self, of: &'a Of) -> Row<'a> {
        let function = (self.function)(of);
        let mut row = Row::new().with("function", function.path()).with("file", function.file());
        row = row.with("line", function.line()).with("future", function.is_future());
        for (name, number) in self.numbers {
            let (name, cell): (Cow<'static, str>, Cell<'static>) = (name.clone().into(), number(of).into());
            row.push(name, cell);
        }
        row
    }

    /// Writes a heading and a line for each row; a cell is empty if there is no number.
    pub(crate) fn csv(&self, rows: &[Of]) -> String {
        let mut heading = vec!["function", "file", "line", "future"];
        heading.extend(self.numbers.iter().map(|(name, _)| name.as_ref()));
        let mut csv = Csv::new(&heading);
        for of in rows {
            self.row(of).0.iter().for_each(|(_, cell)| _ = csv.cell(&cell.plain()));
            csv.end();
        }
        csv.finish()
    }
}
