//! The knowledge of a profiler at one moment, as a report: the profile of each function, and the
//! cost of profiling.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::budget::Budget;
use super::controller::{Cost, ProfilerState};
use super::estimate::Estimated;
use super::function_state::FunctionEstimate;
use super::thread_state::FunctionTotals;
use crate::engine::calls::{Function, LeftOut};
use crate::engine::registry::ProbeId;
use crate::report::{FixedColumns, ReportSource, Rows, functions, head, json, left_out, missing, shown};
use probe_report::source::Period;
use probe_report::{Body, Cell, Definition, Row, Shown, Table, TableCell, Time};

/// The profiles of all functions, from [`Profiler::profile`](super::Profiler::profile).
///
/// A list, with the function of the most CPU time first, as far as it was sampled, and otherwise
/// that of the most time in itself. It prints as a table of the
/// functions that were called, with the cost of profiling below.
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
    has_panicked: bool,
    cost: ProfileCost,
    /// Samples of the processor's clock, and those in code of no function in the table; and whether
    /// some threads' time was not sampled.
    samples: ([u64; 2], bool),
    pub(in crate::consumers) budget: Option<Budget>,
    pub(in crate::consumers) period: Period,
}

impl Profile {
    /// Reads the functions with `only` these probes, or all.
    pub(super) fn new(state: &ProfilerState, budget: Budget, only: Option<&[ProbeId]>) -> Self {
        let scale = state.time.nanoseconds_per_tick(false);
        state
            .with(|sampler, controller| {
                // The scale at the beginning was accurate to a thousandth.
                let scale = scale / controller.scale;
                let elapsed = state.now_for(controller) * scale;
                controller.add_functions(sampler);
                if state.is_own_process() {
                    controller.read_shares(sampler);
                }
                let (of, len) = (sampler.functions(), controller.states.len());
                let chosen = match only {
                    Some(probes) => {
                        sampler.functions_with(probes).into_iter().filter(|it| *it < len).collect()
                    }
                    None => (0..len).collect::<Vec<_>>(),
                };
                let mut functions = Vec::with_capacity(chosen.len());
                state.estimates(sampler, controller, &chosen, |function, known, seen| {
                    functions.push(FunctionProfile::new(&of[function], known, &seen, scale, elapsed));
                });
                if let Some(shares) = &controller.shares {
                    functions.iter_mut().zip(&chosen).for_each(|(it, number)| it.share = shares.of(*number));
                }
                // Functions of the same weight are in the order of their paths, late ones, too.
                let by_path = |a: &FunctionProfile, b: &FunctionProfile| a.path().cmp(b.path());
                crate::engine::order::sort_by(&mut functions, |a, b| {
                    let by_weight = b.weights().into_iter().zip(a.weights()).map(|(b, a)| b.total_cmp(&a));
                    by_weight.fold(Ordering::Equal, Ordering::then).then_with(|| by_path(a, b))
                });
                Self {
                    functions,
                    left_out: sampler.left_out(),
                    lost: sampler.memory.lost(),
                    refused: controller.refused,
                    has_panicked: state.has_panicked.load(Relaxed),
                    cost: ProfileCost::new(
                        &controller.cost,
                        controller.used_until(state.time.used()),
                        elapsed,
                    ),
                    samples: controller
                        .shares
                        .as_ref()
                        .map_or_else(Default::default, |it| (it.samples(), it.is_partial())),
                    budget: Some(budget),
                    period: sampler.made.period(),
                }
            })
            .unwrap_or_default()
    }

    /// Returns the number of sites that could not be switched when the profiler last switched any,
    /// for example because the text is sealed.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Returns the cost of profiling so far.
    pub fn cost(&self) -> ProfileCost {
        self.cost
    }

    /// Returns the profile as JSON: one object, which names the program and the time of
    /// measurement.
    ///
    /// Its `rows` are the functions, with the columns of [`to_csv`](Self::to_csv) as members
    /// (`null` if nothing was timed). Its other members are the `cost`, the paths of the functions
    /// that were `left_out`, the number of hits that were `lost`, and the number of sites that were
    /// `refused`.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns the functions as comma-separated values (RFC 4180): one line each, under a heading
    /// that names the units. A cell is empty if nothing is known: a time, if nothing was timed, or
    /// the error of a lower bound.
    pub fn to_csv(&self) -> String {
        FunctionProfile::csv(&self.functions)
    }
}

impl ReportSource for Profile {
    fn head(&self) -> Row<'static> {
        head("profile", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.iter().map(|it| it.row()))
    }

    fn rest(&self) -> Row<'_> {
        Row::new()
            .with("cost", self.cost.row())
            .with("left_out", left_out(&self.left_out))
            .with("lost", self.lost)
            .with("refused", self.refused)
    }

    fn body(&self) -> Body<'_> {
        // A call that began before the profiler takes time, too.
        let has_time = |it: &FunctionProfile| it.share.is_some_and(|share| share.value > 0.0);
        let is_called = |it: &FunctionProfile| it.polls().unwrap_or(it.calls()).value > 0.0 || has_time(it);
        let called = || self.functions.iter().filter(|it| is_called(it));
        let has_futures = called().any(|it| it.polls().is_some());
        let has_samples = self.samples.0[0] != 0;
        let (of_cpu, of_polls) = (&["CPU", "±"][..], &["polls", "±"][..]);
        let heading = [
            &["function"][..],
            if has_samples { of_cpu } else { &[] },
            &["calls", "±", "rate", "mean", "self", "total", "±", "samples"],
            if has_futures { of_polls } else { &[] },
        ]
        .concat();
        let mut table = Table::new(heading);
        for it in called() {
            let none = || [Shown::Nothing.into(), "".into()];
            let time =
                |time: Option<Estimated>| time.map_or_else(none, |it| it.cells(|it| Time(whole(it)).into()));
            let number = |it: Estimated| it.cells(|it| whole(it).into());
            table.push(Definition::from(it.function()));
            let share = it.share.unwrap_or_default().cells(TableCell::share);
            share.into_iter().filter(|_| has_samples).for_each(|cell| _ = table.push(cell));
            let [[mean, _], [own, _], total] = [it.mean(), it.own(), it.total()].map(time);
            let [rate, _] =
                Estimated { value: it.rate(), ..it.calls() }.cells(|it| Shown::Rate(whole(it)).into());
            number(it.calls())
                .into_iter()
                .chain([rate, mean, own])
                .chain(total)
                .for_each(|cell| _ = table.push(cell));
            table.push(it.samples());
            let polls = it.polls().map_or_else(none, number);
            polls.into_iter().filter(|_| has_futures).for_each(|cell| _ = table.push(cell));
        }
        Body::Table(table)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let ([samples, elsewhere], is_partial) = self.samples;
        if samples != 0 {
            let outside = percent(elsewhere as f64 / samples as f64);
            let others = if is_partial { "; some threads were not sampled" } else { "" };
            notes.push(format!(
                "CPU: {samples} samples of the processor's clock, {outside} in other code{others}"
            ));
        }
        notes.extend(self.budget.map(|budget| self.cost.sentence(budget)));
        if self.refused != 0 {
            notes.push(format!("{} sites could not be switched", self.refused));
        }
        if self.has_panicked {
            notes.push(
                "its thread has panicked: this is what was known by then, all is latent since".to_owned(),
            );
        }
        notes.extend(self.missing());
        notes
    }

    fn missing(&self) -> Vec<String> {
        missing(self.lost, &self.left_out)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

/// Rounds to a whole number; 0 for negative numbers.
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

/// Formats a share from 0 to 1 as a percentage.
fn percent(part: f64) -> String {
    TableCell::share(part).to_string()
}

functions!(Profile, FunctionProfile, "sampled", "hits that were not counted, because memory was short");

shown!(Profile);

/// The cost of profiling so far.
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
    /// The time that hits took: their number, times the time of one hit on this machine, which the
    /// profiler measures now and then.
    pub hits: Duration,
    /// The time that the profiler's own thread took, as measured: for looking, switching, waking up
    /// and going to sleep; and that for which samples of the processor's clock interrupted threads.
    pub own: Duration,
    /// The CPU time that the process used meanwhile, including profiling.
    pub used: Duration,
    /// The time that passed meanwhile.
    pub elapsed: Duration,
    /// Calls that were timed or counted.
    pub calls: u64,
    /// The number of times that a function's mode changed, or that a window was opened for it.
    pub toggles: u64,
    /// The length of the beginning, about a quarter of a second, and the share of the CPU time that
    /// profiling took in it; zeros until it is over. It includes the cost of attaching.
    pub beginning: (Duration, f64),
}

impl ProfileCost {
    pub(super) fn new(cost: &Cost, used: f64, elapsed: f64) -> Self {
        let time = |nanoseconds: f64| Duration::from_nanos(whole(nanoseconds));
        Self {
            hits: time(cost.hits),
            own: time(cost.own),
            used: time(used),
            elapsed: time(elapsed),
            calls: whole(cost.calls),
            toggles: cost.toggles,
            beginning: cost.beginning.map_or_else(Default::default, |(it, share)| (time(it), share)),
        }
    }

    /// Returns the time of hits and the profiler's own time as a share of the CPU time that the
    /// process has used, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.used.is_zero() { 0.0 } else { (self.hits + self.own).as_secs_f64() / self.used.as_secs_f64() }
    }

    fn sentence(&self, budget: Budget) -> String {
        let (hits, own) = (Time(in_nanoseconds(self.hits)), Time(in_nanoseconds(self.own)));
        let share = percent(self.share());
        let cost = format!(
            "cost: {share} of the CPU time ({hits} in hits, {own} in looking and switching); budget: {budget}"
        );
        let (beginning, at_first) = self.beginning;
        if !budget.is_less_than(at_first) {
            return cost;
        }
        format!("{cost}; {} in the first {}", percent(at_first), Time(in_nanoseconds(beginning)))
    }

    pub(crate) fn row(&self) -> Row<'static> {
        Row::new()
            .with("hits_ns", in_nanoseconds(self.hits))
            .with("own_ns", in_nanoseconds(self.own))
            .with("used_ns", in_nanoseconds(self.used))
            .with("elapsed_ns", in_nanoseconds(self.elapsed))
            .with("calls", self.calls)
            .with("toggles", self.toggles)
            .with("beginning_ns", in_nanoseconds(self.beginning.0))
            .with("beginning_share", self.beginning.1)
    }
}

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
            mean.widened_by(mean.value * doubt)
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

    fn csv(functions: &[Self]) -> String {
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
