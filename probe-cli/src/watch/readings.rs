//! Reports of a program as readings of the rules' engine.

use std::time::Duration;

use probe_lang::rules::{Bucket, Reading, Row, RowKind};
use probe_report::{Document, Row as ReportRow};

/// Reads a report of `count`, of `latency(buckets)`, or of an aggregation.
///
/// # Errors
/// The reason why it is not as expected.
pub fn reading(report: &Document<'_>) -> Result<Reading, String> {
    let missing = |what: &str| format!("the program's report can't be read: it has no {what}");
    let seconds = report.head.number("duration").ok_or_else(|| missing("duration"))?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| missing("duration"))?;
    let rows = report.rows.iter().map(|row| {
        let any = |names: &[&str]| names.iter().find_map(|name| row.number(name));
        let path = row.text("probe").or(row.text("function")).ok_or_else(|| missing("path"))?;
        let (file, line) = (row.text("file").unwrap_or_default(), row.whole("line").unwrap_or(0));
        let count = ["hits", "calls", "count"].iter().find_map(|name| row.whole(name));
        Ok(Row {
            name: format!("{path} ({file}:{line})"),
            kind: match row.text("kind").unwrap_or_default() {
                "" | "entry" | "point" => RowKind::Begin,
                "exit" => RowKind::Exit,
                _ => RowKind::Other,
            },
            count: count.ok_or_else(|| missing("count"))?,
            sum: any(&["sum", "sum_ns"]).unwrap_or(0.0),
            min: row.number("min"),
            max: any(&["max", "max_ns"]),
            buckets: row.rows("buckets").iter().filter_map(bucket).collect(),
        })
    });
    Ok(Reading { time, rows: rows.collect::<Result<_, String>>()? })
}

/// Reads a bucket of `latency(buckets)`.
fn bucket(row: &ReportRow<'_>) -> Option<Bucket> {
    Some(Bucket { number: row.whole("bucket")?, time: row.whole("time_ns")?, calls: row.whole("calls")? })
}

#[cfg(test)]
mod tests {
    use probe_report::Cell;

    use super::*;

    fn report(row: ReportRow<'static>) -> Document<'static> {
        let head = ReportRow::new().with("duration", Cell::Seconds(Duration::from_millis(1500)));
        Document { head, rows: vec![row], ..Document::default() }
    }

    fn read(row: ReportRow<'static>) -> Row {
        reading(&report(row)).unwrap().rows.remove(0)
    }

    #[test]
    fn reports_of_three_consumers() {
        let hits = |kind| ReportRow::new().with("probe", "f").with("kind", kind);
        let hits = |kind| hits(kind).with("file", "a.rs").with("line", 3_u32).with("hits", 7_u64);
        assert_eq!(reading(&report(hits("entry"))).unwrap().time, Duration::from_millis(1500));
        let expected = Row { name: "f (a.rs:3)".to_owned(), count: 7, ..Row::default() };
        assert_eq!(read(hits("entry")), expected);
        assert_eq!(read(hits("exit")).kind, RowKind::Exit);
        let bucket = ReportRow::new().with("bucket", 20_u64).with("time_ns", 20_u64).with("calls", 2_u64);
        let row = ReportRow::new().with("function", "f").with("file", "").with("line", 0_u32);
        let row = row.with("calls", 3_u64).with("total_ns", 80_u64).with("max_ns", 50_u64);
        let row = row.with("sum_ns", 90_u64).with("buckets", Cell::from_iter([bucket]));
        let Row { count, sum, max, buckets, .. } = read(row);
        assert_eq!((count, sum, max), (3, 90.0, Some(50.0)));
        assert_eq!(buckets, [Bucket { number: 20, time: 20, calls: 2 }]);
        let large = Cell::Integer(340_282_366_920_938_463_463);
        let sum = read(ReportRow::new().with("probe", "p").with("count", 1_u64).with("sum", large)).sum;
        assert!((sum / 340_282_366_920_938_463_463.0 - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_number_that_is_none_stays_that() {
        let row = |name| ReportRow::new().with("probe", "p").with("count", 1_u64).with(name, f64::NAN);
        assert!(read(row("sum")).sum.is_nan());
        let row = ReportRow::new().with("probe", "p").with("count", 1_u64).with("min", None::<f64>);
        assert_eq!(read(row).min, None);
    }

    #[test]
    fn other_reports_are_errors() {
        let row = || ReportRow::new().with("probe", "p").with("count", 1_u64);
        let without_time = Document { rows: vec![row()], ..Document::default() };
        for (report, problem) in [
            (without_time, "duration"),
            (report(ReportRow::new().with("probe", "p")), "count"),
            (report(ReportRow::new().with("count", 1_u64)), "path"),
        ] {
            let expected = format!("the program's report can't be read: it has no {problem}");
            assert_eq!(reading(&report).unwrap_err(), expected);
        }
    }
}
