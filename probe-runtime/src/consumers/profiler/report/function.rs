//! The profile of one function.

use super::super::estimate::Estimated;
use super::super::function_state::FunctionEstimate;
use super::super::part::FunctionTotals;
use super::whole;
use crate::engine::calls::Function;
use crate::report::{Cell, FixedColumns, Row};

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
    pub(super) function: Function,
    known: FunctionEstimate,
    polls: Option<Estimated>,
    rate: f64,
    likely_rate: f64,
    counted: u64,
    pub(super) share: Option<Estimated>,
}

impl FunctionProfile {
    /// Creates a profile. `scale` corrects the known times, which are multiplied by it.
    pub(super) fn new(
        function: &Function,
        known: FunctionEstimate,
        seen: &FunctionTotals,
        scale: f64,
        elapsed: f64,
    ) -> Self {
        // Times are those of entries; those of a future are polls.
        let (polls, calls) = (known.calls, known.first);
        let mean = known.mean.filter(|_| calls.value > 0.0 && !calls.is_at_least());
        let mean = mean.map(|of_poll| {
            let mean = of_poll.times(scale * polls.value / calls.value);
            // Each of the two numbers of calls may be off.
            let doubt = if function.is_future() { calls.error / calls.value } else { 0.0 };
            mean.or_more(mean.value * doubt)
        });
        let [own, total] = [known.own, known.total].map(|it| it.map(|it| it.times(scale)));
        let rate = |calls: f64| if elapsed > 0.0 { calls * 1e9 / elapsed } else { 0.0 };
        Self {
            function: function.clone(),
            known: FunctionEstimate { calls, mean, own, total, ..known },
            polls: function.is_future().then_some(polls),
            rate: rate(calls.value),
            likely_rate: rate(known.likely),
            counted: whole(seen.calls),
            share: None,
        }
    }

    /// Returns the part of the program's CPU time, from 0 to 1, in the function's machine code:
    /// with the code of functions without probes that the compiler has inlined there, and without
    /// that of inlined functions with probes. Code that it calls is not included. `None` if the
    /// processor's clock was not sampled; see [`Profiler`](crate::Profiler).
    pub fn share(&self) -> Option<Estimated> {
        self.share
    }

    /// Returns the number of calls that began since the profiler was attached. A call of a future
    /// is all of its polls.
    pub fn calls(&self) -> Estimated {
        self.known.calls
    }

    /// Returns the number of polls that began since the profiler was attached; `None` unless the
    /// function is a future.
    pub fn polls(&self) -> Option<Estimated> {
        self.polls
    }

    /// Returns the calls per second, since the profiler was attached; a lower bound if
    /// [`calls`](Self::calls) is one.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the mean time of a call, from entry to exit; for a future, of its polls without the
    /// waits between them. `None` if no call was timed.
    pub fn mean(&self) -> Option<Estimated> {
        self.known.mean
    }

    /// Returns the time of all calls that have ended, in nanoseconds, without the time of their
    /// calls of other profiled functions. `None` if no call was timed with all calls inside.
    pub fn own(&self) -> Option<Estimated> {
        self.known.own
    }

    /// Returns the time of all calls that have ended; `None` if no call was timed.
    pub fn total(&self) -> Option<Estimated> {
        self.known.total
    }

    /// Returns the number of calls that were counted one by one; for a future, polls.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Returns the number of calls that were timed; for a future, polls.
    pub fn samples(&self) -> u64 {
        whole(self.known.samples)
    }

    /// Returns the numbers by which functions are sorted: the first one that differs counts.
    pub(super) fn weights(&self) -> [f64; 2] {
        [self.share, self.known.own.or(self.known.total)].map(|it| it.unwrap_or_default().value)
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
        ("calls", |it| it.known.calls.value.into()),
        ("calls_error", |it| it.known.calls.known_error().into()),
        ("calls_per_second", |it| it.rate.into()),
        ("mean_ns", |it| it.known.mean.map(|mean| mean.value).into()),
        ("mean_error_ns", |it| it.known.mean.and_then(Estimated::known_error).into()),
        ("self_ns", |it| it.known.own.map(|own| own.value).into()),
        ("self_error_ns", |it| it.known.own.and_then(Estimated::known_error).into()),
        ("total_ns", |it| it.known.total.map(|total| total.value).into()),
        ("total_error_ns", |it| it.known.total.and_then(Estimated::known_error).into()),
        ("counted", |it| it.counted.into()),
        ("samples", |it| it.samples().into()),
        ("polls", |it| it.polls.map(|polls| polls.value).into()),
        ("polls_error", |it| it.polls.and_then(Estimated::known_error).into()),
        ("cpu_share", |it| it.share.map(|share| share.value).into()),
        ("cpu_share_error", |it| it.share.map(|share| share.error).into()),
        ("calls_per_second_likely", |it| it.likely_rate.into()),
    ],
};
