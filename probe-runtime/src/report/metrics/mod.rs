//! Counts and latencies for a fleet's collector: as Prometheus's text, and as OTLP.
//!
//! An [`Exporter`] [watches](Exporter::watch) attachments. Each time the collector asks,
//! [`Exporter::collect`] takes a snapshot, [`Metrics`], which renders itself:
//! [`to_prometheus`](Metrics::to_prometheus), [`to_otlp`](Metrics::to_otlp). Nothing happens in
//! between, and hits cost no more: a snapshot reads the numbers that consumers keep anyway.
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
//! // Answer requests for `/metrics` with this, as `metrics::CONTENT_TYPE`.
//! let text = exporter.collect().to_prometheus();
//! assert!(text.lines().any(|line| line.starts_with("probe_hits_total{") && line.ends_with("} 1")), "{text}");
//! // Counters stay, and continue when the probes are attached again.
//! drop(hits);
//! assert_eq!(exporter.collect().to_prometheus(), text);
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! # The families
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | `probe_hits_total` | counter | `probe`, `kind`, `file` | [`Count`](crate::Count): hits of the probe |
//! | `probe_latency_seconds` | histogram | `probe`, `file` | `Latency`: calls that have ended, by their time from entry to exit |
//! | `probe_self_seconds_total` | counter | `probe`, `file` | the time in the function itself |
//! | `probe_busy_seconds_total` | counter | `probe`, `file` | futures: the time of their polls |
//! | `probe_cancelled_futures_total` | counter | `probe`, `file` | futures that were dropped before their end |
//! | `probe_pending_futures` | gauge | `probe`, `file` | futures that have not ended |
//! | `probe_allocations_total`, `probe_frees_total` | counter | `probe`, `file` | [`Memory`](crate::Memory): blocks that the function asked for, and freed |
//! | `probe_allocated_bytes_total`, `probe_freed_bytes_total` | counter | `probe`, `file` | the bytes of these blocks |
//! | `probe_unpaired_hits_total` | counter | `probe`, `file`, `missing` (`entry`, `exit`) | hits without a partner, if there are any |
//! | `probe_unmeasured_calls_total` | counter | | calls that were not measured, for want of memory, if there are any |
//! | `probe_suppressed_hits_total` | counter | | hits from inside a consumer, which were not delivered, if there are any |
//! | `probe_lost_hits_total` | counter | | hits of the whole process that were not counted, for want of memory, if there are any |
//!
//! Your own consumers can add families: [`Measured`].
//!
//! # How exact it is
//! Counts are exact, and so are sums of times. A histogram adds up the buckets of `Latency`'s own
//! up to each of the [bounds](Exporter::with_bounds) that were asked for. A call is on the right
//! side of a bound unless its time is within 1.6 % of it. Nothing is sampled again.
//!
//! Counters never decrease: not when an attachment is paused, resumed or dropped, and not when its
//! probes are unloaded. They do not even lose a last digit when the length of a tick becomes better
//! known. If two attachments that an exporter watches see the same probe at the same time, both
//! count.
//!
//! # Cardinality
//! - `Count` makes one series for each probe, hit or not. Entry and exit of a function are two
//!   probes.
//! - `Latency` makes four series for each function that was called, and one for each bound: 26 with
//!   the default bounds. A future has three more. A function with unpaired hits has one more for
//!   each missing side, entry or exit.
//!
//! A function's line is not among the labels, since it changes with each edit, and the series would
//! change with it. Probes that differ only in their lines are one series.
//!
//! So a hundred functions with latencies make 2,600 series for each instance of the program. Choose
//! the selector accordingly: `net::**`, rather than `**`.
//!
//! # Which collector
//! - Prometheus, and collectors that read its format (Grafana Alloy, Datadog, the OpenTelemetry
//!   collector's `prometheus` receiver): answer with [`to_prometheus`](Metrics::to_prometheus) at
//!   `/metrics`. If the program has such an answer already, from the crates `prometheus` or
//!   `metrics-exporter-prometheus`, append this text to it. The result is one valid answer, since
//!   no other library uses these names. (An answer of `prometheus-client` ends with `# EOF`: give
//!   this text an address of its own then.)
//! - Jobs that end: `PROBES='net::**=count' PROBES_OUT=/var/lib/node_exporter/job.prom`, for the
//!   node exporter's textfile collector.
//! - OTLP: POST [`to_otlp`](Metrics::to_otlp) to the collector's `/v1/metrics` as
//!   `application/json`, with any HTTP client of the program.
//! - Anything else, such as the `metrics` crate: write a loop over [`Metrics::families`], which has
//!   all numbers. In the repository, `tests/metrics/recorder.rs` is such a loop.
//!
//! This takes no further dependencies. The `metrics` crate's recorders and OpenTelemetry's
//! instruments take single values of a histogram, and would sample counted calls again. Collectors
//! read Prometheus's text and OTLP's JSON in the end, and either takes one screen of code.

mod exporter;
mod measured;

pub use exporter::{Exporter, Watched};
pub use measured::Measured;
pub(crate) use measured::count_lost;
pub use probe_report::metrics::{CONTENT_TYPE, Family, Histogram, MetricKind, MetricValue, Metrics, Series};
