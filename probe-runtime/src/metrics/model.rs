//! A snapshot: families of series, each with its labels and its value. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// What a family's values are.
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
    /// Calls by their time.
    Histogram,
}

/// The value of a series.
///
/// ```
/// use probe_runtime::metrics::{Metrics, Value};
/// let mut metrics = Metrics::default();
/// metrics.count("requests_total", "Requests.", &[], 7);
/// for series in metrics.families().flat_map(|family| family.series()) {
///     match series.value {
///         Value::Count(count) => assert_eq!(*count, 7),
///         Value::Nanoseconds(time) => println!("{time} ns"),
///         Value::Gauge(value) => println!("{value} now"),
///         Value::Histogram(histogram) => println!("{} calls", histogram.calls()),
///         _ => (),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// How many there have been.
    Count(u64),
    /// How long it has been, in nanoseconds. Collectors get seconds.
    Nanoseconds(u64),
    /// What it is now.
    Gauge(f64),
    /// Calls by their time.
    Histogram(Histogram),
}

/// Calls by their time.
///
/// ```
/// use probe_runtime::metrics::{Metrics, Value};
/// let mut metrics = Metrics::default();
/// // Two calls of 800 ns, and one of 20 s.
/// metrics.histogram("query_seconds", "Queries.", &[], 20_000_001_600, &[(800, 2), (20_000_000_000, 1)]);
/// let series = metrics.families().next().unwrap().series().next().unwrap();
/// let Value::Histogram(histogram) = series.value else { panic!("{series:?}") };
/// assert_eq!(histogram.cumulative().next(), Some((1_000, 2))); // two took at most 1 µs
/// assert_eq!(histogram.cumulative().last(), Some((10_000_000_000, 2)));
/// assert_eq!((histogram.calls(), histogram.sum()), (3, 20_000_001_600));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    bounds: Arc<[u64]>,
    cumulative: Vec<u64>,
    calls: u64,
    sum: u64,
}

/// One name, and its series.
///
/// ```
/// use probe_runtime::metrics::{MetricKind, Metrics};
/// let mut metrics = Metrics::default();
/// metrics.count("requests_total", "Requests.", &[("method", "GET")], 7);
/// metrics.count("requests_total", "Requests.", &[("method", "PUT")], 2);
/// let family = metrics.families().next().unwrap();
/// assert_eq!((family.name(), family.help()), ("requests_total", "Requests."));
/// assert_eq!((family.kind(), family.series().count()), (MetricKind::Counter, 2));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    name: String,
    help: String,
    kind: MetricKind,
    series: BTreeMap<Labels, Value>,
}

/// Names and values, in the order in which they were given.
type Labels = Vec<(&'static str, String)>;

/// One series of a family.
///
/// ```
/// use probe_runtime::metrics::{Metrics, Value};
/// let mut metrics = Metrics::default();
/// metrics.count("requests_total", "Requests.", &[("method", "GET")], 7);
/// let series = metrics.families().next().unwrap().series().next().unwrap();
/// assert_eq!(series.labels, [("method", "GET".to_owned())]);
/// assert_eq!(*series.value, Value::Count(7));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Series<'a> {
    /// Names and values.
    pub labels: &'a [(&'static str, String)],
    /// What it is.
    pub value: &'a Value,
}

/// All that is measured, at one moment: from [`Exporter::collect`](super::Exporter::collect).
///
/// ```
/// use probe_runtime::metrics::Metrics;
///
/// let mut metrics = Metrics::default();
/// metrics.count("requests_total", "Requests.", &[], 7);
/// metrics.time("busy_seconds_total", "Time at work.", &[], 1_500_000_000);
/// metrics.gauge("queue_length", "Requests that wait.", &[], 3.0);
/// metrics.histogram("query_seconds", "Queries.", &[], 1_600, &[(800, 2)]);
/// assert_eq!(metrics.families().count(), 4);
///
/// let text = metrics.to_prometheus();
/// assert!(text.contains("\nbusy_seconds_total 1.5\n"), "{text}");
/// let body = metrics.to_otlp(&[("service.name", "shop")]);
/// assert!(body.starts_with("{\"resourceMetrics\":"), "{body}");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Metrics {
    bounds: Arc<[u64]>,
    families: BTreeMap<String, Family>,
    /// What counters count from, and when they were read.
    pub(super) began: SystemTime,
    pub(super) taken: SystemTime,
}

/// 1, 2.5 and 5 of each decade from a microsecond to ten seconds, in nanoseconds.
const BOUNDS: [u64; 22] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

impl Histogram {
    /// Each bound in nanoseconds, ascending, and how many calls took at most that, also those of the bounds before.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bounds.iter().copied().zip(self.cumulative.iter().copied())
    }

    /// All calls, also those that took longer than the last bound.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The time of all calls together, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

impl Value {
    fn kind(&self) -> MetricKind {
        match self {
            Self::Count(_) | Self::Nanoseconds(_) => MetricKind::Counter,
            Self::Gauge(_) => MetricKind::Gauge,
            Self::Histogram(_) => MetricKind::Histogram,
        }
    }

    /// Two series that have the same labels are one.
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) | (Self::Nanoseconds(a), Self::Nanoseconds(b)) => *a += b,
            (Self::Gauge(a), Self::Gauge(b)) => *a += b,
            (Self::Histogram(a), Self::Histogram(b)) => {
                a.cumulative.iter_mut().zip(&b.cumulative).for_each(|(a, b)| *a += b);
                a.calls += b.calls;
                a.sum += b.sum;
            }
            _ => (),
        }
    }

    /// Never less than it was. (A cumulated histogram stays one: the greater of two numbers that ascend ascend.)
    fn raise(&mut self, before: &Self) {
        match (self, before) {
            (Self::Count(now), Self::Count(before)) | (Self::Nanoseconds(now), Self::Nanoseconds(before)) => {
                *now = (*now).max(*before);
            }
            (Self::Histogram(now), Self::Histogram(before)) => {
                now.cumulative
                    .iter_mut()
                    .zip(&before.cumulative)
                    .for_each(|(now, it)| *now = (*now).max(*it));
                now.calls = now.calls.max(before.calls);
                now.sum = now.sum.max(before.sum);
            }
            _ => (),
        }
    }
}

impl Family {
    /// Its name, as Prometheus has it: of counters with `_total`, of times with `_seconds`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is of, for people.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// What its values are.
    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// The series, by their labels.
    pub fn series(&self) -> impl Iterator<Item = Series<'_>> {
        self.series.iter().map(|(labels, value)| Series { labels, value })
    }
}

impl Default for Metrics {
    /// None, with the default bounds.
    fn default() -> Self {
        Self::new(Arc::new(BOUNDS))
    }
}

impl Metrics {
    pub(super) fn new(bounds: Arc<[u64]>) -> Self {
        let now = SystemTime::now();
        Self { bounds, families: BTreeMap::new(), began: now, taken: now }
    }

    pub(super) fn bounds(&self) -> &Arc<[u64]> {
        &self.bounds
    }

    /// The families, by name.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    /// Adds what has been counted since the attachment was made, and never becomes less. What is there with the same name and labels
    /// becomes the sum. All values of a name are of one kind, the first one's; others are left out.
    pub fn count(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], count: u64) {
        self.add(name, help, labels, Value::Count(count));
    }

    /// The same of a time that only grows, in nanoseconds.
    pub fn time(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], nanoseconds: u64) {
        self.add(name, help, labels, Value::Nanoseconds(nanoseconds));
    }

    /// The same of what goes up and down, as it is now.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], value: f64) {
        self.add(name, help, labels, Value::Gauge(value));
    }

    /// The same of calls by their time: their sum, and how many there were of each time, all in nanoseconds, in any order.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&'static str, &str)],
        sum: u64,
        times: &[(u64, u64)],
    ) {
        let mut cumulative = vec![0; self.bounds.len()];
        let mut calls = 0;
        for (time, of_it) in times {
            calls += of_it;
            // The first bound that is not less; what is more than the last is in `calls` only.
            if let Some(count) = cumulative.get_mut(self.bounds.partition_point(|bound| bound < time)) {
                *count += of_it;
            }
        }
        let mut below = 0;
        for count in &mut cumulative {
            below += *count;
            *count = below;
        }
        let bounds = Arc::clone(&self.bounds);
        self.add(name, help, labels, Value::Histogram(Histogram { bounds, cumulative, calls, sum }));
    }

    fn add(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], value: Value) {
        let kind = value.kind();
        let family = self.families.entry(name.to_owned()).or_insert_with(|| Family {
            name: name.to_owned(),
            help: help.to_owned(),
            kind,
            series: BTreeMap::new(),
        });
        if family.kind == kind {
            let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            family.put(labels, value);
        }
    }

    /// Adds all of another, with the same bounds. What is of another kind than what is there with the same name is left out.
    pub(crate) fn add_all(&mut self, other: Self) {
        for (name, family) in other.families {
            match self.families.get_mut(&name) {
                Some(known) if known.kind != family.kind => (),
                Some(known) => family.series.into_iter().for_each(|(labels, value)| known.put(labels, value)),
                None => {
                    self.families.insert(name, family);
                }
            }
        }
    }

    /// What is counted while nobody attaches again: all but gauges.
    pub(super) fn without_gauges(mut self) -> Self {
        self.families.retain(|_, family| family.kind != MetricKind::Gauge);
        self
    }

    /// Without what is of another kind than what `told` has with the same name: that is the first one's.
    pub(super) fn of_the_kinds_of(mut self, told: &Self) -> Self {
        self.families.retain(|name, family| told.families.get(name).is_none_or(|it| it.kind == family.kind));
        self
    }

    /// No number that only grows is less than it was, and none has gone, nor is of another kind.
    pub(super) fn raise(&mut self, before: &Self) {
        for (name, before) in &before.families {
            if before.kind == MetricKind::Gauge {
                continue;
            }
            let Some(now) = self.families.get_mut(name) else {
                self.families.insert(name.clone(), before.clone());
                continue;
            };
            if now.kind != before.kind {
                now.clone_from(before);
                continue;
            }
            for (labels, before) in &before.series {
                match now.series.get_mut(labels) {
                    Some(now) => now.raise(before),
                    None => now.put(labels.clone(), before.clone()),
                }
            }
        }
    }
}

impl Family {
    fn put(&mut self, labels: Labels, value: Value) {
        match self.series.get_mut(&labels) {
            Some(known) => known.add(&value),
            None => {
                self.series.insert(labels, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "app_things";

    fn of(add: impl FnOnce(&mut Metrics)) -> Metrics {
        let mut metrics = Metrics::new([10].into());
        add(&mut metrics);
        metrics
    }

    fn counter() -> Metrics {
        of(|it| it.count(NAME, "", &[("of", "a")], 3))
    }

    fn histogram() -> Metrics {
        of(|it| it.histogram(NAME, "", &[("of", "b")], 7, &[(7, 1)]))
    }

    /// The family's kind, and its values.
    fn found(metrics: &Metrics) -> (MetricKind, Vec<Value>) {
        let [family] = metrics.families().collect::<Vec<_>>()[..] else { panic!("there is one name") };
        (family.kind(), family.series().map(|it| it.value.clone()).collect())
    }

    #[test]
    fn values_of_a_name_are_of_the_first_one_s_kind() {
        let counted = (MetricKind::Counter, vec![Value::Count(3)]);
        let mut added = counter();
        added.add_all(histogram());
        assert_eq!(found(&added), counted);
        added.add_all(of(|it| it.gauge(NAME, "", &[("of", "a")], 9.0)));
        assert_eq!(found(&added), counted);
        added.add_all(counter());
        assert_eq!(found(&added), (MetricKind::Counter, vec![Value::Count(6)]));
        // What was told before is the first.
        let mut now = histogram();
        now.raise(&counter());
        assert_eq!(found(&now), counted);
        assert_eq!(histogram().of_the_kinds_of(&counter()).families().count(), 0);
        assert_eq!(found(&histogram().of_the_kinds_of(&of(|_| ()))).0, MetricKind::Histogram);
        // A gauge goes with who has it.
        let mut now = counter();
        now.raise(&of(|it| it.gauge(NAME, "", &[("of", "a")], 9.0)));
        assert_eq!(found(&now), counted);
    }
}
