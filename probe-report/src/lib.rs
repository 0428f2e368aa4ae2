//! Reports as values, and the ways to show them.
//!
//! ```text
//! row         named values, which programs read as JSON or CSV
//! table       cells under a heading, for people, in the width that they have
//! call_tree   a table whose last column is drawn as a tree
//! histogram   the buckets of a group of hits, with bars
//! view        all of these, one below the other, with the notes of the report
//! source      a report: its rows, its view, its period and functions
//! reports     the reports of consumers: groups, allocations, slow calls, trees of calls with their
//!             flame graphs
//! metrics     a snapshot for a collector, as Prometheus's text and as OTLP
//! ```
//! A running program sends rows and views, and whoever asked draws them: nothing is read back from
//! text. Everything here is pure, except that a report names its program, its process and its time.
//!
//! Parts for `probe-runtime`, `probe-protocol` and `probectl` of the same version. `probe-protocol`
//! re-exports what its client returns, and `probe-runtime` the reports; the rest changes with any
//! version.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(missing_docs, reason = "members are named after what they hold")]

// Its macros are read from here on.
#[macro_use]
pub mod source;

mod call_tree;
mod csv;
mod histogram;
mod json;
#[cfg(feature = "metrics")]
pub mod metrics;
mod names;
mod part;
mod perf_failure;
pub mod reports;
mod row;
#[cfg(feature = "maps")]
pub mod serialized;
mod split;
mod table;
mod view;

pub use call_tree::{Place, percent_in_tenths};
pub use csv::Csv;
pub use histogram::{Histogram, grown};
pub use json::{JsonObject, array, decimal, quoted};
pub use names::{Definition, count, ending, labels, shortened, was};
pub use part::{Part, text_parts};
pub use perf_failure::{perf_failure, perf_memory_failure};
pub use probe_lang::units::Time;
pub use row::{Cell, Document, Row, json};
pub use split::Split;
pub use table::{Bound, Shown, Table, TableCell};
pub use view::{Body, View};

/// The names in expansions of the macros.
#[doc(hidden)]
pub mod __private {
    pub use crate::list;
    pub use crate::row::Row;
    #[cfg(feature = "maps")]
    pub use crate::serialized::{Map, serialize_report};
    pub use crate::source::{Function, LeftOut, view};
}
