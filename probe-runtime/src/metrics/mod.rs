//! Counts and latencies for a fleet's collector: as Prometheus's text, and as OTLP.
//!
//! Life: an [`Exporter`] [watches](Exporter::watch) attachments ▸ each time the collector asks, [`Exporter::collect`] takes a snapshot,
//! [`Metrics`] ▸ which renders itself: [`to_prometheus`](Metrics::to_prometheus), [`to_otlp`](Metrics::to_otlp). Nothing happens in between, and
//! hits cost what they cost: a snapshot reads the numbers that consumers keep anyway.
//!
//! ```
//! use probe_runtime::metrics::Exporter;
//! use probe_runtime::{Count, probe, select};
//!
//! #[probe]
//! fn handle() {}
//!
//! let exporter = Exporter::new();
//! let hits = exporter.watch(select("**::handle kind=entry")?.attach(Count::new())?);
//! handle();
//! // What an endpoint `/metrics` answers, as `metrics::CONTENT_TYPE`.
//! let text = exporter.collect().to_prometheus();
//! assert!(text.lines().any(|line| line.starts_with("probe_hits_total{") && line.ends_with("} 1")), "{text}");
//! // Counters stay, and go on where they were when somebody attaches again.
//! drop(hits);
//! assert_eq!(exporter.collect().to_prometheus(), text);
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! # What there is
//! | name | kind | labels | of |
//! |---|---|---|---|
//! | `probe_hits_total` | counter | `probe`, `kind`, `file` | [`Count`](crate::Count): hits of the probe |
//! | `probe_latency_seconds` | histogram | `probe`, `file` | `Latency`: calls that have ended, by their time from entry to exit |
//! | `probe_self_seconds_total` | counter | `probe`, `file` | the time in the function itself |
//! | `probe_busy_seconds_total` | counter | `probe`, `file` | futures: the time of their polls |
//! | `probe_cancelled_futures_total` | counter | `probe`, `file` | futures that were dropped before their end |
//! | `probe_pending_futures` | gauge | `probe`, `file` | futures that have not ended |
//! | `probe_unpaired_hits_total` | counter | `probe`, `file`, `missing` (`entry`, `exit`) | hits that found no partner, where there are some |
//! | `probe_unmeasured_calls_total` | counter | | calls that were not measured, for want of memory, where there are some |
//! | `probe_suppressed_hits_total` | counter | | hits that came from inside a consumer, and were not delivered, where there are some |
//! | `probe_lost_hits_total` | counter | | hits of the whole process that were not counted, for want of memory, where there are some |
//!
//! Consumers of one's own add theirs: [`Measured`].
//!
//! # How exact it is
//! Counts are exact, and so are sums of times. A histogram has the calls of `Latency`'s own, cumulated to the [bounds](Exporter::with_bounds) that
//! were asked for: a call is on the right side of a bound unless it took within 1.6 % of it. Nothing is sampled again.
//!
//! Counters never become less: not when an attachment is paused, resumed or dropped, nor when its probes are unloaded; nor by the last
//! digit, when the length of a tick becomes better known. Where two attachments that an exporter watches see the same probe at the same
//! time, both count.
//!
//! # Cardinality
//! `Count` makes one series of each probe, hit or not: entry and exit of a function are two. `Latency` makes, of each function that was called, as many
//! as there are bounds, and four: 26 with the default bounds. Of a future it makes three more; of a function with hits that found no partner,
//! one more for each that is missing, entry or exit. A function's line is not among the labels: it changes with each edit, and the series
//! with it; probes that differ in nothing else are one series. So a hundred functions with latencies are 2,600 series an instance, of which a
//! selector should be aware: `net::**`, rather than `**`.
//!
//! # Which collector
//! - Prometheus, or what reads its format (Grafana Alloy, Datadog, the OpenTelemetry collector's `prometheus` receiver): answer with
//!   [`to_prometheus`](Metrics::to_prometheus) at `/metrics`. Where the program has such an answer already, of the crates `prometheus` or
//!   `metrics-exporter-prometheus`, append it: that is one valid answer, as the names are no one else's. (An answer in the format of
//!   `prometheus-client` ends with `# EOF`: give these an address of their own.)
//! - Jobs that end: `PROBES='net::**=count' PROBES_OUT=/var/lib/node_exporter/job.prom`, for the node exporter's textfile collector.
//! - OTLP: POST [`to_otlp`](Metrics::to_otlp) to the collector's `/v1/metrics` as `application/json`, with whatever client of HTTP the program has.
//! - Anything else, the `metrics` crate among them: [`Metrics::families`] has all numbers, for a loop of one's own. In the repository,
//!   `tests/metrics/recorder.rs` is one.
//!
//! No crate is behind this. The `metrics` crate's recorders, and OpenTelemetry's instruments, take single values of a histogram, and would sample
//! again what is counted already; Prometheus's text and OTLP's JSON are what collectors read in the end, and take a screen each.

mod exporter;
mod measured;
mod model;
mod otlp;
mod prometheus;

pub use exporter::{Exporter, Watched};
pub use measured::Measured;
pub use model::{Family, Histogram, MetricKind, Metrics, Series, Value};
pub use prometheus::CONTENT_TYPE;
