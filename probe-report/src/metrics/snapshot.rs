//! A snapshot: families of series, each with its labels and its value. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// All measurements at one moment; from `Exporter::collect`.
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
    #[doc(hidden)]
    pub bounds: Arc<[u64]>,
    /// Sorted by name.
    families: Vec<Family>,
    /// When counters began to count; `taken` is when they were read.
    #[doc(hidden)]
    pub began: SystemTime,
    #[doc(hidden)]
    pub taken: SystemTime,
}

impl Default for Metrics {
    /// Creates a snapshot without families, with the default bounds.
    fn default() -> Self {
        Self::new(Arc::new(BOUNDS))
    }
}

impl Metrics {
    #[doc(hidden)]
    pub fn new(bounds: Arc<[u64]>) -> Self {
        let now = SystemTime::now();
        Self { bounds, families: Vec::new(), began: now, taken: now }
    }

    /// Iterates over the families, by name.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.iter()
    }

    /// Adds a counter: a number that has been counted since the attachment was made, and only
    /// grows.
    ///
    /// Values with the same name and labels are added up. All values of a name are of the kind of
    /// the first one; values of another kind are ignored.
    pub fn count(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], count: u64) {
        self.add(name, help, labels, MetricValue::Count(count));
    }

    /// Adds, like [`count`](Self::count), a time that only grows, in nanoseconds.
    pub fn time(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], nanoseconds: u64) {
        self.add(name, help, labels, MetricValue::Nanoseconds(nanoseconds));
    }

    /// Adds, like [`count`](Self::count), the present value of a number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], value: f64) {
        self.add(name, help, labels, MetricValue::Gauge(value));
    }

    /// Adds, like [`count`](Self::count), calls grouped by their time.
    ///
    /// `sum` is the time of all calls together; `times` are times, each with its number of calls,
    /// in any order. All times are in nanoseconds.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&'static str, &str)],
        sum: u64,
        times: &[(u64, u64)],
    ) {
        let histogram = Histogram::new(Arc::clone(&self.bounds), sum, times);
        self.add(name, help, labels, MetricValue::Histogram(histogram));
    }

    fn add(&mut self, name: &str, help: &str, labels: &[(&'static str, &str)], value: MetricValue) {
        let kind = value.kind();
        let at = self.find(name).unwrap_or_else(|at| {
            self.families.insert(at, Family::new(name, help, kind));
            at
        });
        let family = &mut self.families[at];
        if family.kind() == kind {
            let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            family.put(labels, value);
        }
    }

    /// Adds all families of another snapshot, with the same bounds. A family whose kind differs
    /// from that of the same name here is ignored.
    #[doc(hidden)]
    pub fn add_all(&mut self, other: Self) {
        for family in other.families {
            match self.find(family.name()) {
                Ok(at) => self.families[at].add(family),
                Err(at) => self.families.insert(at, family),
            }
        }
    }

    /// Finds the family of a name, or the place for it.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.families.binary_search_by(|family| family.name().cmp(name))
    }

    /// Drops the gauges. The other numbers stay true after an attachment is dropped.
    #[doc(hidden)]
    #[must_use]
    pub fn without_gauges(mut self) -> Self {
        self.families.retain(|family| family.kind() != MetricKind::Gauge);
        self
    }

    /// Drops families whose kind conflicts with the family of the same name in `told`.
    #[doc(hidden)]
    #[must_use]
    pub fn of_the_kinds_of(mut self, told: &Self) -> Self {
        let is_like_told = |family: &Family| match told.find(family.name()) {
            Ok(at) => told.families[at].kind() == family.kind(),
            Err(_) => true,
        };
        self.families.retain(is_like_told);
        self
    }

    /// Keeps each number that only grows from falling below its former value, from disappearing,
    /// and from changing its kind.
    #[doc(hidden)]
    pub fn raise(&mut self, before: &Self) {
        for before in before.families.iter().filter(|it| it.kind() != MetricKind::Gauge) {
            match self.find(before.name()) {
                Ok(at) => self.families[at].raise(before),
                Err(at) => self.families.insert(at, before.clone()),
            }
        }
    }
}

/// The series with one name. All of them are of one kind.
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
    series: BTreeMap<Labels, MetricValue>,
}

/// Names and values, in the order in which they were given.
type Labels = Vec<(&'static str, String)>;

/// One series of a family.
///
/// ```
/// use probe_runtime::metrics::{Metrics, MetricValue};
/// let mut metrics = Metrics::default();
/// metrics.count("requests_total", "Requests.", &[("method", "GET")], 7);
/// let series = metrics.families().next().unwrap().series().next().unwrap();
/// assert_eq!(series.labels, [("method", "GET".to_owned())]);
/// assert_eq!(*series.value, MetricValue::Count(7));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Series<'a> {
    /// The labels: names and values.
    pub labels: &'a [(&'static str, String)],
    /// The value.
    pub value: &'a MetricValue,
}

impl Family {
    fn new(name: &str, help: &str, kind: MetricKind) -> Self {
        Self { name: name.to_owned(), help: help.to_owned(), kind, series: BTreeMap::new() }
    }

    /// Returns the name as Prometheus spells it: counters end in `_total`, and times name their
    /// unit, `_seconds`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a description of the family, for people.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Returns the kind of its values.
    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// Iterates over the series, by their labels.
    pub fn series(&self) -> impl Iterator<Item = Series<'_>> {
        self.series.iter().map(|(labels, value)| Series { labels, value })
    }

    /// Adds a series. Series with the same labels become one, the sum.
    fn put(&mut self, labels: Labels, value: MetricValue) {
        match self.series.get_mut(&labels) {
            Some(known) => known.add(&value),
            None => {
                self.series.insert(labels, value);
            }
        }
    }

    /// Adds the series of another family of the same name. A family of another kind is ignored.
    fn add(&mut self, other: Self) {
        if self.kind == other.kind {
            other.series.into_iter().for_each(|(labels, value)| self.put(labels, value));
        }
    }

    /// Keeps each number that only grows from falling below its former value, and brings back
    /// series that have disappeared. If the family was of another kind before, it stays as it was.
    fn raise(&mut self, before: &Self) {
        if self.kind != before.kind {
            self.clone_from(before);
            return;
        }
        for (labels, before) in &before.series {
            match self.series.get_mut(labels) {
                Some(now) => now.raise(before),
                None => self.put(labels.clone(), before.clone()),
            }
        }
    }
}

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
    fn kind(&self) -> MetricKind {
        match self {
            Self::Count(_) | Self::Nanoseconds(_) => MetricKind::Counter,
            Self::Gauge(_) => MetricKind::Gauge,
            Self::Histogram(_) => MetricKind::Histogram,
        }
    }

    /// Adds the value of another series with the same labels. Values of another kind are ignored.
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) | (Self::Nanoseconds(a), Self::Nanoseconds(b)) => *a += b,
            (Self::Gauge(a), Self::Gauge(b)) => *a += b,
            (Self::Histogram(a), Self::Histogram(b)) => a.add(b),
            _ => (),
        }
    }

    /// Keeps a value that only grows from falling below its former value. Gauges stay as they are.
    fn raise(&mut self, before: &Self) {
        match (self, before) {
            (Self::Count(now), Self::Count(before)) | (Self::Nanoseconds(now), Self::Nanoseconds(before)) => {
                *now = (*now).max(*before);
            }
            (Self::Histogram(now), Self::Histogram(before)) => now.raise(before),
            _ => (),
        }
    }
}

/// Calls grouped by their time: the number of calls below each of some bounds.
///
/// ```
/// use probe_runtime::metrics::{Metrics, MetricValue};
/// let mut metrics = Metrics::default();
/// // Two calls of 800 ns, and one of 20 s.
/// metrics.histogram("query_seconds", "Queries.", &[], 20_000_001_600, &[(800, 2), (20_000_000_000, 1)]);
/// let series = metrics.families().next().unwrap().series().next().unwrap();
/// let MetricValue::Histogram(histogram) = series.value else { panic!("{series:?}") };
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

/// 1, 2.5 and 5 of each decade from a microsecond to ten seconds, in nanoseconds.
const BOUNDS: [u64; 22] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000,
    5_000_000_000, 10_000_000_000,
];

impl Histogram {
    /// Creates a histogram. `times` are times in nanoseconds, each with its number of calls, in any
    /// order.
    fn new(bounds: Arc<[u64]>, sum: u64, times: &[(u64, u64)]) -> Self {
        let mut cumulative = vec![0; bounds.len()];
        let mut calls = 0;
        for (time, of_it) in times {
            calls += of_it;
            // The first bound that is not below the time. A time above the last bound counts only
            // in `calls`.
            if let Some(count) = cumulative.get_mut(bounds.partition_point(|bound| bound < time)) {
                *count += of_it;
            }
        }
        let mut below = 0;
        for count in &mut cumulative {
            below += *count;
            *count = below;
        }
        Self { bounds, cumulative, calls, sum }
    }

    /// Adds the calls of another histogram, with the same bounds.
    fn add(&mut self, other: &Self) {
        self.cumulative.iter_mut().zip(&other.cumulative).for_each(|(a, b)| *a += b);
        self.calls += other.calls;
        self.sum += other.sum;
    }

    /// Keeps each number from falling below its former value. The result is still cumulative: the
    /// larger of two ascending sequences, number by number, ascends.
    fn raise(&mut self, before: &Self) {
        self.cumulative.iter_mut().zip(&before.cumulative).for_each(|(now, it)| *now = (*now).max(*it));
        self.calls = self.calls.max(before.calls);
        self.sum = self.sum.max(before.sum);
    }

    /// Iterates over the bounds in nanoseconds, ascending, with the number of calls that took at
    /// most that long. A call is counted at each bound that it stays below.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bounds.iter().copied().zip(self.cumulative.iter().copied())
    }

    /// Returns the number of all calls, those above the last bound included.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the time of all calls together, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
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

    /// Returns the family's kind and its values.
    fn found(metrics: &Metrics) -> (MetricKind, Vec<MetricValue>) {
        let [family] = metrics.families().collect::<Vec<_>>()[..] else { panic!("there is one name") };
        (family.kind(), family.series().map(|it| it.value.clone()).collect())
    }

    #[test]
    fn values_of_a_name_have_the_kind_of_the_first_one() {
        let counted = (MetricKind::Counter, vec![MetricValue::Count(3)]);
        let mut added = counter();
        added.add_all(histogram());
        assert_eq!(found(&added), counted);
        added.add_all(of(|it| it.gauge(NAME, "", &[("of", "a")], 9.0)));
        assert_eq!(found(&added), counted);
        added.add_all(counter());
        assert_eq!(found(&added), (MetricKind::Counter, vec![MetricValue::Count(6)]));
        // The earlier kind counts as the first.
        let mut now = histogram();
        now.raise(&counter());
        assert_eq!(found(&now), counted);
        assert_eq!(histogram().of_the_kinds_of(&counter()).families().count(), 0);
        assert_eq!(found(&histogram().of_the_kinds_of(&of(|_| ()))).0, MetricKind::Histogram);
        // A gauge disappears with its attachment.
        let mut now = counter();
        now.raise(&of(|it| it.gauge(NAME, "", &[("of", "a")], 9.0)));
        assert_eq!(found(&now), counted);
    }
}
