//! Reports of a program as readings of the rules' engine.

use std::time::Duration;

use probe_lang::rules::{Bucket, Reading, Row, RowKind};
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
struct Report {
    duration: f64,
    rows: Vec<ReportRow>,
}

/// A row of `count`, of `latency(buckets)`, or of an aggregation.
#[derive(Deserialize)]
struct ReportRow {
    #[serde(alias = "probe", alias = "function")]
    path: String,
    #[serde(default)]
    file: String,
    #[serde(default)]
    line: u32,
    #[serde(default)]
    kind: String,
    #[serde(alias = "hits", alias = "calls")]
    count: u64,
    #[serde(alias = "total_ns", default, deserialize_with = "number")]
    sum: f64,
    min: Option<f64>,
    #[serde(alias = "max_ns")]
    max: Option<f64>,
    #[serde(default)]
    buckets: Vec<ReportBucket>,
}

#[derive(Deserialize)]
struct ReportBucket {
    bucket: u64,
    time_ns: u64,
    calls: u64,
}

/// Reads a number. JSON has no NaN; the report writes it as `null`.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::deserialize(deserializer).map(|it: Option<f64>| it.unwrap_or(f64::NAN))
}

/// Reads a report in JSON.
///
/// # Errors
/// The reason why it is not as expected.
pub fn reading(json: &str) -> Result<Reading, String> {
    let unreadable = |error| format!("the program's report can't be read: {error}");
    let report: Report = serde_json::from_str(json).map_err(|error| unreadable(error.to_string()))?;
    let time = Duration::try_from_secs_f64(report.duration).map_err(|error| unreadable(error.to_string()))?;
    let rows = report.rows.into_iter().map(|row| Row {
        name: format!("{} ({}:{})", row.path, row.file, row.line),
        kind: match row.kind.as_str() {
            "" | "entry" | "point" => RowKind::Begin,
            "exit" => RowKind::Exit,
            _ => RowKind::Other,
        },
        count: row.count,
        sum: row.sum,
        min: row.min,
        max: row.max,
        buckets: row.buckets.into_iter().map(Bucket::from).collect(),
    });
    Ok(Reading { time, rows: rows.collect() })
}

impl From<ReportBucket> for Bucket {
    fn from(it: ReportBucket) -> Self {
        Self { number: it.bucket, time: it.time_ns, calls: it.calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_three_consumers() {
        let count = "{\"duration\":1.5,\"rows\":[\n\
            {\"probe\":\"f\",\"kind\":\"entry\",\"file\":\"a.rs\",\"line\":3,\"sites\":1,\"hits\":7},\n\
            {\"probe\":\"f\",\"kind\":\"exit\",\"file\":\"a.rs\",\"line\":3,\"sites\":1,\"hits\":6}\n]}";
        let read = reading(count).unwrap();
        assert_eq!(read.time, Duration::from_millis(1500));
        let rows: Vec<_> = read.rows.iter().map(|it| (it.name.as_str(), it.kind, it.count)).collect();
        assert_eq!(rows, [("f (a.rs:3)", RowKind::Begin, 7), ("f (a.rs:3)", RowKind::Exit, 6)]);
        let latency = "{\"duration\":2,\"rows\":[{\"function\":\"f\",\"file\":\"\",\"line\":0,\"calls\":3,\"total_ns\":90,\
            \"max_ns\":50,\"buckets\":[{\"bucket\":20,\"time_ns\":20,\"calls\":2}]}],\"left_out\":[],\"lost\":0}";
        let Row { count, sum, max, buckets, .. } = reading(latency).unwrap().rows.remove(0);
        assert_eq!((count, sum, max), (3, 90.0, Some(50.0)));
        assert_eq!(buckets, [Bucket { number: 20, time: 20, calls: 2 }]);
        let sum = "{\"duration\":2,\"rows\":[{\"probe\":\"p\",\"keys\":[],\"count\":1,\"sum\":340282366920938463463}]}";
        assert!((reading(sum).unwrap().rows[0].sum / 340_282_366_920_938_463_463.0 - 1.0).abs() < 1e-15);
    }

    #[test]
    fn null_is_no_number() {
        let of =
            |row: &str| reading(&format!("{{\"duration\":2,\"rows\":[{{\"probe\":\"p\",{row}}}]}}")).unwrap();
        assert!(of("\"count\":1,\"sum\":null").rows[0].sum.is_nan());
        assert_eq!(of("\"count\":1,\"min\":null").rows[0].min, None);
    }

    #[test]
    fn other_texts_are_errors() {
        for text in
            ["", "{}", "{\"duration\":-1,\"rows\":[]}", "{\"duration\":1,\"rows\":[{\"probe\":\"p\"}]}"]
        {
            assert!(reading(text).unwrap_err().starts_with("the program's report can't be read: "), "{text}");
        }
    }
}
