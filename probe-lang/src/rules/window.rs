//! Readings, the numbers of a figure's consumer at one moment, as its driver has read them; and the
//! numbers of a window: the difference of two readings of one attachment, row by row.

use std::collections::BTreeMap;
use std::time::Duration;

/// The report of one consumer, since it was attached.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reading {
    /// The time that the report covers, by the consumer's own clock.
    pub time: Duration,
    /// A row for each probe, or for each function.
    pub rows: Vec<Row>,
}

/// The numbers of one probe or function.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Row {
    /// The path, and whatever else tells it from other rows.
    pub name: String,
    /// Which hits these are.
    pub kind: RowKind,
    /// Hits or calls.
    pub count: u64,
    /// The sum of the numbers, or of the times in nanoseconds.
    pub sum: f64,
    /// The least number, if the consumer has it.
    pub min: Option<f64>,
    /// The greatest number, or the longest time, if the consumer has it.
    pub max: Option<f64>,
    /// The calls by their times.
    pub buckets: Vec<Bucket>,
}

/// The kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RowKind {
    /// Points, entries, or calls.
    #[default]
    Begin,
    /// Exits. They count if no entry of the same name does.
    Exit,
    /// Other hits of a call, such as the polls of a future. They count if nothing else does.
    Other,
}

/// Calls that took about as long as each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its number, which is the same in all readings of an attachment.
    pub number: u64,
    /// Its time in nanoseconds.
    pub time: u64,
    /// The calls.
    pub calls: u64,
}

/// Hits of all rows in one window.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Window {
    /// The time between the two readings.
    pub(super) seconds: f64,
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) min: Option<f64>,
    /// The greatest number. Of calls, the time of the longest in nanoseconds, within 1.6 %.
    pub(super) max: Option<f64>,
    /// The times of calls, and their number; ascending.
    buckets: BTreeMap<u64, Timed>,
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
        by_name(reading).values().for_each(|kinds| window.add(kinds.of(kinds.counting())));
        window
    }

    /// Takes the difference; `None` if a number has become less, or a row is gone: the function was
    /// unloaded, or its counts began anew.
    pub(super) fn between(before: &Reading, now: &Reading) -> Option<Self> {
        let time = now.time.checked_sub(before.time)?;
        let mut window = Self { seconds: time.as_secs_f64(), ..Self::default() };
        let mut earlier = by_name(before);
        for (name, kinds) in by_name(now) {
            let kind = kinds.counting();
            match earlier.remove(name) {
                Some(before) => window.add(&kinds.of(kind).since(before.of(kind))?),
                None => window.add(kinds.of(kind)),
            }
        }
        // A row without hits had nothing to lose.
        earlier.values().all(|it| it.of(it.counting()).count == 0).then_some(window)
    }

    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        if other.count != 0 {
            self.min = extreme(self.min, other.min, f64::min);
            self.max = extreme(self.max, other.max, f64::max);
        }
        for (number, bucket) in &other.buckets {
            self.add_bucket(*number, *bucket);
        }
    }

    fn add_bucket(&mut self, number: u64, Timed { time, calls }: Timed) {
        let timed = self.buckets.entry(number).or_default();
        timed.time = timed.time.max(time);
        timed.calls = timed.calls.saturating_add(calls);
    }

    /// Returns the numbers after earlier ones of the same row; `None` if one has become less.
    fn since(&self, before: &Self) -> Option<Self> {
        let mut buckets = self.buckets.clone();
        for (number, bucket) in &mut buckets {
            let before = before.buckets.get(number).map_or(0, |it| it.calls);
            bucket.calls = bucket.calls.checked_sub(before)?;
        }
        buckets.retain(|_, it| it.calls != 0);
        // Times of one call differ from reading to reading by the clock's error, so they can't say
        // whether the longest call is a new one. Its bucket can.
        let max = match (buckets.last_key_value(), self.buckets.last_key_value()) {
            (Some((last, _)), Some((of_all, _))) if last == of_all => self.max,
            (slowest, _) => slowest.map(|(_, it)| it.time as f64),
        };
        Some(Self {
            seconds: 0.0,
            count: self.count.checked_sub(before.count)?,
            sum: self.sum - before.sum,
            min: None,
            max,
            buckets,
        })
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
}

fn extreme(one: Option<f64>, other: Option<f64>, of: fn(f64, f64) -> f64) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(of(one, other)),
        (one, other) => one.or(other),
    }
}

/// The numbers of one name: of its entries or points, of its exits, and of other hits.
#[derive(Default)]
struct Kinds([Window; 3]);

impl Kinds {
    fn of(&self, kind: RowKind) -> &Window {
        &self.0[kind as usize]
    }

    /// Returns the kind that counts, so that a call counts once: entries, unless only later hits
    /// passed a predicate or were selected.
    fn counting(&self) -> RowKind {
        let has_hits = |kind: &RowKind| self.of(*kind).count != 0;
        [RowKind::Begin, RowKind::Exit, RowKind::Other].into_iter().find(has_hits).unwrap_or_default()
    }
}

/// Adds up the rows of each name.
fn by_name(reading: &Reading) -> BTreeMap<&str, Kinds> {
    let mut names = BTreeMap::<_, Kinds>::new();
    for row in &reading.rows {
        let Row { name, kind, count, sum, min, max, buckets } = row;
        let mut numbers = Window { count: *count, sum: *sum, min: *min, max: *max, ..Window::default() };
        for it in buckets {
            numbers.add_bucket(it.number, Timed { time: it.time, calls: it.calls });
        }
        names.entry(name.as_str()).or_default().0[*kind as usize].add(&numbers);
    }
    names
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let exit = |count| Row { kind: RowKind::Exit, ..row("f", count, 0.0) };
        assert_eq!(Window::of(&reading(1, &[row("f", 3, 0.0), exit(2), row("p", 4, 0.0)])).count, 7);
        // Exits alone were selected, or alone pass a predicate.
        assert_eq!(Window::of(&reading(1, &[exit(2)])).count, 2);
        assert_eq!(Window::of(&reading(1, &[row("f", 0, 0.0), exit(2)])).count, 2);
        // A call that had begun before.
        let (before, now) =
            (reading(1, &[row("f", 0, 0.0), exit(1)]), reading(2, &[row("f", 5, 0.0), exit(6)]));
        assert_eq!(Window::between(&before, &now).unwrap().count, 5);
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
        assert_eq!(window.max, Some(30.0));
        // The longest of all calls is known exactly.
        let now = reading(2, &[timed(102, 1190.0, &[(10, 100), (900, 1), (1200, 1)])]);
        assert_eq!(Window::between(&before, &now).unwrap().max, Some(1190.0));
        // A tick of the clock has become longer. The longest call lies before this window.
        let now = reading(2, &[timed(102, 903.0, &[(10, 101), (900, 1)])]);
        assert_eq!(Window::between(&before, &now).unwrap().max, Some(10.0));
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
