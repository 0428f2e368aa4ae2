//! The series with one name.

use std::collections::BTreeMap;

use super::{MetricKind, MetricValue};

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
pub(super) type Labels = Vec<(&'static str, String)>;

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
    pub(super) fn new(name: &str, help: &str, kind: MetricKind) -> Self {
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
    pub(super) fn put(&mut self, labels: Labels, value: MetricValue) {
        match self.series.get_mut(&labels) {
            Some(known) => known.add(&value),
            None => {
                self.series.insert(labels, value);
            }
        }
    }

    /// Adds the series of another family of the same name. A family of another kind is ignored.
    pub(super) fn add(&mut self, other: Self) {
        if self.kind == other.kind {
            other.series.into_iter().for_each(|(labels, value)| self.put(labels, value));
        }
    }

    /// Keeps each number that only grows from falling below its former value, and brings back
    /// series that have disappeared. If the family was of another kind before, it stays as it was.
    pub(super) fn raise(&mut self, before: &Self) {
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
