//! A report, as `report --json` writes it and `diff` reads it.

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// Numbers and times of one function's calls.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Its path.
    pub function: String,
    /// Calls that ended in the trace. Of a future, those that had a result.
    pub calls: u64,
    /// Calls that the trace cuts off, and futures that were cancelled.
    pub unfinished: u64,
    /// Time from entries to exits, a recursion's once. Cut-off calls count up to where they are
    /// cut.
    pub total_ns: u64,
    /// The same, without the time of the calls inside. Of a future, the time of its polls.
    pub self_ns: u64,
    /// Mean time of a call.
    pub mean_ns: f64,
    /// Half the width of its interval of 95 % confidence, if there are calls enough.
    pub error_ns: Option<f64>,
    /// The time that half of the calls don't exceed.
    pub p50_ns: u64,
    /// The time that 99 of 100 calls don't exceed.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// All of the times, for `diff`; `None` with too few calls, and in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// Parts that traces lack.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Losses {
    /// Hits that found no room.
    pub hits: u64,
    /// Exits whose entries are missing.
    pub without_entry: u64,
    /// Events of probes that have no definition.
    pub undefined: u64,
}

/// The calls of some traces.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Report {
    /// Version of the format.
    pub schema: u64,
    /// The command that wrote it.
    pub command: String,
    /// Parts that the traces lack.
    pub lost: Losses,
    /// The functions.
    pub rows: Vec<FunctionRow>,
}
