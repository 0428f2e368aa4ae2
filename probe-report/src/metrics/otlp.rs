//! OTLP as JSON: an `ExportMetricsServiceRequest` of `opentelemetry.proto.collector.metrics.v1` in
//! protobuf's JSON mapping, where 64-bit numbers are strings.

use std::time::{SystemTime, UNIX_EPOCH};

use super::prometheus::seconds;
use super::{Family, Histogram, MetricKind, MetricValue, Metrics, Series};
use crate::json::{JsonObject, array};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

impl Metrics {
    /// Returns the body of a POST to an OpenTelemetry collector's `/v1/metrics`, of the type
    /// `application/json`. `resource` describes the program: `service.name`, `service.instance.id`.
    ///
    /// Names have neither `_total` nor `_seconds`, and the unit stands beside them; a collector
    /// makes Prometheus's names from that. Numbers that only grow are cumulative sums since the
    /// exporter was made. Histograms have explicit bounds.
    pub fn to_otlp(&self, resource: &[(&str, &str)]) -> String {
        let scope =
            JsonObject::new().text("name", "probe-runtime").text("version", env!("CARGO_PKG_VERSION"));
        let metrics = array(self.families().map(|family| self.metric(family)));
        let scope = JsonObject::new().json("scope", &scope.finish()).json("metrics", &metrics);
        let attributes = attributes(resource.iter().copied());
        let resource =
            JsonObject::new().json("resource", &JsonObject::new().json("attributes", &attributes).finish());
        let resource = resource.json("scopeMetrics", &array([scope.finish()]));
        JsonObject::new().json("resourceMetrics", &array([resource.finish()])).finish()
    }

    fn metric(&self, family: &Family) -> String {
        let name = family.name();
        let name = name.strip_suffix("_total").unwrap_or(name);
        let (name, unit) = name.strip_suffix("_seconds").map_or((name, ""), |name| (name, "s"));
        let points = array(family.series().map(|series| self.point(series)));
        let data = JsonObject::new().json("dataPoints", &points);
        let cumulative = |data: JsonObject| data.number("aggregationTemporality", CUMULATIVE);
        let (kind, data) = match family.kind() {
            MetricKind::Counter => ("sum", cumulative(data).flag("isMonotonic", true)),
            MetricKind::Gauge => ("gauge", data),
            MetricKind::Histogram => ("histogram", cumulative(data)),
        };
        let metric =
            JsonObject::new().text("name", name).text("description", family.help()).text("unit", unit);
        metric.json(kind, &data.finish()).finish()
    }

    fn point(&self, series: Series<'_>) -> String {
        let attributes = attributes(series.labels.iter().map(|(name, value)| (*name, value.as_str())));
        let point = JsonObject::new()
            .json("attributes", &attributes)
            .text("startTimeUnixNano", &unix_nanoseconds(self.began))
            .text("timeUnixNano", &unix_nanoseconds(self.taken));
        match series.value {
            MetricValue::Count(count) => point.text("asInt", &count.to_string()),
            MetricValue::Nanoseconds(time) => point.json("asDouble", &seconds(*time)),
            MetricValue::Gauge(gauge) if gauge.is_finite() => point.json("asDouble", &gauge.to_string()),
            MetricValue::Gauge(gauge) => point.text("asDouble", not_finite(*gauge)),
            MetricValue::Histogram(histogram) => with_histogram(point, histogram),
        }
        .finish()
    }
}

fn with_histogram(point: JsonObject, histogram: &Histogram) -> JsonObject {
    // OTLP's buckets are not cumulative. The last one has the times above all bounds.
    let mut below = 0;
    let mut own = |cumulative: u64| {
        let own = cumulative - below;
        below = cumulative;
        format!("\"{own}\"")
    };
    let mut counts: Vec<_> = histogram.cumulative().map(|(_, calls)| own(calls)).collect();
    counts.push(own(histogram.calls()));
    point
        .text("count", &histogram.calls().to_string())
        .json("sum", &seconds(histogram.sum()))
        .json("bucketCounts", &array(counts))
        .json("explicitBounds", &array(histogram.cumulative().map(|(bound, _)| seconds(bound))))
}

fn attributes<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    array(pairs.map(|(key, value)| {
        let value = JsonObject::new().text("stringValue", value).finish();
        JsonObject::new().text("key", key).json("value", &value).finish()
    }))
}

/// Returns protobuf's JSON spelling.
fn not_finite(number: f64) -> &'static str {
    match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

fn unix_nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
