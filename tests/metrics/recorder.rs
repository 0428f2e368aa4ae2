//! A program's own bridge to its recorder of the `metrics` crate: a loop over all numbers before
//! each scrape. That crate's exporter for Prometheus must say the same as `Metrics::to_prometheus`.
//! Its histograms take single values, so the bridge has counters for their buckets.

use std::collections::BTreeSet;

use metrics::{Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use probe_runtime::metrics::{Exporter, MetricValue, Metrics};
use probe_runtime::{Count, Latency, probe, select};

#[probe]
#[inline(never)]
fn work() {
    probe!("middle");
}

/// The bridge.
fn record(metrics: &Metrics, recorder: &dyn Recorder) {
    let metadata = Metadata::new("probes", Level::INFO, None);
    let count = |name: String, labels: Vec<Label>, count| {
        recorder.register_counter(&Key::from_parts(name, labels), &metadata).absolute(count);
    };
    let gauge = |name: String, labels: Vec<Label>, value| {
        recorder.register_gauge(&Key::from_parts(name, labels), &metadata).set(value);
    };
    for family in metrics.families() {
        for series in family.series() {
            let name = family.name();
            let labels: Vec<_> =
                series.labels.iter().map(|(key, value)| Label::new(*key, value.clone())).collect();
            match series.value {
                MetricValue::Count(number) => count(name.to_owned(), labels, *number),
                MetricValue::Nanoseconds(time) => gauge(name.to_owned(), labels, seconds(*time)),
                MetricValue::Gauge(number) => gauge(name.to_owned(), labels, *number),
                MetricValue::Histogram(histogram) => {
                    let bounds =
                        histogram.cumulative().map(|(bound, calls)| (seconds(bound).to_string(), calls));
                    for (bound, calls) in bounds.chain([("+Inf".to_owned(), histogram.calls())]) {
                        let mut labels = labels.clone();
                        labels.push(Label::new("le", bound));
                        count(format!("{name}_bucket"), labels, calls);
                    }
                    gauge(format!("{name}_sum"), labels.clone(), seconds(histogram.sum()));
                    count(format!("{name}_count"), labels, histogram.calls());
                }
                _ => (),
            }
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[test]
fn a_recorder_has_the_same_numbers() {
    let exporter = Exporter::new();
    let probes = select("metrics_recorder::*").unwrap();
    let _hits = exporter.watch(probes.attach(Count::new()).unwrap());
    let _latency = exporter.watch(probes.attach(Latency::new()).unwrap());
    let recorder = PrometheusBuilder::new().build_recorder();
    for scrape in 1..=3_u64 {
        (0..100).for_each(|_| work());
        let metrics = exporter.collect();
        record(&metrics, &recorder);
        let (ours, theirs) = (metrics.to_prometheus(), recorder.handle().render());
        let samples = |text: &str| -> BTreeSet<String> {
            text.lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(samples(&theirs), samples(&ours));
        let hits = samples(&ours).into_iter().filter(|line| line.ends_with(&format!("}} {}", scrape * 100)));
        // Entry, exit and point, `+Inf`, the count, and the bounds that all calls keep to.
        assert!(hits.count() >= 5, "{ours}");
    }
}
