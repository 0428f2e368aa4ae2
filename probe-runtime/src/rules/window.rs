//! The numbers of a window: the difference of two readings of one attachment, row by row.

use std::collections::{BTreeMap, BTreeSet};

use super::reading::{Reading, Row, RowKind};

/// Hits of all rows in one window.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Window {
    /// The time between the two readings.
    pub(super) seconds: f64,
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    /// The times of calls, and their number; ascending.
    buckets: BTreeMap<u64, Timed>,
    /// The longest call, if it is longer than all calls before this window.
    record: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Timed {
    time: u64,
    calls: u64,
}

impl Window {
    /// Takes a reading that begins with its window: there is no earlier one.
    pub(super) fn of(reading: &Reading) -> Self {
        let mut window = Self { seconds: reading.time.as_secs_f64(), ..Self::default() };
        counted(reading).for_each(|row| window.add(row));
        window
    }

    /// Takes the difference; `None` if a number has become less, or a row is gone: the function was
    /// unloaded, or its counts began anew.
    pub(super) fn between(before: &Reading, now: &Reading) -> Option<Self> {
        let time = now.time.checked_sub(before.time)?;
        let mut window = Self { seconds: time.as_secs_f64(), ..Self::default() };
        let mut earlier: BTreeMap<_, _> = counted(before).map(|row| (&row.name, row)).collect();
        for row in counted(now) {
            match earlier.remove(&row.name) {
                Some(before) => window.add(&since(row, before)?),
                None => window.add(row),
            }
        }
        // A row without hits had nothing to lose.
        earlier.values().all(|row| row.count == 0).then_some(window)
    }

    fn add(&mut self, row: &Row) {
        self.count = self.count.saturating_add(row.count);
        self.sum += row.sum;
        if row.count != 0 {
            self.min = extreme(self.min, row.min, f64::min);
            self.max = extreme(self.max, row.max, f64::max);
        }
        for bucket in &row.buckets {
            let timed = self.buckets.entry(bucket.number).or_default();
            timed.time = timed.time.max(bucket.time);
            timed.calls = timed.calls.saturating_add(bucket.calls);
        }
        if !row.buckets.is_empty() {
            self.record = extreme(self.record, row.max, f64::max);
        }
    }

    /// Returns the number of calls with a time.
    pub(super) fn timed(&self) -> u64 {
        self.buckets.values().fold(0, |sum, timed| sum.saturating_add(timed.calls))
    }

    /// Returns the time in nanoseconds within which this part of the calls ended, within 1.6 %.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    pub(super) fn quantile(&self, part: f64) -> Option<f64> {
        let rank = ((self.timed() as f64 * part).ceil() as u64).max(1);
        let mut below = 0_u64;
        let reached = |timed: &&Timed| {
            below = below.saturating_add(timed.calls);
            below >= rank
        };
        self.buckets.values().find(reached).map(|timed| timed.time as f64)
    }

    /// Returns the time of the longest call in nanoseconds: exact if it is the longest of all,
    /// otherwise within 1.6 %.
    pub(super) fn longest(&self) -> Option<f64> {
        let slowest = self.buckets.values().next_back()?.time as f64;
        Some(self.record.unwrap_or(slowest).max(slowest))
    }
}

fn extreme(one: Option<f64>, other: Option<f64>, of: fn(f64, f64) -> f64) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(of(one, other)),
        (one, other) => one.or(other),
    }
}

/// Returns the rows that count: of a call, its entry, unless only later hits of it are there.
fn counted(reading: &Reading) -> impl Iterator<Item = &Row> {
    let entered = reading.rows.iter().filter(|it| it.kind == RowKind::Begin).map(|it| &it.name);
    let entered: BTreeSet<_> = entered.collect();
    let counts = move |row: &&Row| row.kind == RowKind::Begin || !entered.contains(&row.name);
    reading.rows.iter().filter(counts)
}

fn since(now: &Row, before: &Row) -> Option<Row> {
    let earlier: BTreeMap<_, _> = before.buckets.iter().map(|it| (it.number, it.calls)).collect();
    let mut buckets = now.buckets.clone();
    for bucket in &mut buckets {
        let before = earlier.get(&bucket.number).copied().unwrap_or(0);
        bucket.calls = bucket.calls.checked_sub(before)?;
    }
    buckets.retain(|it| it.calls != 0);
    let is_record = |now: &f64| before.max.is_none_or(|before| before < *now);
    Some(Row {
        name: now.name.clone(),
        kind: now.kind,
        count: now.count.checked_sub(before.count)?,
        sum: now.sum - before.sum,
        // An extreme since the beginning belongs to this window only if it is new.
        min: None,
        max: now.max.filter(is_record),
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::reading::Bucket;
    use super::*;

    fn row(name: &str, count: u64, sum: f64) -> Row {
        Row { name: name.to_owned(), count, sum, ..Row::default() }
    }

    fn reading(seconds: u64, rows: &[Row]) -> Reading {
        Reading { time: Duration::from_secs(seconds), rows: rows.to_vec() }
    }

    #[test]
    fn a_window_is_the_difference_of_each_row() {
        let before = reading(10, &[row("a", 5, 50.0), row("b", 1, 1.0)]);
        let now = reading(12, &[row("b", 1, 1.0), row("a", 9, 58.0), row("new", 2, 4.0)]);
        let window = Window::between(&before, &now).unwrap();
        assert_eq!((window.seconds, window.count, window.sum), (2.0, 6, 12.0));
    }

    #[test]
    fn numbers_that_shrink_make_a_window_unknown() {
        let before = reading(10, &[row("a", 5, 0.0), row("b", 7, 0.0), row("c", 0, 0.0)]);
        for rows in [
            &[row("a", 4, 0.0), row("b", 70, 0.0)][..],
            // The sum of both has grown.
            &[row("b", 70, 0.0)],
            &[],
        ] {
            assert_eq!(Window::between(&before, &reading(11, rows)), None);
        }
        let same = reading(11, &[row("a", 5, 0.0), row("b", 7, 0.0)]);
        assert_eq!(Window::between(&before, &same).unwrap().count, 0);
        // Of another attachment.
        assert_eq!(Window::between(&before, &reading(9, &before.rows)), None);
    }

    #[test]
    fn a_call_counts_once() {
        let exit = |count| Row { kind: RowKind::Later, ..row("f", count, 0.0) };
        assert_eq!(Window::of(&reading(1, &[row("f", 3, 0.0), exit(2), row("p", 4, 0.0)])).count, 7);
        assert_eq!(Window::of(&reading(1, &[exit(2)])).count, 2);
    }

    #[test]
    fn times_are_of_the_calls_in_the_window() {
        let timed = |count, max, buckets: &[(u64, u64)]| Row {
            max: Some(max),
            buckets: buckets
                .iter()
                .map(|(time, calls)| Bucket { number: *time, time: *time, calls: *calls })
                .collect(),
            ..row("f", count, 0.0)
        };
        let before = reading(1, &[timed(101, 900.0, &[(10, 100), (900, 1)])]);
        let now = reading(2, &[timed(111, 900.0, &[(10, 105), (20, 4), (30, 1), (900, 1)])]);
        let window = Window::between(&before, &now).unwrap();
        assert_eq!(
            (window.timed(), window.quantile(0.5), window.quantile(0.9)),
            (10, Some(10.0), Some(20.0))
        );
        assert_eq!(window.longest(), Some(30.0));
        // The longest of all calls is known exactly.
        let now = reading(2, &[timed(102, 1234.0, &[(10, 100), (900, 1), (1200, 1)])]);
        assert_eq!(Window::between(&before, &now).unwrap().longest(), Some(1234.0));
        assert_eq!(Window::default().quantile(0.5), None);
    }

    #[test]
    fn counts_and_times_saturate() {
        let most = Row {
            buckets: vec![Bucket { number: 1, time: u64::MAX, calls: u64::MAX }],
            ..row("a", u64::MAX, f64::MAX)
        };
        let window = Window::of(&reading(u64::MAX, &[most.clone(), most]));
        assert_eq!((window.count, window.timed()), (u64::MAX, u64::MAX));
        assert_eq!(window.quantile(0.999), Some(u64::MAX as f64));
    }
}
