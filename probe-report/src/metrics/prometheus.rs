//! Prometheus's text format, version 0.0.4. Every version of Prometheus reads it, and so does the
//! node exporter's textfile collector.

use std::fmt::Write;

use super::{Family, MetricKind, MetricValue, Metrics, Series};

/// The `Content-Type` of an answer whose body is [`Metrics::to_prometheus`].
///
/// ```
/// use probe_runtime::metrics::{CONTENT_TYPE, Exporter};
///
/// let body = Exporter::new().collect().to_prometheus();
/// let length = body.len();
/// let answer =
///     format!("HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\n\r\n{body}");
/// # assert!(answer.contains("Content-Type: text/plain; version=0.0.4"));
/// ```
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// Returns the snapshot as Prometheus's text, of the type [`CONTENT_TYPE`]: families by name,
    /// series by labels. Characters that a name may not hold become underscores.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        self.families().for_each(|family| push_family(&mut text, family));
        text
    }
}

fn push_family(text: &mut String, family: &Family) {
    let name = name(family.name(), true);
    let kind = match family.kind() {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    // Writing to a `String` can't fail.
    let _ = writeln!(text, "# HELP {name} {}", escaped(family.help(), false));
    let _ = writeln!(text, "# TYPE {name} {kind}");
    for Series { labels, value } in family.series() {
        let labels = joined(labels);
        let mut line = |suffix: &str, bound: Option<&str>, value: &str| {
            let _ = match (bound, labels.as_str()) {
                (None, "") => writeln!(text, "{name}{suffix} {value}"),
                (None, labels) => writeln!(text, "{name}{suffix}{{{labels}}} {value}"),
                (Some(bound), "") => writeln!(text, "{name}{suffix}{{le=\"{bound}\"}} {value}"),
                (Some(bound), labels) => writeln!(text, "{name}{suffix}{{{labels},le=\"{bound}\"}} {value}"),
            };
        };
        match value {
            MetricValue::Count(count) => line("", None, &count.to_string()),
            MetricValue::Nanoseconds(time) => line("", None, &seconds(*time)),
            MetricValue::Gauge(gauge) => line("", None, &number(*gauge)),
            MetricValue::Histogram(histogram) => {
                for (bound, calls) in histogram.cumulative() {
                    line("_bucket", Some(&seconds(bound)), &calls.to_string());
                }
                line("_bucket", Some("+Inf"), &histogram.calls().to_string());
                line("_sum", None, &seconds(histogram.sum()));
                line("_count", None, &histogram.calls().to_string());
            }
        }
    }
}

fn joined(labels: &[(&'static str, String)]) -> String {
    let label =
        |(label, value): &(&str, String)| format!("{}=\"{}\"", name(label, false), escaped(value, true));
    labels.iter().map(label).collect::<Vec<_>>().join(",")
}

/// Replaces characters that a name may not hold by underscores. Only names of metrics may hold
/// colons.
fn name(name: &str, with_colons: bool) -> String {
    let is_right = |c: char| c.is_ascii_alphanumeric() || c == '_' || (with_colons && c == ':');
    let mut name: String = name.chars().map(|c| if is_right(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| !c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

fn escaped(text: &str, is_quoted: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if is_quoted => escaped.push_str("\\\""),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns the exact number of seconds as a decimal fraction.
pub(super) fn seconds(nanoseconds: u64) -> String {
    let text = format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn number(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text() {
        let mut metrics = Metrics::default();
        let path = [("probe", "F<\"a\\b\">::c\nd"), ("file", "src/é.rs")];
        metrics.count("probe_hits_total", "Hits\\, of\na \"probe\".", &path, 7);
        metrics.count("probe_hits_total", "", &[("probe", "b")], u64::MAX);
        metrics.count("probe_hits_total", "", &[("probe", "b")], 0);
        metrics.gauge("probe_hits_total", "of another kind", &[], 1.0);
        metrics.time("a-time.seconds", "A time.", &[], 1_500_000_001);
        metrics.gauge("now", "A gauge.", &[("0th-x", "")], f64::NEG_INFINITY);
        let expected = r#"# HELP a_time_seconds A time.
# TYPE a_time_seconds counter
a_time_seconds 1.500000001
# HELP now A gauge.
# TYPE now gauge
now{_0th_x=""} -Inf
# HELP probe_hits_total Hits\\, of\na "probe".
# TYPE probe_hits_total counter
probe_hits_total{probe="F<\"a\\b\">::c\nd",file="src/é.rs"} 7
probe_hits_total{probe="b"} 18446744073709551615
"#;
        assert_eq!(metrics.to_prometheus(), expected);
    }

    #[test]
    fn a_bound_has_the_calls_that_took_no_longer() {
        let mut metrics = Metrics::new([1_000, 250_000, 2_000_000_000].into());
        let times = [(250_001, 5), (1, 1), (1_000, 2), (250_000, 3), (2_000_000_001, 7)];
        metrics.histogram("t_seconds", "T.", &[("probe", "a")], 15_000_000_000, &times);
        metrics.histogram("u_seconds", "U.", &[], 0, &[]);
        assert_eq!(
            metrics.to_prometheus(),
            "# HELP t_seconds T.\n\
             # TYPE t_seconds histogram\n\
             t_seconds_bucket{probe=\"a\",le=\"0.000001\"} 3\n\
             t_seconds_bucket{probe=\"a\",le=\"0.00025\"} 6\n\
             t_seconds_bucket{probe=\"a\",le=\"2\"} 11\n\
             t_seconds_bucket{probe=\"a\",le=\"+Inf\"} 18\n\
             t_seconds_sum{probe=\"a\"} 15\n\
             t_seconds_count{probe=\"a\"} 18\n\
             # HELP u_seconds U.\n\
             # TYPE u_seconds histogram\n\
             u_seconds_bucket{le=\"0.000001\"} 0\n\
             u_seconds_bucket{le=\"0.00025\"} 0\n\
             u_seconds_bucket{le=\"2\"} 0\n\
             u_seconds_bucket{le=\"+Inf\"} 0\n\
             u_seconds_sum 0\n\
             u_seconds_count 0\n"
        );
    }

    proptest! {
        #[test]
        fn seconds_are_exact(nanoseconds: u64) {
            let text = seconds(nanoseconds);
            let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
            let part = format!("{part:0<9}");
            let read = whole.parse::<u128>().unwrap() * 1_000_000_000 + part.parse::<u128>().unwrap();
            prop_assert_eq!(read, u128::from(nanoseconds));
        }

        #[test]
        fn a_value_stands_on_one_line_in_quotes(value: String) {
            let mut metrics = Metrics::default();
            metrics.count("n", "", &[("l", &value)], 1);
            let text = metrics.to_prometheus();
            prop_assert_eq!(text.split('\n').count(), 4);
            let line = text.split('\n').nth(2).unwrap();
            let quoted = line.strip_prefix("n{l=\"").and_then(|it| it.strip_suffix("\"} 1")).unwrap();
            let read = quoted.replace("\\\\", "\0\0").replace("\\n", "\n").replace("\\\"", "\"");
            // A NUL in the value would be ambiguous here.
            prop_assume!(!value.contains('\0'));
            prop_assert_eq!(read.replace("\0\0", "\\"), value);
        }
    }
}
