//! The functions of a program, and the neighbours of one, by the last reports.
//!
//! A rate is the difference of two counts by that of two times, which the reports have themselves,
//! about a second apart. A report may be of some functions only. The others keep their numbers, and
//! their next rates are of a longer time.

use std::collections::{BTreeMap, VecDeque};

use probe_report::{Document, Row};

use super::figure::{Certainty, Figure};

/// The least time in seconds between the two reports of a rate.
const MIN_RATE_SPAN: f64 = 0.9;

/// A function in reports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Key {
    path: String,
    file: String,
    line: u32,
}

impl Key {
    fn of(row: &Row<'_>) -> Option<Self> {
        let line = row.whole("line").and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
        let file = row.text("file").unwrap_or_default().to_owned();
        Some(Self { path: row.text("function")?.to_owned(), file, line })
    }
}

/// The cost of profiling, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Cost {
    /// In hits.
    hits: f64,
    /// Of the profiler's thread.
    own: f64,
    /// CPU time of the program.
    used: f64,
    elapsed: f64,
}

impl Cost {
    fn of(row: &Row<'_>) -> Self {
        let number = |name| row.number(name).unwrap_or_default();
        Self {
            hits: number("hits_ns"),
            own: number("own_ns"),
            used: number("used_ns"),
            elapsed: number("elapsed_ns"),
        }
    }

    /// Combines the numbers of two costs.
    fn with(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            hits: combine(self.hits, other.hits),
            own: combine(self.own, other.own),
            used: combine(self.used, other.used),
            elapsed: combine(self.elapsed, other.elapsed),
        }
    }
}

/// Returns the seconds that a report covers.
fn duration(report: &Document<'_>) -> f64 {
    report.head.number("duration").unwrap_or_default()
}

/// The program itself.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Program {
    /// The name of its file, and its process.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// The version of its runtime.
    pub runtime: String,
    /// Its threads; 0 if that is not known.
    pub threads: u32,
    /// Hits that reached no consumer.
    pub lost_hits: u64,
}

/// One function.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Function {
    /// The number of the probe at its entry, if it was listed.
    pub probe: Option<u32>,
    /// Its path.
    pub path: String,
    /// Its source file.
    pub file: String,
    /// Its source line.
    pub line: u32,
    /// Its group.
    pub group: Option<String>,
    /// Whether each of its calls is measured.
    pub is_measured: bool,
    /// Calls per second.
    pub rate: Option<Figure>,
    /// Calls since the attachment.
    pub calls: Option<Figure>,
    /// The wall time in the function itself, of all threads together, per time that passed.
    pub own: Option<Figure>,
    /// The most likely rate, and share of the CPU time, even if little is known. Rows are sorted by
    /// these where `rate` is a lower bound, and where `own` is not known.
    pub likely_rate: Option<f64>,
    pub share: Option<f64>,
    /// Nanoseconds of all calls.
    pub total: Option<Figure>,
    /// Nanoseconds of a call.
    pub mean: Option<Figure>,
    /// Nanoseconds in which half of the calls end.
    pub p50: Option<Figure>,
    /// Nanoseconds in which 99 of 100 calls end.
    pub p99: Option<Figure>,
    /// Nanoseconds of the longest call.
    pub max: Option<Figure>,
}

/// A function's numbers in a report, for differences.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Seconds of measurement.
    at: f64,
    calls: f64,
    likely: f64,
    own: Option<f64>,
}

/// The reports of one consumer in about the last second, by function.
#[derive(Default, Debug)]
struct History(BTreeMap<Key, VecDeque<Sample>>);

impl History {
    /// Adds a report on a function. Returns the changes per second of its calls, of its own time,
    /// and of its likely calls; `None` before there are two reports.
    fn push(&mut self, key: &Key, now: Sample) -> [Option<f64>; 3] {
        // So a key is copied once only.
        if !self.0.contains_key(key) {
            self.0.insert(key.clone(), VecDeque::new());
        }
        let Some(samples) = self.0.get_mut(key) else { return [None; 3] };
        samples.push_back(now);
        while samples.len() > 2 && samples.get(1).is_some_and(|it| now.at - it.at >= MIN_RATE_SPAN) {
            samples.pop_front();
        }
        let Some(before) = samples.front() else { return [None; 3] };
        let passed = now.at - before.at;
        // Estimates may be corrected downwards.
        let change = |before: f64, now: f64| (passed > 0.0).then(|| ((now - before) / passed).max(0.0));
        let own = before.own.zip(now.own).and_then(|(before, now)| change(before, now));
        [change(before.calls, now.calls), own, change(before.likely, now.likely)]
    }
}

/// All functions of the selector.
#[derive(Default, Debug)]
pub struct Functions {
    known: BTreeMap<Key, Function>,
    estimates: History,
    measurements: History,
    /// The profiler's cost at the last report of all functions, and in the seconds before it.
    cost: Option<Cost>,
    recent: Option<Cost>,
    /// Calls that were not measured.
    pub lost: u64,
}

impl Functions {
    /// Adds a function from a list.
    pub fn add(&mut self, probe: u32, path: &str, file: &str, line: u32, group: Option<&str>) {
        let key = Key { path: path.to_owned(), file: file.to_owned(), line };
        // A report may have added it already.
        let function = self.of(&key);
        (function.probe, function.group) = (Some(probe), group.map(str::to_owned));
    }

    /// Forgets all numbers, and the reports of the attachment that estimated, since a rate needs
    /// two reports of one attachment.
    pub fn forget_estimates(&mut self) {
        self.forget();
        (self.estimates, self.cost, self.recent) = (History::default(), None, None);
    }

    /// Forgets all numbers, and the reports of the attachment that measured.
    pub fn forget_measurements(&mut self) {
        self.forget();
        self.measurements = History::default();
    }

    fn forget(&mut self) {
        for function in self.known.values_mut() {
            let known = std::mem::take(function);
            *function = Function {
                probe: known.probe,
                path: known.path,
                file: known.file,
                line: known.line,
                group: known.group,
                ..Function::default()
            };
        }
    }

    /// Takes estimates of all functions, or of some, from a report of `profile`. The profiler's
    /// cost is complete in a report of all.
    pub fn estimate(&mut self, report: &Document<'_>, is_all: bool) {
        self.note_lost(report);
        let at = duration(report);
        for row in &report.rows {
            let (Some(key), Some(known_calls)) = (Key::of(row), row.number("calls")) else { continue };
            let figure = |value, error| row.number(value).map(|it| Figure::estimated(it, row.number(error)));
            let calls = Figure::estimated(known_calls, row.number("calls_error"));
            let likely = row.number("calls_per_second_likely").map_or(known_calls, |it| it * at);
            let now = Sample { at, calls: known_calls, likely, own: row.number("self_ns") };
            let [rate, own, likely_rate] = self.estimates.push(&key, now);
            // A difference of estimates is an estimate, too.
            let own = own.map(|own| Figure { value: own / 1e9, certainty: Certainty::Near });
            let function = self.of(&key);
            function.calls = Some(calls);
            function.rate = rate.map(|rate| calls.with(rate));
            function.own = own;
            (function.likely_rate, function.share) = (likely_rate, row.number("cpu_share"));
            function.mean = figure("mean_ns", "mean_error_ns");
            function.total = figure("total_ns", "total_error_ns");
        }
        if let Some(cost) = report.rest.rows("cost").first().map(Cost::of).filter(|_| is_all) {
            let before = self.cost.replace(cost).filter(|it| it.elapsed < cost.elapsed);
            let last = cost.with(before.unwrap_or_default(), |now, before| now - before);
            // A cost counts the less, the older it is.
            self.recent = Some(last.with(self.recent.unwrap_or_default(), |now, before| 0.8 * before + now));
        }
    }

    /// Takes measurements from a report of `latency`. If all functions are measured, their own
    /// times are known.
    pub fn measure(&mut self, report: &Document<'_>, is_all: bool) {
        self.note_lost(report);
        let at = duration(report);
        for row in &report.rows {
            let number = |name| row.number(name).unwrap_or_default();
            let Some(key) = Key::of(row) else { continue };
            let calls = number("calls");
            let now = Sample { at, calls, likely: calls, own: Some(number("self_ns")) };
            let [rate, own, _] = self.measurements.push(&key, now);
            let of_calls = |name| (calls > 0.0).then(|| Figure::exact(number(name)));
            let function = self.of(&key);
            function.is_measured = true;
            function.calls = Some(Figure::exact(calls));
            function.total = Some(Figure::exact(number("total_ns")));
            (function.rate, function.likely_rate) = (rate.map(Figure::exact), rate);
            [function.mean, function.max] = ["mean_ns", "max_ns"].map(of_calls);
            // The buckets of the histogram are at most 1.7 % off.
            [function.p50, function.p99] = ["p50_ns", "p99_ns"].map(of_calls);
            if is_all {
                function.own = own.map(|own| Figure::exact(own / 1e9));
            }
        }
    }

    fn note_lost(&mut self, report: &Document<'_>) {
        self.lost = self.lost.max(report.rest.whole("lost").unwrap_or(0));
    }

    fn of(&mut self, key: &Key) -> &mut Function {
        self.known.entry(key.clone()).or_insert_with(|| Function {
            path: key.path.clone(),
            file: key.file.clone(),
            line: key.line,
            ..Function::default()
        })
    }

    /// Returns the functions, in the order of their paths.
    pub fn list(&self) -> Vec<Function> {
        self.known.values().cloned().collect()
    }

    /// Returns the share of the program's CPU time that profiling took lately; `None` without a
    /// profiler.
    pub fn cost(&self) -> Option<f64> {
        self.recent.filter(|it| it.used > 0.0).map(|it| (it.hits + it.own) / it.used)
    }

    /// Returns the number of processors that the program kept busy lately.
    pub fn busy(&self) -> Option<f64> {
        self.recent.filter(|it| it.elapsed > 0.0).map(|it| it.used / it.elapsed)
    }
}

/// The calls from one function to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Edge {
    /// The other function; `None` if no probed function is around the call.
    pub path: Option<String>,
    /// Calls since the page was opened.
    pub calls: f64,
    /// Nanoseconds of these calls.
    pub total: f64,
}

/// The neighbours of a function.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Callers {
    /// The function.
    pub path: String,
    /// Seconds since the page was opened.
    pub seconds: f64,
    /// Its callers, those with most calls first.
    pub around: Vec<Edge>,
    /// The functions that it calls, those with most time first.
    pub called: Vec<Edge>,
}

impl Callers {
    /// Reads the neighbours from a report of `call-tree`.
    pub fn new(path: &str, report: &Document<'_>) -> Self {
        let parent = |node: &Row<'_>| node.whole("parent").and_then(|at| usize::try_from(at).ok());
        let name = |at: usize| report.rows.get(at).and_then(|it| it.text("function")).map(str::to_owned);
        let (mut above, mut below) = (BTreeMap::new(), BTreeMap::new());
        let add = |to: &mut BTreeMap<Option<String>, (f64, f64)>, key, node: &Row<'_>| {
            let number = |name| node.number(name).unwrap_or_default();
            let sums = to.entry(key).or_default();
            *sums = (sums.0 + number("calls"), sums.1 + number("total_ns"));
        };
        for node in report.rows.iter().filter(|it| it.text("thread").is_none()) {
            let (caller, function) = (parent(node).and_then(name), node.text("function"));
            if function == Some(path) {
                add(&mut above, caller.clone(), node);
            }
            if caller.as_deref() == Some(path) {
                add(&mut below, function.map(str::to_owned), node);
            }
        }
        let edges = |of: BTreeMap<_, _>| -> Vec<Edge> {
            of.into_iter().map(|(path, (calls, total))| Edge { path, calls, total }).collect()
        };
        let [mut around, mut called] = [above, below].map(edges);
        around.sort_by(|a, b| b.calls.total_cmp(&a.calls));
        called.sort_by(|a, b| b.total.total_cmp(&a.total));
        Self { path: path.to_owned(), seconds: duration(report), around, called }
    }
}
