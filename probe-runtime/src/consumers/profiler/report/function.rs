//! The profile of one function.

use super::super::estimate::{Estimate, Estimated};
use super::super::sampler::Seen;
use super::rounded::{nanoseconds, whole};
use crate::calls::Function;
use crate::consumers::report::{Cell, FixedColumns, Row};

/// The profile of one function. Times are in nanoseconds.
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
    pub(super) is_armed: bool,
    pub(super) rearmed: u64,
}

impl FunctionProfile {
    /// As of a function that is armed for the first time. `scale` is nanoseconds a tick, `elapsed`
    /// is in nanoseconds.
    pub(super) fn new(
        function: &Function,
        estimate: &Estimate,
        seen: &Seen,
        scale: f64,
        elapsed: f64,
    ) -> Self {
        let times =
            |it: Estimated, factor: f64| Estimated { value: it.value * factor, error: it.error * factor };
        // Estimates are of entries; those of a future are polls. The share of first polls, as far
        // as it was seen, turns polls into calls.
        let (polls, first) = (estimate.calls(), seen.first_polls());
        let calls = times(polls, first);
        let mean = estimate.mean(scale).filter(|_| first > 0.0);
        let all = estimate.armed + estimate.latent;
        let extreme = |ticks| if seen.ended == 0 { 0 } else { whole(nanoseconds(ticks, scale)) };
        Self {
            function: function.clone(),
            calls,
            polls: function.is_future().then_some(polls),
            rate: if elapsed > 0.0 { calls.value * 1e9 / elapsed } else { 0.0 },
            mean: mean.map(|it| times(it, scale / first)),
            total: estimate.total(scale).map(|it| times(it, scale)),
            counted: whole(estimate.counted),
            samples: whole(estimate.timed),
            min: extreme(seen.shortest),
            max: extreme(seen.longest),
            latent: if all > 0.0 { estimate.latent / all } else { 0.0 },
            is_armed: true,
            rearmed: 0,
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

    /// Calls that began since the profiler was attached. A call of a future is all of its polls.
    pub fn calls(&self) -> Estimated {
        self.calls
    }

    /// Polls that began since the profiler was attached; `None` unless the function is a future.
    pub fn polls(&self) -> Option<Estimated> {
        self.polls
    }

    /// Calls a second, since the profiler was attached.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The mean time of a call, from entry to exit; of a future, of its polls without the waits
    /// between them. `None` if none was timed.
    pub fn mean(&self) -> Option<Estimated> {
        self.mean
    }

    /// The time of all calls together; `None` if none was timed.
    pub fn total(&self) -> Option<Estimated> {
        self.total
    }

    /// Calls that were counted one by one; of a future, polls.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Calls that were timed; of a future, polls.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The shortest call (of a future, poll) that was timed; 0 if none was.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The longest call (of a future, poll) that was timed; 0 if none was.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The share of the time in which its sites were latent, from 0 to 1.
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

    pub(super) fn total_value(&self) -> f64 {
        self.total.map_or(0.0, |total| total.value)
    }

    pub(crate) fn row(&self) -> Row<'_> {
        COLUMNS.row(self)
    }

    pub(super) fn csv(functions: &[Self]) -> String {
        COLUMNS.csv(functions)
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
