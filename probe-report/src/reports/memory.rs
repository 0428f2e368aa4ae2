//! The allocations of functions at one moment, as a report.

use crate::names::Definition;
use crate::row::{Cell, Row};
use crate::source::{
    FixedColumns, Function, LeftOut, Period, ReportSource, Rows, head, json, left_out, missing,
};
use crate::table::{Shown, Table};
use crate::view::Body;

/// The path of requests while no function of the report is active.
const OUTSIDE: &str = "(outside)";

/// The blocks that a function allocated and freed while it was the innermost one of the report. A
/// block that changes its size is one that is freed, and one that is allocated.
///
/// ```
/// use std::alloc::System;
/// use probe_memory::Probed;
/// use probe_runtime::{Memory, probe, select};
///
/// #[global_allocator]
/// static ALLOCATOR: Probed<System> = Probed::new(System);
///
/// #[probe]
/// fn fill() -> Vec<u8> {
///     std::hint::black_box(Vec::with_capacity(100))
/// }
///
/// let memory = select("**::fill, memory::*")?.attach(Memory::new())?;
/// let filled = fill();
/// let report = memory.allocations();
/// let it = &report.iter().find(|it| it.path().ends_with("::fill")).unwrap();
/// assert_eq!((it.allocations(), it.bytes(), it.frees(), it.freed()), (1, 100, 0, 0));
/// assert_eq!(it.net(), 100);
/// # drop(filled);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionAllocations {
    function: Function,
    /// Allocations, their bytes, frees, and their bytes.
    sums: [u64; 4],
}

impl FunctionAllocations {
    /// Makes the row of a function; `None` is for what no function did.
    #[doc(hidden)]
    pub fn new(function: Option<Function>, sums: [u64; 4]) -> Self {
        let function = function.unwrap_or_else(|| Function::new(OUTSIDE.into(), "".into(), 0, false));
        Self { function, sums }
    }

    /// Returns the number of blocks that it asked for.
    pub fn allocations(&self) -> u64 {
        self.sums[0]
    }

    /// Returns the bytes of these blocks.
    pub fn bytes(&self) -> u64 {
        self.sums[1]
    }

    /// Returns the number of blocks that it freed, whoever had allocated them.
    pub fn frees(&self) -> u64 {
        self.sums[2]
    }

    /// Returns the bytes of these blocks.
    pub fn freed(&self) -> u64 {
        self.sums[3]
    }

    /// Returns the bytes that it allocated, less those that it freed.
    pub fn net(&self) -> i128 {
        i128::from(self.bytes()) - i128::from(self.freed())
    }

    fn is_seen(&self) -> bool {
        self.sums != [0; 4]
    }
}

/// The allocations of all functions, from `Memory::allocations`.
///
/// This is a list, with the function of the most bytes first. One of its rows, `(outside)`, is for
/// requests while none of the functions was active. It prints as a table of the rows that have
/// numbers.
///
/// ```
/// use std::alloc::System;
/// use probe_memory::Probed;
/// use probe_runtime::{Memory, select};
///
/// #[global_allocator]
/// static ALLOCATOR: Probed<System> = Probed::new(System);
///
/// let memory = select("memory::*")?.attach(Memory::new())?;
/// drop(std::hint::black_box(vec![0_u8; 1 << 20]));
/// let allocations = memory.allocations();
/// let outside = allocations.iter().find(|it| it.path() == "(outside)").unwrap();
/// assert!(outside.bytes() >= 1 << 20 && outside.freed() >= 1 << 20);
/// println!("{allocations}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Allocations {
    functions: Vec<FunctionAllocations>,
    left_out: Vec<LeftOut>,
    lost: u64,
    period: Period,
}

impl Allocations {
    #[doc(hidden)]
    pub fn new(
        functions: Vec<FunctionAllocations>,
        left_out: Vec<LeftOut>,
        lost: u64,
        period: Period,
    ) -> Self {
        Self { functions, left_out, lost, period }
    }

    /// Returns by how many bytes the program's memory has grown since the attachment: those of the
    /// blocks that were allocated since, less those of the blocks that were freed since, some of
    /// which may be older. At a program's end, these were not freed.
    pub fn live_bytes(&self) -> i128 {
        self.iter().map(FunctionAllocations::net).sum()
    }

    /// Returns the same of the number of blocks.
    pub fn live_blocks(&self) -> i128 {
        self.iter().map(|it| i128::from(it.allocations()) - i128::from(it.frees())).sum()
    }

    /// Returns the report as JSON: an object with the program, the time of measurement, and the
    /// functions as `rows`, which have the columns of [`to_csv`](Self::to_csv). It also has
    /// `live_bytes` and `live_blocks`, the paths of the functions that were `left_out`, and the
    /// number of calls that were `lost`.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns the functions as comma-separated values (RFC 4180): a line each, under a heading.
    pub fn to_csv(&self) -> String {
        COLUMNS.csv(&self.functions)
    }
}

const COLUMNS: FixedColumns<FunctionAllocations, Cell<'static>> = FixedColumns {
    function: FunctionAllocations::function,
    numbers: &[
        ("allocations", |it| it.allocations().into()),
        ("bytes", |it| it.bytes().into()),
        ("frees", |it| it.frees().into()),
        ("freed_bytes", |it| it.freed().into()),
        ("net_bytes", |it| Cell::Integer(it.net())),
    ],
};

impl FunctionAllocations {
    pub(crate) fn row(&self) -> Row<'_> {
        COLUMNS.row(self)
    }
}

impl ReportSource for Allocations {
    fn head(&self) -> Row<'static> {
        head("memory", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.iter().map(|it| it.row()))
    }

    fn rest(&self) -> Row<'_> {
        let row = Row::new().with("live_bytes", Cell::Integer(self.live_bytes()));
        let row = row.with("live_blocks", Cell::Integer(self.live_blocks()));
        row.with("left_out", left_out(&self.left_out)).with("lost", self.lost)
    }

    fn body(&self) -> Body<'_> {
        let mut table = Table::new(["function", "allocations", "bytes", "frees", "freed", "net"]);
        for it in self.functions.iter().filter(|it| it.is_seen()) {
            table.push(Definition::from(it.function())).push(it.allocations()).push(it.bytes());
            table.push(it.frees()).push(it.freed()).push(Shown::Integer(it.net()));
        }
        Body::Table(table)
    }

    fn notes(&self) -> Vec<String> {
        let grown = format!(
            "live memory since {}: {:+} bytes, {:+} blocks",
            self.period.start(),
            self.live_bytes(),
            self.live_blocks()
        );
        [grown].into_iter().chain(self.missing()).collect()
    }

    fn missing(&self) -> Vec<String> {
        missing(self.lost, &self.left_out)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

functions!(Allocations, FunctionAllocations, "paired", "calls that were not followed, see `Calls::lost`");

shown!(Allocations);
