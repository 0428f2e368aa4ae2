//! Counts and latencies for a fleet's collector: one snapshot, as Prometheus's text and as OTLP.

mod otlp;
mod prometheus;
mod snapshot;

pub use prometheus::CONTENT_TYPE;
pub use snapshot::{Family, Histogram, MetricKind, MetricValue, Metrics, Series};
