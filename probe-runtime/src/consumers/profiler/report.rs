//! What is known, as it was when asked.

use std::fmt;
use std::time::Duration;

use super::super::report::{
    Cell, FixedColumns, Row, Table, Time, Written, document, json, left_out, list, missing,
};
use super::budget::Budget;
use super::daemon::Core;
use super::estimate::{Estimate, Estimated};
use super::sampler::Seen;
use super::schedule::Cost;
use crate::calls::{Function, LeftOut};
use crate::period::Period;

/// What is known of one function. Times are in nanoseconds.
///
/// ```
/// use probe_runtime::{Profiler, probe, select};
///
/// #[probe]
/// fn compress() {}
///
/// let profiler = select("**::compress")?.attach(Profiler::new())?;
/// compress();
/// let profile = profiler.profile();
/// for function in &profile {
///     println!("{}: {:.0} calls", function.path(), function.calls().value);
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionProfile {
    function: Function,
    calls: Estimated,
    polls: Option<Estimated>,
    rate: f64,
    mean: Option<Estimated>,
    total: Option<Estimated>,
    counted: u64,
    samples: u64,
    min: u64,
    max: u64,
    latent: f64,
    is_armed: bool,
    rearmed: u64,
}

impl FunctionProfile {
    /// The function's path.
    pub fn path(&self) -> &str {
        self.function.path()
    }

    /// Path, file and line of the function, and whether it is a future.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Calls that began since it was attached; a future's call is all of its polls.
    pub fn calls(&self) -> Estimated {
        self.calls
    }

    /// Polls that began since it was attached; `None` of what is no future.
    pub fn polls(&self) -> Option<Estimated> {
        self.polls
    }

    /// Calls a second, since it was attached.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// A call, from entry to exit; of a future, its polls without the waits between them. `None` where none was timed.
    pub fn mean(&self) -> Option<Estimated> {
        self.mean
    }

    /// All calls; `None` where none was timed.
    pub fn total(&self) -> Option<Estimated> {
        self.total
    }

    /// Calls, and of a future polls, that were counted one by one.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Calls, and of a future polls, that were timed.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The shortest call, or poll, that was timed; 0 where none was.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The longest call, or poll, that was timed; 0 where none was.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The part of the time that its sites were latent, from 0 to 1.
    pub fn latent(&self) -> f64 {
        self.latent
    }

    /// Whether its sites are active now.
    pub fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// How often it was armed again.
    pub fn rearmed(&self) -> u64 {
        self.rearmed
    }

    fn total_value(&self) -> f64 {
        self.total.map_or(0.0, |total| total.value)
    }
}

/// What profiling has cost so far.
///
/// ```
/// use probe_runtime::{Profiler, probe, select};
///
/// #[probe]
/// fn encrypt() {}
///
/// let profiler = select("**::encrypt")?.attach(Profiler::new())?;
/// encrypt();
/// let profile = profiler.profile();
/// println!("{:.2} % of the CPU time", 100.0 * profile.cost().share());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ProfileCost {
    /// Hits: as many as there were, of what one takes on this machine, as it is rehearsed now and then.
    pub hits: Duration,
    /// Looking, switching, waking up and going to sleep: as measured.
    pub own: Duration,
    /// Of that, switching.
    pub switching: Duration,
    /// What the process has used on processors meanwhile, with all that.
    pub used: Duration,
    /// How long that was by the clock.
    pub elapsed: Duration,
    /// Calls that were timed or counted.
    pub calls: u64,
    /// Functions that were switched on or off.
    pub toggles: u64,
}

impl ProfileCost {
    /// The part of the process's time on processors, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.used.is_zero() { 0.0 } else { (self.hits + self.own).as_secs_f64() / self.used.as_secs_f64() }
    }
}

/// What is known of all functions, from [`Profiler::profile`](super::Profiler::profile); the function with the most time first. A
/// list; prints as a table of those that were called, with what it has cost.
///
/// ```
/// use probe_runtime::{Profiler, probe, select};
///
/// #[probe]
/// fn encode() {}
///
/// let profiler = select("**::encode")?.attach(Profiler::new())?;
/// encode();
/// let profile = profiler.profile();
/// println!("{profile}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Profile {
    functions: Vec<FunctionProfile>,
    left_out: Vec<LeftOut>,
    lost: u64,
    refused: usize,
    has_given_up: bool,
    cost: ProfileCost,
    budget: Option<Budget>,
    period: Period,
}

impl Profile {
    pub(super) fn new(core: &Core, budget: Budget) -> Self {
        let scale = core.time.nanoseconds_per_tick();
        let (Some(sampler), Some(running)) = (core.sampler.get(), core.running()) else {
            return Self::default();
        };
        let Some(running) = running.as_ref() else { return Self::default() };
        let schedule = &running.schedule;
        let elapsed = nanoseconds(core.elapsed(running), scale);
        let estimates = core.estimates(sampler, running);
        let function = |(number, function): (usize, &Function)| {
            let (estimate, seen) = &estimates[number];
            let mut profile = FunctionProfile::new(function, estimate, seen, scale, elapsed);
            if seen.ended != 0 {
                profile.min = whole(nanoseconds(seen.shortest, scale));
                profile.max = whole(nanoseconds(seen.longest, scale));
            }
            profile.is_armed = schedule.is_armed(number);
            profile.rearmed = schedule.courses[number].rearmed;
            profile
        };
        let mut functions: Vec<_> = sampler.functions().iter().enumerate().map(function).collect();
        crate::order::sort_by(&mut functions, |a, b| {
            b.total_value().total_cmp(&a.total_value()).then_with(|| a.path().cmp(b.path()))
        });
        Self {
            functions,
            left_out: sampler.left_out().to_vec(),
            lost: sampler.lost(),
            refused: running.refused,
            has_given_up: running.has_given_up,
            cost: ProfileCost::new(&schedule.cost, scale, elapsed),
            budget: Some(budget),
            period: sampler.period(),
        }
    }

    /// The function with this path.
    pub fn function(&self, path: &str) -> Option<&FunctionProfile> {
        self.functions.iter().find(|function| function.path() == path)
    }

    /// Functions whose calls are not sampled, because not all of their probes were selected.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Hits that were not counted, for want of memory.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Sites that could not be switched, when any were last: the text may be sealed, say.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// When it was measured.
    #[cfg(feature = "perf")]
    pub(in crate::consumers) fn period(&self) -> Period {
        self.period
    }

    /// What profiling has cost so far.
    pub fn cost(&self) -> ProfileCost {
        self.cost
    }

    /// All of it as JSON: an object that says which program this is, and when it was measured, with the functions as its `rows`, the columns of [`to_csv`](Self::to_csv) each (`null` where nothing was timed), the
    /// `cost`, the paths of those that were `left_out`, how many hits were `lost`, and how many sites were `refused`.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// The functions as comma-separated values (RFC 4180), a line each under a heading that says the units. Errors are two standard
    /// errors; a cell is empty where nothing was timed.
    pub fn to_csv(&self) -> String {
        COLUMNS.csv(&self.functions)
    }
}

const COLUMNS: FixedColumns<FunctionProfile, Cell<'static>> = FixedColumns {
    function: FunctionProfile::function,
    numbers: &[
        ("calls", |it| it.calls.value.into()),
        ("calls_error", |it| it.calls.error.into()),
        ("calls_per_second", |it| it.rate.into()),
        ("mean_ns", |it| it.mean.map(|mean| mean.value).into()),
        ("mean_error_ns", |it| it.mean.map(|mean| mean.error).into()),
        ("total_ns", |it| it.total.map(|total| total.value).into()),
        ("total_error_ns", |it| it.total.map(|total| total.error).into()),
        ("counted", |it| it.counted.into()),
        ("samples", |it| it.samples.into()),
        ("min_ns", |it| (it.samples != 0).then_some(it.min).into()),
        ("max_ns", |it| (it.samples != 0).then_some(it.max).into()),
        ("latent", |it| it.latent.into()),
        ("rearmed", |it| it.rearmed.into()),
        ("polls", |it| it.polls.map(|polls| polls.value).into()),
        ("polls_error", |it| it.polls.map(|polls| polls.error).into()),
    ],
};

impl FunctionProfile {
    pub(crate) fn row(&self) -> Row<'_> {
        COLUMNS.row(self)
    }
}

impl Written for Profile {
    fn head(&self) -> Row<'static> {
        document("profile", self.period)
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.iter().map(|it| it.row())
    }

    fn rest(&self) -> Row<'_> {
        Row::new()
            .with("cost", self.cost.row())
            .with("left_out", left_out(&self.left_out))
            .with("lost", self.lost)
            .with("refused", self.refused)
    }
}

impl ProfileCost {
    pub(crate) fn row(&self) -> Row<'static> {
        Row::new()
            .with("hits_ns", in_nanoseconds(self.hits))
            .with("own_ns", in_nanoseconds(self.own))
            .with("switching_ns", in_nanoseconds(self.switching))
            .with("used_ns", in_nanoseconds(self.used))
            .with("elapsed_ns", in_nanoseconds(self.elapsed))
            .with("calls", self.calls)
            .with("toggles", self.toggles)
    }
}

impl FunctionProfile {
    fn new(function: &Function, estimate: &Estimate, seen: &Seen, scale: f64, elapsed: f64) -> Self {
        let times =
            |it: Estimated, factor: f64| Estimated { value: it.value * factor, error: it.error * factor };
        // What is estimated begins at an entry, or is a poll of a future: as many of its polls are the first of a call as were seen to be.
        let (polls, first) = (estimate.calls(), seen.first_polls());
        let calls = times(polls, first);
        let mean = estimate.mean(scale).filter(|_| first > 0.0);
        let all = estimate.armed + estimate.latent;
        Self {
            function: function.clone(),
            calls,
            polls: function.is_future().then_some(polls),
            rate: if elapsed > 0.0 { calls.value * 1e9 / elapsed } else { 0.0 },
            mean: mean.map(|it| times(it, scale / first)),
            total: estimate.total(scale).map(|it| times(it, scale)),
            counted: whole(estimate.counted),
            samples: whole(estimate.timed),
            min: 0,
            max: 0,
            latent: if all > 0.0 { estimate.latent / all } else { 0.0 },
            is_armed: true,
            rearmed: 0,
        }
    }
}

impl ProfileCost {
    fn new(cost: &Cost, scale: f64, elapsed: f64) -> Self {
        let time = |ticks: f64| Duration::from_nanos(whole(ticks * scale));
        Self {
            hits: time(cost.hits),
            own: time(cost.own),
            switching: time(cost.switching),
            used: time(cost.used),
            elapsed: Duration::from_nanos(whole(elapsed)),
            calls: whole(cost.calls),
            toggles: cost.toggles,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "as many digits as count")]
fn nanoseconds(ticks: u64, scale: f64) -> f64 {
    ticks as f64 * scale
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded; what is too large becomes the largest"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn in_nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// A percentage with its sign.
fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

list!(Profile, functions, FunctionProfile, "functions");

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let called = || self.functions.iter().filter(|it| it.polls.unwrap_or(it.calls).value > 0.0);
        let has_futures = called().any(|it| it.polls.is_some());
        let polls: &[&str] = if has_futures { &["polls", "±"] } else { &[] };
        let heading = ["function", "calls", "±", "rate", "mean", "total", "±", "samples", "latent"];
        let mut table = Table::new(heading.iter().chain(polls).copied());
        for it in called() {
            let time =
                |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |it| Time(whole(it)).to_string());
            let polls = it.polls.map_or_else(
                || ["-", "-"].map(str::to_owned),
                |polls| [polls.value, polls.error].map(|number| whole(number).to_string()),
            );
            let row = [
                it.path().to_owned(),
                whole(it.calls.value).to_string(),
                whole(it.calls.error).to_string(),
                format!("{} /s", whole(it.rate)),
                time(it.mean.map(|mean| mean.value)),
                time(it.total.map(|total| total.value)),
                time(it.total.map(|total| total.error)),
                it.samples.to_string(),
                percent(it.latent),
            ];
            table.row(row.into_iter().chain(polls.into_iter().filter(|_| has_futures)));
        }
        write!(f, "{table}")?;
        if let Some(budget) = self.budget {
            let ProfileCost { hits, own, .. } = self.cost;
            let (hits, own) = (Time(in_nanoseconds(hits)), Time(in_nanoseconds(own)));
            let share = percent(self.cost.share());
            write!(
                f,
                "\ncost: {share} of the CPU time ({hits} in hits, {own} in looking and switching); budget: {budget}"
            )?;
        }
        if self.refused != 0 {
            write!(f, "\n{} sites could not be switched", self.refused)?;
        }
        if self.has_given_up {
            write!(f, "\nits thread has panicked: this is what was known by then, all is latent since")?;
        }
        missing(self.lost, &self.left_out, f)
    }
}
