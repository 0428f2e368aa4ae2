//! The counts at one moment, as a report: a table for people, JSON and CSV for programs.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::profiler::{Budget, Estimated, FunctionProfile, ProfileCost};
use super::Perf;
use super::counts::{EventSums, Sampled};
use super::event::{CountSource, Counted, MissingEvent, PerfEvent, by_reason, reason};
use super::group::{Group, NUMBERS, Threads};
use crate::engine::calls::{Calls, Function, LeftOut, Unpaired};
use crate::engine::order::Sorted;
use crate::report::{Columns, ReportSource, Rows, functions, head, json, left_out, missing, shown};
use probe_report::source::Period;
use probe_report::{Body, Cell, Definition, Row, Shown, Table, TableCell, Time, was};

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
    is_given: bool,
    pub(super) cost_of_reading: f64,
    pub(super) budget: Option<(ProfileCost, Budget)>,
    left_out: Vec<LeftOut>,
    pub(super) lost: u64,
    period: Period,
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
            .map(|it: &FunctionProfile| (Definition::from(it.function()), it.calls()))
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

impl EventCounts {
    /// Returns the report as JSON: an object with the program, the time of measurement, and the
    /// functions as `rows`, which have the columns of [`to_csv`](Self::to_csv) (`null` if there is
    /// no number). It also has the `missing` events with their reasons, the paths of the functions
    /// that were `left_out`, and the number of calls that were `lost`.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns the functions as comma-separated values (RFC 4180): a line each, under a heading.
    /// For each event there is its sum over the `counted` calls, from entry to exit and in the
    /// function itself. A cell is empty if there is no number.
    pub fn to_csv(&self) -> String {
        of_functions(&columns(self.events())).csv(&self.functions)
    }
}

/// Returns the columns of all functions, for these events.
fn columns(events: impl IntoIterator<Item = PerfEvent>) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![
        ("calls".to_owned(), Box::new(|it| it.calls.value.into())),
        ("calls_error".to_owned(), Box::new(|it| it.calls.known_error().into())),
        ("counted".to_owned(), Box::new(|it| it.counted().into())),
        ("uncounted".to_owned(), Box::new(|it| it.uncounted().into())),
    ];
    for event in events {
        let (name, unit) = (event.name().replace('-', "_"), unit(event));
        columns.push((format!("{name}{unit}"), Box::new(move |it| it.total(event).into())));
        columns.push((format!("{name}_self{unit}"), Box::new(move |it| it.own(event).into())));
    }
    columns.push(("ipc".to_owned(), Box::new(|it| it.ipc().into())));
    let mut unpaired = |name: &str, of: fn(&Unpaired) -> u64| {
        columns.push((name.to_owned(), Box::new(move |it| of(&it.unpaired).into())));
    };
    unpaired("without_entry", |it| it.without_entry);
    unpaired("without_exit", |it| it.without_exit);
    unpaired("cancelled", |it| it.cancelled);
    unpaired("pending", |it| it.pending);
    columns
}

#[cfg(feature = "serde")]
impl FunctionEvents {
    pub(crate) fn row(&self) -> Row<'_> {
        of_functions(&columns(self.events.iter().copied())).row(self)
    }
}

impl MissingEvent {
    pub(crate) fn row(&self) -> Row<'static> {
        Row::new().with("event", self.event().name()).with("reason", self.reason())
    }
}

impl ReportSource for EventCounts {
    fn head(&self) -> Row<'static> {
        head("perf", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        let columns = columns(self.events());
        Box::new(self.functions.iter().map(move |it| of_functions(&columns).row(it)))
    }

    fn rest(&self) -> Row<'_> {
        Row::new()
            .with("missing", self.missing.iter().map(MissingEvent::row).collect::<Cell<'_>>())
            .with("system_calls", self.takes_system_calls())
            .with("share", self.share())
            .with("threads_without_events", self.threads.refused)
            .with("left_out", left_out(&self.left_out))
            .with("lost", self.lost)
    }

    fn body(&self) -> Body<'_> {
        let seen = || self.functions.iter().filter(|it| it.is_seen());
        // Columns that are empty for all functions are left out.
        let is_sampled = self.budget.is_some();
        let has_ipc = seen().any(|it| it.ipc().is_some());
        let has_uncounted = seen().any(|it| it.uncounted() != 0);
        let has_unpaired = seen().any(|it| it.unpaired.total() != 0);
        let when = |is: bool, names: &'static [&'static str]| {
            names.iter().filter(move |_| is).map(|it| Cow::from(*it))
        };
        let mut heading: Vec<Cow<'_, str>> = vec!["function".into(), "calls".into()];
        heading.extend(when(is_sampled, &["±", "samples"]));
        heading.extend(when(has_ipc, &["IPC"]));
        for event in self.events() {
            heading.push(format!("{}/call", event.name()).into());
            heading.extend(when(!is_sampled, &["self/call"]));
        }
        heading.extend(when(has_uncounted, &["uncounted"]));
        heading.extend(when(has_unpaired, &["unpaired"]));
        let mut table = Table::new(heading);
        for it in seen() {
            let [calls, error] = it.calls.cells(|it| Shown::Decimal(it.round()).into());
            table.push(Definition::from(it.function())).push(calls);
            if is_sampled {
                table.push(error).push(it.counted());
            }
            if has_ipc {
                table.push(it.ipc().map(Shown::Fixed));
            }
            for event in self.events() {
                table.push(mean_cell(event, it.mean(event)));
                if !is_sampled {
                    table.push(mean_cell(event, it.mean_own(event)));
                }
            }
            if has_uncounted {
                table.push(it.uncounted());
            }
            if has_unpaired {
                table.push(it.unpaired.total());
            }
        }
        Body::Table(table)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = if self.is_given { Vec::new() } else { self.method() };
        notes.extend(by_reason(&self.missing).map(|missing| format!("not counted: {missing}")));
        if self.threads.refused != 0 {
            let threads = was(self.threads.refused, "thread");
            notes.push(format!("{threads} without events: {}", reason(self.threads.error)));
        }
        if self.share() < MIN_FULL_SHARE {
            let percent = self.share() * 100.0;
            notes.push(format!(
                "events took turns, and were counted {percent:.1} % of the time; ask for fewer"
            ));
        }
        if let Some((cost, budget)) = self.budget {
            notes.push(format!("cost: {:.2} % of the CPU time; budget: {budget}", cost.share() * 100.0));
        }
        notes.extend(ReportSource::missing(self));
        notes
    }

    fn missing(&self) -> Vec<String> {
        missing(self.lost, &self.left_out)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

/// A column of reports for programs: its name, and the number of a function.
type Column = (String, ColumnValue);
type ColumnValue = Box<dyn Fn(&FunctionEvents) -> Cell<'static>>;

fn of_functions(numbers: &[Column]) -> Columns<'_, FunctionEvents, String, ColumnValue> {
    Columns { function: |it| &it.function, numbers }
}

fn unit(event: PerfEvent) -> &'static str {
    if event == PerfEvent::TaskClock { "_ns" } else { "" }
}

/// Formats a mean for people.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded nanoseconds")]
fn mean_cell(event: PerfEvent, mean: Option<f64>) -> TableCell<'static> {
    match mean {
        Some(mean) if event == PerfEvent::TaskClock => Time(mean.round() as u64).into(),
        mean => mean.map(Shown::Mean).into(),
    }
}

shown!(EventCounts);

/// The smallest share at which events count as measured all the time.
const MIN_FULL_SHARE: f64 = 0.999;

impl EventCounts {
    /// Writes how counts were read, and in which mode.
    fn method(&self) -> Vec<String> {
        let cost = self.cost_of_reading;
        let read = match (self.threads.by_pages, self.threads.by_system_call) {
            (0, 0) => None,
            (_, 0) => Some(format!("read in user space, in {cost:.0} ns")),
            _ => Some(format!("read by a system call at each hit, in {cost:.0} ns")),
        };
        let user: Vec<_> =
            self.counted.iter().filter(|it| it.leaves_kernel_out()).map(|it| it.event.name()).collect();
        let user = (!user.is_empty()).then(|| format!("in user mode only: {}", user.join(", ")));
        read.into_iter().chain(user).collect()
    }
}

/// The counts of one function.
///
/// ```
/// use probe_runtime::{Perf, probe, select};
///
/// #[probe]
/// fn sort() {}
///
/// // `Perf::new()` counts what the machine has.
/// let perf = select("**::sort")?.attach(Perf::new().with_counts(|_| Ok(0)))?;
/// sort();
/// let counts = perf.event_counts();
/// for function in &counts {
///     println!("{}: {:.0} calls", function.path(), function.calls().value);
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionEvents {
    pub(super) function: Function,
    pub(super) calls: Estimated,
    pub(super) sums: EventSums,
    has_own: bool,
    pub(super) events: Arc<[PerfEvent]>,
    pub(super) unpaired: Unpaired,
}

impl FunctionEvents {
    /// Returns the number of calls that have ended; exact. If calls are
    /// [sampled](super::Perf::sampled), it is an estimate of the calls that began.
    pub fn calls(&self) -> Estimated {
        self.calls
    }

    /// Returns the number of calls whose events were counted. All sums are sums over these calls.
    pub fn counted(&self) -> u64 {
        self.sums.calls
    }

    /// Returns the number of calls whose events could not be read, for example on threads without
    /// events.
    pub fn uncounted(&self) -> u64 {
        self.sums.uncounted
    }

    /// Returns the sum of an event over all [counted](Self::counted) calls, from entry to exit.
    /// `None` if the event is not counted. Calls of a function inside of itself count twice.
    pub fn total(&self, event: PerfEvent) -> Option<u64> {
        Some(self.sums.total[self.place(event)?])
    }

    /// Returns the part of [`total`](Self::total) in no other measured function; for futures
    /// including polls of calls that have not ended. `None` if the event is not counted, or if
    /// calls are sampled.
    pub fn own(&self, event: PerfEvent) -> Option<u64> {
        let place = self.place(event)?;
        self.has_own.then_some(self.sums.own[place])
    }

    /// Returns the mean of an event per call, from entry to exit. `None` if no call was counted, or
    /// the event is not counted.
    pub fn mean(&self, event: PerfEvent) -> Option<f64> {
        self.per_call(self.total(event)?)
    }

    /// Returns the mean of [`own`](Self::own) per call.
    pub fn mean_own(&self, event: PerfEvent) -> Option<f64> {
        self.per_call(self.own(event)?)
    }

    /// Returns the instructions per cycle, from entry to exit. `None` unless both events are
    /// counted.
    pub fn ipc(&self) -> Option<f64> {
        let (instructions, cycles) = (self.total(PerfEvent::Instructions)?, self.total(PerfEvent::Cycles)?);
        (cycles != 0).then(|| instructions as f64 / cycles as f64)
    }

    /// Returns the hits without a partner. If calls are sampled, hits are not paired, and there are
    /// none.
    pub fn unpaired(&self) -> Unpaired {
        self.unpaired
    }

    fn per_call(&self, sum: u64) -> Option<f64> {
        (self.counted() != 0).then(|| sum as f64 / self.counted() as f64)
    }

    fn place(&self, event: PerfEvent) -> Option<usize> {
        self.events.iter().position(|it| *it == event)
    }

    /// Returns the count of the first event in the function itself, as far as it is known. Tables
    /// are sorted by it.
    fn weight(&self) -> f64 {
        if self.has_own {
            self.sums.own[0] as f64
        } else {
            self.per_call(self.sums.total[0]).unwrap_or_default() * self.calls.value
        }
    }

    fn is_seen(&self) -> bool {
        self.calls.value > 0.0 || self.sums != EventSums::default() || self.unpaired != Unpaired::default()
    }
}
