//! Reports at one moment: their members, when they were measured, and the functions that they are
//! about.

#[macro_use]
mod functions;
mod period;
#[macro_use]
mod report;

pub use functions::{Columns, FixedColumns, Function, LeftOut, left_out, missing};
pub use period::{Period, Since};
pub use report::{ReportSource, Rows, head, head_of_list, json, program, view};
