//! The counts at one moment, as a report.

use std::sync::Arc;

use super::super::profiler::{Budget, Estimated, FunctionProfile, ProfileCost};
use super::Perf;
use super::counts::EventSums;
use super::event::{MissingEvent, PerfEvent};
use super::function::FunctionEvents;
use super::group::{Group, NUMBERS, Threads};
use super::plan::{CountSource, Counted};
use super::sampled::Sampled;
use crate::engine::calls::{Calls, LeftOut, Unpaired};
use crate::engine::order::Sorted;
use crate::engine::period::Period;
use crate::report::{RowDefinition, functions};

/// The counts of all functions, from [`Perf::event_counts`].
///
/// This is a list, with the function of the most of the first event in itself first. It prints as a
/// table of the functions that were called, with the events that were not counted, and the reasons.
///
/// ```
/// use probe_runtime::{Perf, probe, select};
///
/// #[probe]
/// fn hash() {}
///
/// // `Perf::new()` counts what the machine has.
/// let perf = select("**::hash")?.attach(Perf::new().with_counts(|_| Ok(0)))?;
/// hash();
/// let counts = perf.event_counts();
/// println!("{counts}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct EventCounts {
    pub(super) functions: Vec<FunctionEvents>,
    pub(super) counted: Vec<Counted>,
    pub(super) missing: Vec<MissingEvent>,
    pub(super) threads: Threads,
    pub(super) is_given: bool,
    pub(super) cost_of_reading: f64,
    pub(super) budget: Option<(ProfileCost, Budget)>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) lost: u64,
    pub(super) period: Period,
}

impl EventCounts {
    pub(super) fn new(perf: &Perf) -> Self {
        let Some(plan) = perf.plan.get() else { return Self::default() };
        let events: Arc<[PerfEvent]> = plan.counted.iter().map(|it| it.event).collect();
        let mut counts = Self {
            counted: plan.counted.clone(),
            missing: plan.missing.clone(),
            threads: perf.groups().fold(Threads::default(), |sum, local| sum.and(local.head())),
            is_given: matches!(plan.source, CountSource::Given(_)),
            cost_of_reading: perf.cost_of_reading.get().copied().unwrap_or_default(),
            ..Self::default()
        };
        match (&perf.sampled, perf.calls.get()) {
            (Some(sampled), _) => counts.add_sampled(sampled, &events),
            (None, Some(calls)) => counts.add_all(calls, &events),
            (None, None) => (),
        }
        let by_weight = |a: &FunctionEvents, b: &FunctionEvents| b.weight().total_cmp(&a.weight());
        crate::engine::order::sort_by(&mut counts.functions, |a, b| {
            by_weight(a, b).then_with(|| a.path().cmp(b.path()))
        });
        counts
    }

    fn add_all(&mut self, calls: &Calls<NUMBERS, Perf>, events: &Arc<[PerfEvent]>) {
        self.functions.extend(calls.functions().iter().enumerate().map(|(number, function)| {
            let sums = EventSums::of(calls.parts(number));
            let calls_of = Estimated::exactly((sums.calls + sums.uncounted) as f64);
            FunctionEvents {
                function: function.clone(),
                calls: calls_of,
                sums,
                has_own: true,
                events: Arc::clone(events),
                unpaired: calls.unpaired(number),
            }
        }));
        self.left_out = calls.left_out();
        self.lost = calls.lost();
        self.period = calls.period();
    }

    fn add_sampled(&mut self, sampled: &Sampled, events: &Arc<[PerfEvent]>) {
        let profile = sampled.profiler.profile();
        let estimates: Sorted<_, Estimated> = profile
            .iter()
            .map(|it: &FunctionProfile| (RowDefinition::from(it.function()), it.calls()))
            .collect();
        self.functions.extend(sampled.profiler.functions().iter().enumerate().map(|(number, function)| {
            FunctionEvents {
                function: function.clone(),
                calls: estimates.get(&function.into()).copied().unwrap_or_default(),
                sums: EventSums::of(sampled.parts(number)),
                has_own: false,
                events: Arc::clone(events),
                unpaired: Unpaired::default(),
            }
        }));
        self.budget = profile.budget.map(|budget| (profile.cost(), budget));
        self.left_out = profile.left_out().to_vec();
        self.lost = profile.lost() + sampled.lost();
        self.period = profile.period;
    }

    /// Iterates over the events that are counted.
    pub fn events(&self) -> impl ExactSizeIterator<Item = PerfEvent> {
        self.counted.iter().map(|it| it.event)
    }

    /// Returns the requested events that are not counted, with the reasons.
    pub fn missing(&self) -> &[MissingEvent] {
        &self.missing
    }

    /// Returns whether an event is counted in user mode only. [`PerfEvent::TaskClock`] never is.
    pub fn is_user_mode_only(&self, event: PerfEvent) -> bool {
        self.counted.iter().any(|it| it.event == event && it.leaves_kernel_out())
    }

    /// Returns whether any hit made a system call to read counts.
    pub fn takes_system_calls(&self) -> bool {
        self.threads.by_system_call != 0
    }

    /// Returns the time that reading all events took on the attaching thread, in nanoseconds: the
    /// least of several readings.
    pub fn cost_of_reading(&self) -> f64 {
        self.cost_of_reading
    }

    /// Returns the part of the threads' time, from 0 to 1, in which events were counted. It is less
    /// than 1 if events had to take turns; sums are too low by about that factor.
    pub fn share(&self) -> f64 {
        let times = self.threads.times;
        if times.enabled == 0 { 1.0 } else { times.running as f64 / times.enabled as f64 }
    }

    /// Returns the number of threads that could not get events. Their calls are
    /// [uncounted](FunctionEvents::uncounted).
    pub fn threads_without_events(&self) -> u64 {
        self.threads.refused
    }

    /// Returns the cost of sampling, if calls are [sampled](Perf::sampled).
    pub fn cost(&self) -> Option<ProfileCost> {
        self.budget.map(|(cost, _)| cost)
    }
}

functions!(
    EventCounts,
    FunctionEvents,
    "counted",
    "calls that were not measured, see [`Calls::lost`](crate::engine::calls::Calls::lost)"
);

impl Threads {
    fn and(self, group: &Group) -> Self {
        let other = group.threads();
        let mut times = self.times;
        times.enabled += other.times.enabled;
        times.running += other.times.running;
        Self {
            by_pages: self.by_pages + other.by_pages,
            by_system_call: self.by_system_call + other.by_system_call,
            refused: self.refused + other.refused,
            error: if other.refused == 0 { self.error } else { other.error },
            times,
        }
    }
}
