//! The value of a series, and its kind.

use super::Histogram;

/// The kind of a family's values.
///
/// ```
/// use probe_runtime::metrics::{MetricKind, Metrics};
/// let mut metrics = Metrics::default();
/// metrics.gauge("queue_length", "Requests that wait.", &[], 3.0);
/// assert_eq!(metrics.families().next().unwrap().kind(), MetricKind::Gauge);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Calls grouped by their time.
    Histogram,
}

/// The value of a series.
///
/// ```
/// use probe_runtime::metrics::{Metrics, MetricValue};
/// let mut metrics = Metrics::default();
/// metrics.count("requests_total", "Requests.", &[], 7);
/// for series in metrics.families().flat_map(|family| family.series()) {
///     match series.value {
///         MetricValue::Count(count) => assert_eq!(*count, 7),
///         MetricValue::Nanoseconds(time) => println!("{time} ns"),
///         MetricValue::Gauge(value) => println!("{value} now"),
///         MetricValue::Histogram(histogram) => println!("{} calls", histogram.calls()),
///         _ => (),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum MetricValue {
    /// A number of events so far.
    Count(u64),
    /// A time that only grows, in nanoseconds. Collectors get seconds.
    Nanoseconds(u64),
    /// The present number.
    Gauge(f64),
    /// Calls grouped by their time.
    Histogram(Histogram),
}

impl MetricValue {
    pub(super) fn kind(&self) -> MetricKind {
        match self {
            Self::Count(_) | Self::Nanoseconds(_) => MetricKind::Counter,
            Self::Gauge(_) => MetricKind::Gauge,
            Self::Histogram(_) => MetricKind::Histogram,
        }
    }

    /// Adds the value of another series with the same labels. Values of another kind are ignored.
    pub(super) fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) | (Self::Nanoseconds(a), Self::Nanoseconds(b)) => *a += b,
            (Self::Gauge(a), Self::Gauge(b)) => *a += b,
            (Self::Histogram(a), Self::Histogram(b)) => a.add(b),
            _ => (),
        }
    }

    /// Keeps a value that only grows from falling below its former value. Gauges stay as they are.
    pub(super) fn raise(&mut self, before: &Self) {
        match (self, before) {
            (Self::Count(now), Self::Count(before)) | (Self::Nanoseconds(now), Self::Nanoseconds(before)) => {
                *now = (*now).max(*before);
            }
            (Self::Histogram(now), Self::Histogram(before)) => now.raise(before),
            _ => (),
        }
    }
}
