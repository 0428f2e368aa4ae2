//! A snapshot: families of series, each with its labels and its value. Pure.

mod family;
mod histogram;
mod value;

use std::sync::Arc;
use std::time::SystemTime;

pub use family::{Family, Series};
use histogram::BOUNDS;
pub use histogram::Histogram;
pub use value::{MetricKind, MetricValue};

/// All measurements at one moment; from [`Exporter::collect`](super::Exporter::collect).
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
    pub(super) bounds: Arc<[u64]>,
    /// Sorted by name.
    families: Vec<Family>,
    /// When counters began to count; `taken` is when they were read.
    pub(super) began: SystemTime,
    pub(super) taken: SystemTime,
}

impl Default for Metrics {
    /// Creates a snapshot without families, with the default bounds.
    fn default() -> Self {
        Self::new(Arc::new(BOUNDS))
    }
}

impl Metrics {
    pub(super) fn new(bounds: Arc<[u64]>) -> Self {
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
    pub(crate) fn add_all(&mut self, other: Self) {
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
    pub(super) fn without_gauges(mut self) -> Self {
        self.families.retain(|family| family.kind() != MetricKind::Gauge);
        self
    }

    /// Drops families whose kind conflicts with the family of the same name in `told`.
    pub(super) fn of_the_kinds_of(mut self, told: &Self) -> Self {
        let is_like_told = |family: &Family| match told.find(family.name()) {
            Ok(at) => told.families[at].kind() == family.kind(),
            Err(_) => true,
        };
        self.families.retain(is_like_told);
        self
    }

    /// Keeps each number that only grows from falling below its former value, from disappearing,
    /// and from changing its kind.
    pub(super) fn raise(&mut self, before: &Self) {
        for before in before.families.iter().filter(|it| it.kind() != MetricKind::Gauge) {
            match self.find(before.name()) {
                Ok(at) => self.families[at].raise(before),
                Err(at) => self.families.insert(at, before.clone()),
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
