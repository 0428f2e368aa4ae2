//! The reports that the program's consumers write, as far as `top` reads them.

use serde::Deserialize;

/// A report, with a row for each function.
#[derive(Deserialize, Debug)]
pub struct Report<Row> {
    /// Seconds of measurement.
    pub duration: f64,
    /// The rows.
    #[serde(bound(deserialize = "Row: Deserialize<'de>"))]
    pub rows: Vec<Row>,
    /// The profiler's cost.
    pub cost: Option<Cost>,
    /// Calls or hits that were not measured.
    #[serde(default)]
    pub lost: u64,
}

/// The cost of profiling.
#[derive(Clone, Copy, PartialEq, Deserialize, Default, Debug)]
#[expect(clippy::struct_field_names, reason = "as in the report")]
pub struct Cost {
    /// Nanoseconds in hits.
    pub hits_ns: f64,
    /// Nanoseconds of the profiler's thread.
    pub own_ns: f64,
    /// Nanoseconds of CPU time of the program.
    pub used_ns: f64,
    /// Nanoseconds that passed.
    pub elapsed_ns: f64,
}

/// The function of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Default, Debug)]
pub struct Key {
    /// The path.
    #[serde(rename = "function")]
    pub path: String,
    /// The source file.
    #[serde(default)]
    pub file: String,
    /// The source line.
    #[serde(default)]
    pub line: u32,
}

/// A function's estimates.
#[derive(Deserialize, Debug)]
pub struct Estimated {
    #[serde(flatten)]
    pub key: Key,
    pub calls: f64,
    pub calls_error: Option<f64>,
    /// Without a known error. Earlier runtimes don't tell it.
    pub calls_per_second_likely: Option<f64>,
    pub cpu_share: Option<f64>,
    pub mean_ns: Option<f64>,
    pub mean_error_ns: Option<f64>,
    pub self_ns: Option<f64>,
    pub total_ns: Option<f64>,
    pub total_error_ns: Option<f64>,
}

/// A function's measurements.
#[derive(Clone, Copy, PartialEq, Deserialize, Default, Debug)]
pub struct Times {
    pub calls: f64,
    pub total_ns: f64,
    pub self_ns: f64,
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub max_ns: f64,
}

/// The same, with the function.
#[derive(Deserialize, Debug)]
pub struct Measured {
    #[serde(flatten)]
    pub key: Key,
    #[serde(flatten)]
    pub times: Times,
}

/// A place in the tree of calls.
#[derive(Deserialize, Debug)]
pub struct Node {
    pub function: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<usize>,
    pub calls: f64,
    pub total_ns: f64,
}
