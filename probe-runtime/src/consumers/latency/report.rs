//! The measurements at one moment, as a report.

use std::sync::OnceLock;

use hdrhistogram::Histogram;

use super::sums::LatencySums;
#[cfg(feature = "perf")]
use crate::consumers::waits::Refused;
use crate::engine::calls::{Calls, Function, LeftOut, Meter, Unpaired};
use crate::engine::clock::Scale;
use crate::engine::order::Sorted;
use crate::engine::registry::ProbeId;
use crate::report::{FixedColumns, ReportSource, Rows, functions, head, json, left_out, missing, shown};
use probe_report::source::Columns;
use probe_report::source::Period;
use probe_report::{Body, Bound, Cell, Definition, Row, Split, Table, TableCell, Time};

/// The measurements of one function. Times are in nanoseconds.
///
/// ```
/// use probe_runtime::{Latency, probe, select};
///
/// #[probe]
/// fn fetch() {}
///
/// let latency = select("**::fetch")?.attach(Latency::new())?;
/// fetch();
/// let latencies = latency.latencies();
/// let fetch = &latencies[0];
/// assert_eq!(fetch.calls(), 1);
/// println!("{}: {} ns, 99 of 100 within {} ns", fetch.path(), fetch.mean(), fetch.quantile(0.99));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FunctionLatency {
    function: Function,
    sums: LatencySums,
    scale: Scale,
    times: Distribution,
    unpaired: Unpaired,
}

/// Measurements are compared in ticks: a later reading may know the length of a tick more exactly.
impl PartialEq for FunctionLatency {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function && self.sums == other.sums && self.unpaired == other.unpaired
    }
}

impl FunctionLatency {
    fn new(function: Function, unpaired: Unpaired, sums: LatencySums, scale: Scale) -> Self {
        Self { function, times: sums.times(scale), sums, scale, unpaired }
    }

    fn since(&self, earlier: &Self) -> Self {
        let (unpaired, sums) = (self.unpaired.since(earlier.unpaired), self.sums.since(&earlier.sums));
        Self::new(self.function.clone(), unpaired, sums, self.scale)
    }

    /// Returns the number of calls that have ended. For a future, cancelled calls are not included.
    pub fn calls(&self) -> u64 {
        self.times.calls
    }

    /// Returns the number of polls of a future that have ended, including those of calls that have
    /// not ended. 0 for other functions.
    pub fn polls(&self) -> u64 {
        self.sums.polls
    }

    /// Returns the time of the calls, from entry to exit. Calls that the function makes of itself
    /// are part of the outermost one, and count once. Futures of one function count each, also
    /// those that others await.
    pub fn total(&self) -> u64 {
        self.scale.nanoseconds(self.sums.total)
    }

    /// Returns the time of all calls, recursive ones included: that of the histogram.
    pub(crate) fn sum(&self) -> u64 {
        self.scale.nanoseconds(self.sums.sum)
    }

    /// Returns the time of all polls of a future, including futures that have not ended or were
    /// cancelled. For other functions the time of all calls, recursive ones included. (The time of
    /// other threads on the same processor is included.)
    pub fn busy(&self) -> u64 {
        self.scale.nanoseconds(self.sums.busy)
    }

    /// Returns the part of [`busy`](Self::busy) in the function itself, and in no other measured
    /// function.
    pub fn own(&self) -> u64 {
        self.scale.nanoseconds(self.sums.own)
    }

    /// Returns the parts of [`busy`](Self::busy). Recursive calls are in the outermost one. `None`
    /// unless the time is [split](super::Latency::cpu).
    #[cfg(feature = "perf")]
    pub fn split(&self) -> Option<Split> {
        self.sums.waits.as_ref().map(|waits| waits.split(self.sums.busy_once(), self.scale))
    }

    /// Returns the same of [`own`](Self::own).
    #[cfg(feature = "perf")]
    pub fn own_split(&self) -> Option<Split> {
        self.sums.waits.as_ref().map(|waits| waits.own_split(self.sums.own, self.scale))
    }

    /// Returns both; `None` unless the time is split.
    fn splits(&self) -> Option<[Split; 2]> {
        #[cfg(feature = "perf")]
        return self.split().zip(self.own_split()).map(|(all, own)| [all, own]);
        #[cfg(not(feature = "perf"))]
        None
    }

    /// Returns the mean time of a call, recursive ones included; 0 if none has ended.
    pub fn mean(&self) -> u64 {
        self.sum().checked_div(self.calls()).unwrap_or_default()
    }

    /// Returns the time of the shortest call; 0 if none has ended. It is exact, except in a
    /// [difference](Latencies::since), where it is exact only if it is shorter than all earlier
    /// calls. Otherwise it is a lower bound there, and the shortest call took at most 3.2 % more.
    pub fn min(&self) -> u64 {
        self.scale.nanoseconds(self.sums.shortest.ticks)
    }

    /// Returns the time of the longest call; 0 if none has ended. It is exact, except in a
    /// [difference](Latencies::since), where it is exact only if it is longer than all earlier
    /// calls. Otherwise it is an upper bound there, which tables show as `≤ 1.02 ms`, and the
    /// longest call took at most 3.2 % less.
    pub fn max(&self) -> u64 {
        self.scale.nanoseconds(self.sums.longest.ticks)
    }

    /// Returns the time within which this part of the calls ended (0.5: half of them). It is at
    /// most 1.7 % off.
    pub fn quantile(&self, part: f64) -> u64 {
        if self.calls() == 0 {
            0
        } else {
            self.histogram().value_at_quantile(part).clamp(self.min(), self.max())
        }
    }

    /// Returns a histogram of the calls' times from entry to exit, in nanoseconds: to analyse, to
    /// merge with others, or to store.
    pub fn histogram(&self) -> &Histogram<u64> {
        self.times.histogram()
    }

    /// Returns the buckets with calls: a time in nanoseconds, and the number of calls that took
    /// that long, within 1.6 %. Times ascend. [`histogram`](Self::histogram) is built from them at
    /// its first call.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.times.buckets
    }

    /// Returns the hits without a partner.
    pub fn unpaired(&self) -> Unpaired {
        self.unpaired
    }

    fn is_seen(&self) -> bool {
        self.calls() != 0 || self.sums.busy != 0 || self.unpaired != Unpaired::default()
    }
}

/// The measurements of all functions, from
/// [`Latency::latencies`](crate::Latency::latencies).
///
/// This is a list, with the function of the most time in itself first. It prints as a table of the
/// functions that were called.
///
/// ```
/// use probe_runtime::{Latency, probe, select};
///
/// #[probe]
/// fn store_row() {}
///
/// let latency = select("**::store_row")?.attach(Latency::new())?;
/// store_row();
/// let latencies = latency.latencies();
/// assert_eq!(latencies.len(), 1);
/// println!("{latencies}");            // a table
/// println!("{}", latencies.to_csv()); // the same for programs
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Latencies {
    functions: Vec<FunctionLatency>,
    left_out: Vec<LeftOut>,
    lost: u64,
    period: Period,
    shows_buckets: bool,
    #[cfg(feature = "perf")]
    pub(super) refused: Refused,
}

impl Latencies {
    /// Reads the functions with these probes, or all. `sums` adds up a function's memory of all
    /// threads; its flag says whether that is a future.
    pub(super) fn new<const N: usize, M: Meter<N>>(
        calls: &Calls<N, M>,
        only: Option<&[ProbeId]>,
        scale: Scale,
        shows_buckets: bool,
        sums: impl Fn(&mut dyn Iterator<Item = &M::Part>, bool) -> LatencySums,
    ) -> Self {
        let period = calls.period();
        let function = |number: usize| {
            let function = &calls.functions()[number];
            let sums = sums(&mut calls.parts(number), function.is_future());
            FunctionLatency::new(function.clone(), calls.unpaired(number), sums, scale)
        };
        let functions = match only {
            Some(probes) => calls.functions_with(probes).into_iter().map(function).collect(),
            None => (0..calls.functions().len()).map(function).collect(),
        };
        Self {
            functions,
            left_out: calls.left_out(),
            lost: calls.lost(),
            period,
            shows_buckets,
            #[cfg(feature = "perf")]
            refused: Refused::default(),
        }
        .sorted()
    }

    fn sorted(mut self) -> Self {
        crate::engine::order::sort_by(&mut self.functions, |a, b| {
            b.sums.own.cmp(&a.sums.own).then_with(|| a.path().cmp(b.path()))
        });
        self
    }

    /// Returns the measurements after an earlier reading of the same attachment: the calls that
    /// ended in between, their times and quantiles. Unlike [`reset`](crate::Latency::reset), this
    /// does not affect other readers of the attachment.
    ///
    /// Counts and sums are exact; quantiles are at most 1.6 % off, as always. The extremes of a
    /// part of all calls are not measured: [`min`](FunctionLatency::min) and
    /// [`max`](FunctionLatency::max) are bounds, unless they exceed all earlier calls.
    /// [`Unpaired::pending`] counts the futures that are pending now. Successive differences add up
    /// to the whole.
    ///
    /// No number is negative. A function that was added after the earlier reading has all its
    /// calls. If the earlier reading is of another attachment, or from before a reset, it is no
    /// part of this one, which is returned unchanged.
    ///
    /// ```
    /// use probe_runtime::{Latency, probe, select};
    ///
    /// #[probe]
    /// fn send() {}
    ///
    /// let latency = select("**::send")?.attach(Latency::new())?;
    /// send();
    /// let before = latency.latencies();
    /// send();
    /// send();
    /// let since = latency.latencies().since(&before);
    /// assert_eq!(since[0].calls(), 2);
    /// println!("{} ns at most in half of them", since[0].quantile(0.5));
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if !self.period.begins_with(earlier.period) {
            return self.clone();
        }
        let before: Sorted<_, _> = earlier.iter().map(|it| (Definition::from(it.function()), it)).collect();
        let function = |it: &FunctionLatency| match before.get(&it.function().into()) {
            Some(before) => it.since(before),
            None => it.clone(),
        };
        Self {
            functions: self.iter().map(function).collect(),
            left_out: self.left_out.clone(),
            lost: self.lost.saturating_sub(earlier.lost),
            period: self.period.after(earlier.period),
            shows_buckets: self.shows_buckets,
            #[cfg(feature = "perf")]
            refused: self.refused,
        }
        .sorted()
    }

    /// Returns the report as JSON: an object with the program, the time of measurement, and the
    /// functions as `rows`, which have the columns of [`to_csv`](Self::to_csv). It also has the
    /// paths of the functions that were `left_out`, and the number of calls that were `lost`.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns the functions as comma-separated values (RFC 4180): a line each, under a heading
    /// that names the units.
    pub fn to_csv(&self) -> String {
        if self.is_split() {
            let numbers = [COLUMNS.numbers, SPLIT_COLUMNS].concat();
            Columns { function: COLUMNS.function, numbers: &numbers }.csv(&self.functions)
        } else {
            COLUMNS.csv(&self.functions)
        }
    }

    fn is_split(&self) -> bool {
        self.functions.iter().any(|it| it.splits().is_some())
    }
}

const COLUMNS: FixedColumns<FunctionLatency, u64> = FixedColumns {
    function: FunctionLatency::function,
    numbers: &[
        ("calls", FunctionLatency::calls),
        ("total_ns", FunctionLatency::total),
        ("self_ns", FunctionLatency::own),
        ("busy_ns", FunctionLatency::busy),
        ("min_ns", FunctionLatency::min),
        ("mean_ns", FunctionLatency::mean),
        ("p50_ns", |it| it.quantile(0.5)),
        ("p90_ns", |it| it.quantile(0.9)),
        ("p99_ns", |it| it.quantile(0.99)),
        ("p999_ns", |it| it.quantile(0.999)),
        ("max_ns", FunctionLatency::max),
        ("without_entry", |it| it.unpaired.without_entry),
        ("without_exit", |it| it.unpaired.without_exit),
        ("cancelled", |it| it.unpaired.cancelled),
        ("pending", |it| it.unpaired.pending),
        ("polls", FunctionLatency::polls),
    ],
};

type Column = (&'static str, fn(&FunctionLatency) -> u64);

/// Further columns if the time is split.
const SPLIT_COLUMNS: &[Column] = &[
    ("cpu_ns", |it| it.splits().unwrap_or_default()[0].cpu),
    ("blocked_ns", |it| it.splits().unwrap_or_default()[0].blocked),
    ("ready_ns", |it| it.splits().unwrap_or_default()[0].ready),
    ("unknown_ns", |it| it.splits().unwrap_or_default()[0].unknown),
    ("self_cpu_ns", |it| it.splits().unwrap_or_default()[1].cpu),
    ("self_blocked_ns", |it| it.splits().unwrap_or_default()[1].blocked),
    ("self_ready_ns", |it| it.splits().unwrap_or_default()[1].ready),
    ("self_unknown_ns", |it| it.splits().unwrap_or_default()[1].unknown),
];

impl FunctionLatency {
    pub(crate) fn row(&self) -> Row<'_> {
        let split = SPLIT_COLUMNS.iter().filter(|_| self.splits().is_some());
        split.fold(COLUMNS.row(self), |row, (name, number)| row.with(*name, number(self)))
    }

    /// Returns the buckets with calls: the number of each, which is the same in all readings of an
    /// attachment, its time in nanoseconds, and its calls.
    pub(crate) fn numbered_buckets(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        self.sums
            .buckets
            .iter()
            .zip(self.buckets())
            .map(|((bucket, calls), (time, _))| (*bucket, *time, *calls))
    }

    fn row_with_buckets(&self) -> Row<'_> {
        let bucket = |(bucket, time, calls)| {
            Row::new().with("bucket", bucket as u64).with("time_ns", time).with("calls", calls)
        };
        // Of all calls in the buckets: with those inside of each other, which `total_ns` lacks.
        let row = self.row().with("sum_ns", self.sum());
        row.with("buckets", self.numbered_buckets().map(bucket).collect::<Cell<'_>>())
    }
}

impl ReportSource for Latencies {
    fn head(&self) -> Row<'static> {
        head("latency", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.iter().map(|it| if self.shows_buckets { it.row_with_buckets() } else { it.row() }))
    }

    fn rest(&self) -> Row<'_> {
        Row::new().with("left_out", left_out(&self.left_out)).with("lost", self.lost)
    }

    fn body(&self) -> Body<'_> {
        let seen = || self.functions.iter().filter(|it| it.is_seen());
        // Columns that are empty for all functions are left out.
        let has_futures = seen().any(|it| it.function.is_future());
        let has_unpaired = seen().any(|it| it.unpaired.total() != 0);
        let is_split = self.is_split();
        let has_unknown = seen().filter_map(FunctionLatency::splits).any(|[all, _]| all.unknown != 0);
        let mut heading = if is_split {
            vec!["function", "calls", "self", "self cpu", "total", "cpu", "blocked", "ready"]
        } else {
            vec!["function", "calls", "self", "total"]
        };
        if has_unknown {
            heading.push("unknown");
        }
        heading.extend(["mean", "p50", "p99", "max"]);
        if has_futures {
            heading.extend(["polls", "elapsed", "cancelled", "pending"]);
        }
        if has_unpaired {
            heading.push("unpaired");
        }
        let mut table = Table::new(heading);
        for it in seen() {
            let of_calls = |time: u64| (it.calls() != 0).then_some(Time(time));
            let of_futures = |number: u64| it.function.is_future().then_some(number);
            let [all, own] = it.splits().unwrap_or_default();
            table.push(Definition::from(it.function())).push(it.calls()).push(Time(it.own()));
            if is_split {
                table.push(Time(own.cpu));
            }
            // As in a tree of calls: without the waits between a future's polls.
            let total = if it.function.is_future() { Some(Time(it.busy())) } else { of_calls(it.total()) };
            table.push(total);
            if is_split {
                table.push(Time(all.cpu)).push(Time(all.blocked)).push(Time(all.ready));
            }
            if has_unknown {
                table.push(Time(all.unknown));
            }
            for time in [it.mean(), it.quantile(0.5), it.quantile(0.99)] {
                table.push(of_calls(time));
            }
            if it.sums.longest.is_bound {
                table.push(TableCell::bounded(Bound::AtMost, Time(it.max())));
            } else {
                table.push(of_calls(it.max()));
            }
            if has_futures {
                table.push(of_futures(it.polls()));
                table.push(of_calls(it.total()).filter(|_| it.function.is_future()));
                table.push(of_futures(it.unpaired.cancelled)).push(of_futures(it.unpaired.pending));
            }
            if has_unpaired {
                table.push(it.unpaired.total());
            }
        }
        Body::Table(table)
    }

    #[cfg(feature = "perf")]
    fn notes(&self) -> Vec<String> {
        self.refused.note().into_iter().chain(ReportSource::missing(self)).collect()
    }

    fn missing(&self) -> Vec<String> {
        missing(self.lost, &self.left_out)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

shown!(Latencies);

functions!(
    Latencies,
    FunctionLatency,
    "measured",
    "calls that were not measured, see [`Calls::lost`](crate::engine::calls::Calls::lost)"
);

/// Significant digits of the returned histograms: far finer than the buckets.
const DIGITS: u8 = 3;

/// The calls of a function by their time in nanoseconds: the buckets with calls, and on request an
/// `hdrhistogram` of them, which is a thousand times as large.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    /// The middle of each bucket with calls, ascending, and the number of its calls.
    buckets: Vec<(u64, u64)>,
    calls: u64,
    histogram: OnceLock<Histogram<u64>>,
}

impl Distribution {
    pub(super) fn new(buckets: Vec<(u64, u64)>) -> Self {
        let calls = buckets.iter().map(|(_, calls)| calls).sum();
        Self { buckets, calls, histogram: OnceLock::new() }
    }

    fn histogram(&self) -> &Histogram<u64> {
        self.histogram.get_or_init(|| {
            let mut histogram = Histogram::new(DIGITS).expect("as many digits as there can be");
            for (time, calls) in &self.buckets {
                histogram.record_n(*time, *calls).expect("it grows");
            }
            histogram
        })
    }
}

/// Whether the histogram has been built makes no difference.
impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.buckets == other.buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn building_the_histogram_changes_nothing() {
        let (asked, other) =
            (Distribution::new(vec![(7, 2), (90, 1)]), Distribution::new(vec![(7, 2), (90, 1)]));
        let histogram = asked.histogram();
        assert_eq!((histogram.len(), histogram.count_at(7), histogram.max()), (3, 2, 90));
        assert_eq!((asked.calls, &asked.buckets), (3, &other.buckets));
        assert_eq!(asked, other);
        assert_ne!(asked, Distribution::new(vec![(7, 3)]));
    }
}
