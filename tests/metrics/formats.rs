//! Formats for collectors: the same text as `prometheus` writes, and types of OpenTelemetry.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use probe_runtime::metrics::{Exporter, Family, MetricKind, MetricValue, Metrics};
use probe_runtime::{Count, Latency, probe, select};
use prometheus::{TextEncoder, proto};

#[probe]
#[inline(never)]
fn one() {
    two();
}

#[probe]
#[inline(never)]
fn two() {
    probe!("middle");
}

#[probe]
#[inline(never)]
fn another() {}

#[test]
fn text_is_what_prometheus_would_write() {
    let exporter = Exporter::new();
    let probes = select("metrics_formats::*, !**::another").unwrap();
    let _hits = exporter.watch(probes.attach(Count::new()).unwrap());
    let _latency = exporter.watch(probes.attach(Latency::new()).unwrap());
    (0..50).for_each(|_| one());
    let metrics = exporter.collect();
    let text = metrics.to_prometheus();
    assert_eq!(text, by_prometheus(&metrics));
    assert!(text.lines().any(|line| line.starts_with("probe_hits_total{") && line.ends_with("} 50")));
    // Characters in names and texts of any language.
    let mut odd = Metrics::default();
    odd.count("odd_total", "a \\ b\nc \"d\"", &[("l", "F<\"a\\b\">::{c, d = 1}\né")], 3);
    odd.gauge("odd", "negative", &[], -0.25);
    assert_eq!(odd.to_prometheus(), by_prometheus(&odd));
}

fn by_prometheus(metrics: &Metrics) -> String {
    let families: Vec<_> = metrics.families().map(to_prometheus).collect();
    TextEncoder::new().encode_to_string(&families).unwrap()
}

fn to_prometheus(family: &Family) -> proto::MetricFamily {
    let mut to = proto::MetricFamily::default();
    to.set_name(family.name().to_owned());
    to.set_help(family.help().to_owned());
    to.set_field_type(match family.kind() {
        MetricKind::Counter => proto::MetricType::COUNTER,
        MetricKind::Gauge => proto::MetricType::GAUGE,
        MetricKind::Histogram => proto::MetricType::HISTOGRAM,
    });
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let metric = |series: probe_runtime::metrics::Series<'_>| {
        let label = |(name, value): &(&str, String)| {
            let mut label = proto::LabelPair::default();
            label.set_name((*name).to_owned());
            label.set_value(value.clone());
            label
        };
        let mut metric = proto::Metric::from_label(series.labels.iter().map(label).collect());
        let mut counter = proto::Counter::default();
        let mut gauge = proto::Gauge::default();
        match series.value {
            MetricValue::Count(count) => counter.set_value(*count as f64),
            MetricValue::Nanoseconds(time) => counter.set_value(seconds(*time)),
            MetricValue::Gauge(number) => gauge.set_value(*number),
            MetricValue::Histogram(of) => {
                let mut histogram = proto::Histogram::default();
                histogram.set_sample_count(of.calls());
                histogram.set_sample_sum(seconds(of.sum()));
                let bucket = |(bound, calls)| {
                    let mut bucket = proto::Bucket::default();
                    bucket.set_upper_bound(seconds(bound));
                    bucket.set_cumulative_count(calls);
                    bucket
                };
                histogram.set_bucket(of.cumulative().map(bucket).collect());
                metric.set_histogram(histogram);
            }
            value => panic!("{value:?}"),
        }
        metric.set_counter(counter);
        metric.set_gauge(gauge);
        metric
    };
    to.set_metric(family.series().map(metric).collect());
    to
}

#[test]
fn otlp_is_what_opentelemetry_reads() {
    let exporter = Exporter::with_bounds([1, 1000].map(Duration::from_secs));
    let probes = select("metrics_formats::another").unwrap();
    let _hits = exporter.watch(probes.attach(Count::new()).unwrap());
    let _latency = exporter.watch(probes.attach(Latency::new()).unwrap());
    (0..7).for_each(|_| another());
    let metrics = exporter.collect();
    let json = metrics.to_otlp(&[("service.name", "a \"test\"")]);
    let request: ExportMetricsServiceRequest = serde_json::from_str(&json).unwrap();
    let [of_resource] = request.resource_metrics.as_slice() else { panic!("{request:?}") };
    assert_eq!(pairs(&of_resource.resource.as_ref().unwrap().attributes), [("service.name", "a \"test\"")]);
    let [of_scope] = of_resource.scope_metrics.as_slice() else { panic!("{request:?}") };
    assert_eq!(of_scope.scope.as_ref().unwrap().name, "probe-runtime");
    let names: Vec<_> = of_scope.metrics.iter().map(|it| (it.name.as_str(), it.unit.as_str())).collect();
    assert_eq!(names, [("probe_hits", ""), ("probe_latency", "s"), ("probe_self", "s")]);

    let Some(metric::Data::Sum(hits)) = &of_scope.metrics[0].data else { panic!("{request:?}") };
    assert!(hits.is_monotonic && hits.aggregation_temporality == 2);
    let points: Vec<_> = hits.data_points.iter().map(|it| (pairs(&it.attributes)[1], it.value)).collect();
    let seven = Some(number_data_point::Value::AsInt(7));
    assert_eq!(points, [(("kind", "entry"), seven), (("kind", "exit"), seven)]);
    let point = &hits.data_points[0];
    assert!(0 < point.start_time_unix_nano && point.start_time_unix_nano <= point.time_unix_nano);

    let Some(metric::Data::Histogram(latency)) = &of_scope.metrics[1].data else { panic!("{request:?}") };
    assert_eq!(latency.aggregation_temporality, 2);
    let [point] = latency.data_points.as_slice() else { panic!("{request:?}") };
    assert_eq!(pairs(&point.attributes)[0], ("probe", "metrics_formats::another"));
    assert_eq!((point.count, &*point.explicit_bounds), (7, &[1.0, 1000.0][..]));
    assert_eq!((point.bucket_counts.len(), point.bucket_counts.iter().sum::<u64>()), (3, 7));
    let family = metrics.families().find(|family| family.name() == "probe_latency_seconds").unwrap();
    let MetricValue::Histogram(it) = family.series().next().unwrap().value else { panic!("{family:?}") };
    let sum = Duration::from_nanos(it.sum()).as_secs_f64();
    assert!((point.sum.unwrap() - sum).abs() <= f64::EPSILON * sum, "{point:?} {sum}");

    let Some(metric::Data::Sum(own)) = &of_scope.metrics[2].data else { panic!("{request:?}") };
    assert!(own.is_monotonic);
    assert!(matches!(own.data_points[0].value, Some(number_data_point::Value::AsDouble(own)) if own > 0.0));
}

fn pairs(attributes: &[KeyValue]) -> Vec<(&str, &str)> {
    attributes.iter().map(|it| (it.key.as_str(), text(it))).collect()
}

fn text(it: &KeyValue) -> &str {
    match it.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        value => panic!("{value:?}"),
    }
}
