//! Measurements of functions, for programs: the same columns as JSON and as CSV. Each row begins
//! with the function's name and place. Sentences tell which functions and calls are left out.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::csv::Csv;
use crate::names::{Definition, was};
use crate::row::{Cell, Row};
use probe_core::Kind;

/// A function with probes in a selection.
///
/// ```
/// use probe_runtime::calls::{CallEnd, Calls, Meter};
/// use probe_runtime::consumer::Local;
/// use probe_runtime::{probe, select};
///
/// /// Measures nothing.
/// struct Nothing;
///
/// impl Meter<0> for Nothing {
///     type Head = ();
///     type Part = ();
///
///     fn read(&self, _: Local<'_, (), ()>) -> [u64; 0] {
///         []
///     }
///
///     fn end(&self, _: &CallEnd<'_, 0, (), ()>) {}
/// }
///
/// #[probe]
/// fn parse() {}
///
/// let calls = Calls::<0, Nothing>::new(&select("**::parse")?)?;
/// let function = &calls.functions()[0];
/// assert!(function.path().ends_with("::parse"));
/// assert!(!function.is_future());
/// println!("{}:{}", function.file(), function.line());
/// # parse();
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    // Shared between copies: a report has a copy of each function that it shows. Most functions
    // also share the file's name with others.
    path: Arc<str>,
    file: Arc<str>,
    line: u32,
    is_future: bool,
}

impl Function {
    #[doc(hidden)]
    pub fn new(path: Arc<str>, file: Arc<str>, line: u32, is_future: bool) -> Self {
        Self { path, file, line, is_future }
    }

    #[doc(hidden)]
    pub fn shared_file(&self) -> &Arc<str> {
        &self.file
    }

    /// Returns the module path and the name, joined by `::`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the source file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the source line, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns whether the function is a future: it may be suspended, and resumed on another
    /// thread.
    pub fn is_future(&self) -> bool {
        self.is_future
    }
}

/// A function whose calls can't be paired, because the selection lacks a kind of its probes.
///
/// ```
/// # use probe_runtime::calls::{CallEnd, Meter};
/// # struct Nothing;
/// # impl Meter<0> for Nothing {
/// #     type Head = ();
/// #     type Part = ();
/// #     fn read(&self, _: probe_runtime::consumer::Local<'_, (), ()>) -> [u64; 0] { [] }
/// #     fn end(&self, _: &CallEnd<'_, 0, (), ()>) {}
/// # }
/// use probe_runtime::calls::Calls;
/// use probe_runtime::{Kind, probe, select};
///
/// #[probe]
/// fn compile() {}
///
/// // `Nothing` is a meter that measures nothing.
/// let calls = Calls::<0, Nothing>::new(&select("**::compile kind=entry")?)?;
/// let left_out = calls.left_out();
/// let [left_out] = &left_out[..] else { panic!("there is one") };
/// assert!(left_out.function.path().ends_with("::compile"));
/// assert_eq!(left_out.missing, [Kind::Exit]);
/// println!("{left_out}");
/// # compile();
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The function.
    pub function: Function,
    /// The kinds that were not selected, or that the program does not have. None are missing from a
    /// point, which has no calls: it is left out if a selection has no function.
    pub missing: Vec<Kind>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_point() {
            let path = &self.function.path;
            return write!(
                f,
                "{path} is left out: points have no calls; select functions, or count or trace it"
            );
        }
        let missing: Vec<_> = self.missing.iter().map(|kind| kind.name()).collect();
        let (was, has) = if missing.len() == 1 { ("was", "it") } else { ("were", "them") };
        write!(
            f,
            "{} is left out: its {} {was} not selected, or the program does not have {has}",
            self.function.path,
            missing.join(" and ")
        )
    }
}

impl<'a> From<&'a Function> for Definition<'a> {
    fn from(function: &'a Function) -> Self {
        Self { path: function.path(), file: function.file(), line: function.line() }
    }
}

/// `functions!(Report, Row, "measured", "calls that were lost")`: makes a list of functions of the
/// report, with the functions and the calls that it lacks.
#[doc(hidden)]
#[macro_export]
macro_rules! functions {
    ($report:ident, $row:ident, $measured:literal, $lost:literal) => {
        $crate::__private::list!($report, functions, $row, "functions");

        impl $report {
            /// Returns the function with this path.
            pub fn function(&self, path: &str) -> Option<&$row> {
                self.functions.iter().find(|function| function.path() == path)
            }

            #[doc = concat!("Returns the functions whose calls are not ", $measured, ",")]
            /// because not all of their probes were selected.
            pub fn left_out(&self) -> &[$crate::__private::LeftOut] {
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
            pub fn function(&self) -> &$crate::__private::Function {
                &self.function
            }
        }
    };
}

/// The columns of rows: the function, then named numbers.
pub struct Columns<'a, Of, Name, Number> {
    pub function: fn(&Of) -> &Function,
    /// Each number's name, and the way to get it.
    pub numbers: &'a [(Name, Number)],
}

/// Columns that do not depend on the measurement.
pub type FixedColumns<Of, N> = Columns<'static, Of, &'static str, fn(&Of) -> N>;

impl<Of, N, Name, Number> Columns<'_, Of, Name, Number>
where
    N: Into<Cell<'static>>,
    Name: AsRef<str> + Clone + Into<Cow<'static, str>>,
    Number: Fn(&Of) -> N,
{
    /// Returns a row: the function, then its numbers.
    pub fn row<'a>(&self, of: &'a Of) -> Row<'a> {
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
    pub fn csv(&self, rows: &[Of]) -> String {
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

/// Lines about calls that are missing from a measurement.
pub fn missing(lost: u64, left_out: &[LeftOut]) -> Vec<String> {
    let mut lines = Vec::new();
    if lost != 0 {
        lines.push(format!("{} not measured: too many under way, or no memory", was(lost, "call")));
    }
    // All points are left out for one reason.
    let said = if left_out.first().is_some_and(LeftOut::is_point) { 1 } else { 3 };
    lines.extend(left_out.iter().take(said).map(ToString::to_string));
    match left_out.len().saturating_sub(said) {
        0 => (),
        1 => lines.push("and so is 1 other".to_owned()),
        others => lines.push(format!("and so are {others} others")),
    }
    lines
}

/// Returns the functions that were left out, for reports for programs.
pub fn left_out(left_out: &[LeftOut]) -> Cell<'_> {
    left_out.iter().map(LeftOut::row).collect()
}

impl LeftOut {
    #[doc(hidden)]
    pub fn is_point(&self) -> bool {
        self.missing.is_empty()
    }

    pub fn row(&self) -> Row<'_> {
        Row::new().with("function", self.function.path())
    }
}
