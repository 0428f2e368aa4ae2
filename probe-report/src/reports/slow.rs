//! The numbers of slow calls at one moment, as a report.

use crate::names::{Definition, was};
use crate::row::Row;
use crate::source::{
    FixedColumns, Function, LeftOut, Period, ReportSource, Rows, head, json, left_out, missing,
};
use crate::table::Table;
use crate::view::Body;
use probe_lang::units::Time;

/// The calls of one function: how many were slow.
///
/// ```
/// use std::time::Duration;
/// use probe_runtime::{Slow, probe, select};
///
/// #[probe]
/// fn insert() {}
///
/// let slow = select("**::insert")?.attach(Slow::over(Duration::from_secs(60)))?;
/// insert();
/// let calls = slow.slow_calls();
/// let it = &calls[0];
/// assert!(it.path().ends_with("::insert"));
/// assert_eq!((it.calls(), it.slow()), (1, 0));
/// println!("{} ns at line {}", it.longest(), it.function().line());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionSlow {
    function: Function,
    calls: u64,
    slow: u64,
    longest: u64,
}

impl FunctionSlow {
    #[doc(hidden)]
    pub fn new(function: Function, calls: u64, slow: u64, longest: u64) -> Self {
        Self { function, calls, slow, longest }
    }

    /// Returns the number of calls that have ended.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the number of calls that took longer than the limit.
    pub fn slow(&self) -> u64 {
        self.slow
    }

    /// Returns the time of the longest call, in nanoseconds.
    pub fn longest(&self) -> u64 {
        self.longest
    }
}

/// The slow calls of all functions, from `Slow::slow_calls`.
///
/// This is a list, with the function of the most slow calls first. It prints as a table of the
/// functions that were called.
///
/// ```
/// use std::time::Duration;
/// use probe_runtime::{Slow, probe, select};
///
/// #[probe]
/// fn update() {}
///
/// let slow = select("**::update")?.attach(Slow::over(Duration::from_secs(60)))?;
/// update();
/// let calls = slow.slow_calls();
/// assert_eq!((calls.unsaid(), calls.lost(), calls.left_out().len()), (0, 0, 0));
/// assert!(calls.to_csv().starts_with("function,"), "{}", calls.to_csv());
/// println!("{}", calls.to_json());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SlowCalls {
    functions: Vec<FunctionSlow>,
    left_out: Vec<LeftOut>,
    lost: u64,
    unsaid: u64,
    period: Period,
}

impl SlowCalls {
    #[doc(hidden)]
    pub fn new(
        functions: Vec<FunctionSlow>,
        left_out: Vec<LeftOut>,
        lost: u64,
        unsaid: u64,
        period: Period,
    ) -> Self {
        Self { functions, left_out, lost, unsaid, period }
    }

    /// Returns the number of slow calls that were not reported, because there were too many in a
    /// second.
    pub fn unsaid(&self) -> u64 {
        self.unsaid
    }

    /// Returns the report as JSON: an object with the program, the time of measurement, and the
    /// functions as `rows`, which have the columns of [`to_csv`](Self::to_csv). It also has the
    /// number of slow calls that were `unsaid`, the paths of the functions that were `left_out`,
    /// and the number of calls that were `lost`.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns the functions as comma-separated values (RFC 4180): a line each, under a heading
    /// that names the units.
    pub fn to_csv(&self) -> String {
        COLUMNS.csv(&self.functions)
    }
}

const COLUMNS: FixedColumns<FunctionSlow, u64> = FixedColumns {
    function: FunctionSlow::function,
    numbers: &[
        ("calls", FunctionSlow::calls),
        ("slow", FunctionSlow::slow),
        ("max_ns", FunctionSlow::longest),
    ],
};

impl FunctionSlow {
    pub(crate) fn row(&self) -> Row<'_> {
        COLUMNS.row(self)
    }
}

impl ReportSource for SlowCalls {
    fn head(&self) -> Row<'static> {
        head("slow", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.iter().map(|it| it.row()))
    }

    fn rest(&self) -> Row<'_> {
        let row = Row::new().with("unsaid", self.unsaid).with("left_out", left_out(&self.left_out));
        row.with("lost", self.lost)
    }

    fn body(&self) -> Body<'_> {
        let mut table = Table::new(["function", "calls", "slow", "max"]);
        for it in self.functions.iter().filter(|it| it.calls != 0) {
            table.push(Definition::from(it.function())).push(it.calls).push(it.slow).push(Time(it.longest));
        }
        Body::Table(table)
    }

    fn notes(&self) -> Vec<String> {
        let unsaid = match self.unsaid {
            0 => None,
            calls => Some(format!("{} not said: too many in a second", was(calls, "slow call"))),
        };
        unsaid.into_iter().chain(self.missing()).collect()
    }

    fn missing(&self) -> Vec<String> {
        missing(self.lost, &self.left_out)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

functions!(SlowCalls, FunctionSlow, "measured", "calls that were not measured, see `Calls::lost`");

shown!(SlowCalls);
