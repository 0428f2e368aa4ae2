//! What has been measured, as it was when asked.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use hdrhistogram::Histogram;

use super::super::report::{
    FixedColumns, Row, Table, Time, Written, document, json, left_out, list, missing,
};
use super::buckets::{BUCKETS, values};
use super::distribution::Distribution;
use super::{Latency, Times};
use crate::calls::{Calls, Function, LeftOut, Unpaired};
use crate::clock::Scale;
use crate::period::Period;

/// What was measured of one function. Times are in nanoseconds.
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
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionLatency {
    function: Function,
    times: Distribution,
    total: u64,
    busy: u64,
    own: u64,
    polls: u64,
    min: u64,
    max: u64,
    unpaired: Unpaired,
}

impl FunctionLatency {
    fn new(function: Function, unpaired: Unpaired, sums: &Sums, scale: Scale) -> Self {
        let is_called = sums.buckets.iter().any(|calls| *calls != 0);
        let (min, max) = if is_called { (sums.shortest, sums.longest) } else { (0, 0) };
        let (min, max) = (scale.nanoseconds(min), scale.nanoseconds(max));
        Self {
            function,
            times: sums.times(scale, min, max),
            total: scale.nanoseconds(sums.total),
            busy: scale.nanoseconds(sums.busy),
            own: scale.nanoseconds(sums.own),
            polls: sums.polls,
            min,
            max,
            unpaired,
        }
    }

    /// The function's path.
    pub fn path(&self) -> &str {
        self.function.path()
    }

    /// Path, file and line of the function, and whether it is a future.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Calls that have ended; of futures, those that were not cancelled.
    pub fn calls(&self) -> u64 {
        self.times.calls()
    }

    /// Of a future: its polls that have ended, also of calls that have not. 0 of other functions.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// All of them together, from entry to exit. Calls of the function inside of itself count twice.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The time in a thread's hands: of futures, all their polls, also of those that have not ended or were cancelled; else
    /// [`total`](Self::total). (What the system gave to other threads meanwhile is in it.)
    pub fn busy(&self) -> u64 {
        self.busy
    }

    /// The part of [`busy`](Self::busy) in the function itself: in no other that is measured.
    pub fn own(&self) -> u64 {
        self.own
    }

    /// The mean of a call; 0 where none has ended.
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.calls()).unwrap_or_default()
    }

    /// The shortest call, exactly; 0 where none has ended.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The longest call, exactly; 0 where none has ended.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// What no more than this part of the calls (0.5: half of them) took longer than, at most 1.7 % off.
    pub fn quantile(&self, part: f64) -> u64 {
        if self.calls() == 0 { 0 } else { self.histogram().value_at_quantile(part).clamp(self.min, self.max) }
    }

    /// The calls by their time, from entry to exit, in nanoseconds: to look at more closely, to merge with others, to store.
    pub fn histogram(&self) -> &Histogram<u64> {
        self.times.histogram()
    }

    /// The same as it was counted: a time in nanoseconds, and how many calls took that, at most 1.6 % more or less. Times ascend; each bucket
    /// has calls. [`histogram`](Self::histogram) is made of them, when it is first asked for.
    pub fn buckets(&self) -> &[(u64, u64)] {
        self.times.buckets()
    }

    /// Hits that found no partner.
    pub fn unpaired(&self) -> Unpaired {
        self.unpaired
    }

    fn is_seen(&self) -> bool {
        self.calls() != 0 || self.busy != 0 || self.unpaired != Unpaired::default()
    }
}

/// What was measured of all functions, from [`Latency::latencies`]; the function with the most time in itself first. A list of them; prints
/// as a table of those that were called.
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
}

impl Latencies {
    pub(super) fn new(calls: &Calls<1, Latency>, scale: Scale) -> Self {
        let period = calls.period();
        let function = |(number, function): (usize, &Function)| {
            let mut sums = Sums::default();
            calls.parts(number).for_each(|times| sums.add(times, function.is_future()));
            FunctionLatency::new(function.clone(), calls.unpaired(number), &sums, scale)
        };
        let mut functions: Vec<_> = calls.functions().iter().enumerate().map(function).collect();
        crate::order::sort_by(&mut functions, |a, b| b.own.cmp(&a.own).then_with(|| a.path().cmp(b.path())));
        Self { functions, left_out: calls.left_out().to_vec(), lost: calls.lost(), period }
    }

    /// The function with this path.
    pub fn function(&self, path: &str) -> Option<&FunctionLatency> {
        self.functions.iter().find(|function| function.path() == path)
    }

    /// Functions whose calls are not measured, because not all of their probes were selected.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Calls that were not measured, see [`Calls::lost`].
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// All of it as JSON: an object that says which program this is, and when it was measured, with the functions as its `rows`, which
    /// have the columns of [`to_csv`](Self::to_csv), the paths of those that were `left_out`, and how many calls were `lost`.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// The functions as comma-separated values (RFC 4180), a line each under a heading that says the units.
    pub fn to_csv(&self) -> String {
        COLUMNS.csv(&self.functions)
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

impl FunctionLatency {
    pub(crate) fn row(&self) -> Row<'_> {
        COLUMNS.row(self)
    }
}

impl Written for Latencies {
    fn head(&self) -> Row<'static> {
        document("latency", self.period)
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.iter().map(|it| it.row())
    }

    fn rest(&self) -> Row<'_> {
        Row::new().with("left_out", left_out(&self.left_out)).with("lost", self.lost)
    }
}

list!(Latencies, functions, FunctionLatency, "functions");

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = || self.functions.iter().filter(|it| it.is_seen());
        // Columns for what there is none of would only hide the others.
        let has_futures = seen().any(|it| it.function.is_future());
        let has_unpaired = seen().any(|it| it.unpaired.total() != 0);
        let futures: &[&str] = if has_futures { &["polls", "busy", "cancelled", "pending"] } else { &[] };
        let unpaired: &[&str] = if has_unpaired { &["unpaired"] } else { &[] };
        let heading = ["function", "calls", "self", "total", "mean", "p50", "p99", "max"];
        let mut table = Table::new(heading.iter().chain(futures).chain(unpaired).copied());
        for it in seen() {
            let of_calls = |time: u64| if it.calls() == 0 { "-".to_owned() } else { Time(time).to_string() };
            let of_futures = |number: String| if it.function.is_future() { number } else { "-".to_owned() };
            let mut row = vec![it.path().to_owned(), it.calls().to_string(), Time(it.own).to_string()];
            row.extend([it.total, it.mean(), it.quantile(0.5), it.quantile(0.99), it.max].map(of_calls));
            if has_futures {
                let numbers = [it.unpaired.cancelled, it.unpaired.pending].map(|number| number.to_string());
                row.push(of_futures(it.polls.to_string()));
                row.push(of_futures(Time(it.busy).to_string()));
                row.extend(numbers.map(of_futures));
            }
            if has_unpaired {
                row.push(it.unpaired.total().to_string());
            }
            table.row(row);
        }
        write!(f, "{table}")?;
        missing(self.lost, &self.left_out, f)
    }
}

/// What all threads have measured of a function, in ticks.
struct Sums {
    total: u64,
    busy: u64,
    own: u64,
    polls: u64,
    longest: u64,
    shortest: u64,
    buckets: Box<[u64; BUCKETS]>,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            total: 0,
            busy: 0,
            own: 0,
            polls: 0,
            longest: 0,
            shortest: u64::MAX,
            buckets: Box::new([0; BUCKETS]),
        }
    }
}

impl Sums {
    fn add(&mut self, times: &Times, is_future: bool) {
        // Where no call has ended, there is no shortest: the buckets need not be read, which are three pages.
        if times.shortest.load(Relaxed) != 0 {
            times.buckets.add_to(&mut self.buckets);
        }
        self.total += if is_future { times.total.load(Relaxed) } else { times.busy.load(Relaxed) };
        self.busy += times.busy.load(Relaxed);
        self.own += times.own.load(Relaxed);
        self.polls += times.polls.load(Relaxed);
        self.longest = self.longest.max(times.longest.load(Relaxed));
        self.shortest = self.shortest.min(!times.shortest.load(Relaxed));
    }

    /// In nanoseconds: each bucket at its middle, and none outside of what was measured.
    fn times(&self, scale: Scale, min: u64, max: u64) -> Distribution {
        let counts = self.buckets.iter().enumerate().filter(|(_, count)| **count != 0);
        let middle = |(bucket, count): (usize, &u64)| {
            let values = values(bucket);
            let middle = scale.nanoseconds(values.start() + (values.end() - values.start()) / 2);
            (middle.clamp(min, max.max(min)), *count)
        };
        Distribution::new(counts.map(middle).collect())
    }
}
