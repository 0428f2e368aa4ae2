//! Events of the processor and the kernel, for each function.
//!
//! ```text
//! a+b ──▶ event (which can be counted) ──▶ group (a thread's events) ──▶ counts ──▶ report
//!                 profiler (times some calls, within a budget) ────────────┘
//! ```

mod counts;
mod event;
mod group;
mod report;

use std::hint;
use std::sync::OnceLock;
use std::time::Instant;

use counts::{CallCounts, Sampled};
use event::{CountSource, ENOSYS, Plan};
pub use event::{MissingEvent, NoEvents, PerfEvent};
use group::{Group, NUMBERS, Numbers};
use probe_lang::{ParseError, Setting};
pub use report::{EventCounts, FunctionEvents};

use super::profiler::{Budget, Profiler};
use crate::engine::calls::{CallEnd, Calls, LazyCalls, Meter};
use crate::engine::control::{Consumer, DeliveryMode, ProbeSet, Start, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::os::perf::process;
use crate::engine::per_thread::Local;
use crate::engine::registry::ProbeId;

/// Counts events of the processor and the kernel for each function: cycles, instructions, misses.
/// If a machine has no counters, as many virtual machines don't, it counts the thread's CPU time,
/// page faults and context switches. It needs Linux; elsewhere attaching it is an error.
///
/// Entries and exits are paired as described in [`calls`](crate::calls); select both (`net::*`,
/// without a `kind`). For a future, the events of its polls count, and those while it waits do not.
/// The attachment prints as a table. The function with the most of the first event in itself comes
/// first. [`event_counts`](Self::event_counts) has the same for programs:
///
/// | column | meaning |
/// |---|---|
/// | `calls` | calls that have ended |
/// | `IPC` | instructions per cycle, if both are counted |
/// | `cycles/call`, … | the mean per call, from entry to exit |
/// | `self/call` | the part of it in no other measured function |
/// | `uncounted`, `unpaired` | calls without counts (see below); hits without a partner |
///
/// Below the table stand events that could not be counted, with the reasons, the way in which
/// counters were read, and threads that had none.
///
/// Events of the processor are those of user mode, unless you [include the
/// kernel's](Self::in_kernel). So they do not include the kernel's work for a call. Reading is not
/// subtracted: about half of it counts for the call itself, and all of it for its caller.
///
/// # Which system calls a hit makes
/// - None, if the kernel lets programs read the processor's counters (`rdpmc`). It does so on bare
///   metal, unless that has been turned off.
/// - Otherwise, and always for page faults, context switches and migrations: one `read(2)`, for all
///   events of the thread together. No other consumer of this crate makes system calls on hits. The
///   table says whether this is so, and how long a reading takes. A [budget](Self::budget) limits
///   it.
/// - A thread's first hit opens its events. If it can't (no descriptor is left, say), the thread's
///   calls are paired and counted as [uncounted](FunctionEvents::uncounted), and the table says
///   why. The first hit also closes events that ended threads have left open.
///
/// Each thread keeps open a page for each event and, unless all are read in user space, one file
/// descriptor. A thread that ends keeps these until the next thread's first hit, a report, or the
/// end of the attachment.
///
/// # Programs that close descriptors they don't know
/// Daemons do so when they start. Threads that have lost their descriptors have no events from then
/// on, and the table says so. Attach after that. Descriptors have high numbers (from 1024 on, or
/// from half of `RLIMIT_NOFILE`, if these are free), which files of the program get only after
/// hundreds of others. If a file does get such a number, or `dup2` puts one there, the thread's
/// next hit reads it as its events, once: up to 96 bytes of the file. If no bytes are available, as
/// in an empty pipe, the hit waits for them.
///
/// # Forks
/// A forked child continues, with events of its own. Calls that were under way are uncounted there.
/// (With a budget, the child has no [daemon](Profiler), so its attachment [has
/// failed](crate::Attachment::failure).) `exec` closes all.
///
/// # Cost
/// See the figure `perf`. Memory: for each thread that hits, two megabytes of addresses and
/// 200 bytes for each function; only the touched pages take memory.
///
/// ```
/// use probe_runtime::perf::{NoEvents, PerfEvent};
/// use probe_runtime::{Error, Perf, probe, select};
///
/// #[probe]
/// fn handle(n: usize) -> Vec<u8> {
///     vec![1; n]
/// }
///
/// let events = match select("**::handle")?.attach(Perf::new()) {
///     Ok(events) => events,
///     // No events: this is not Linux, or they are not permitted.
///     Err(Error::Consumer(error)) if error.is::<NoEvents>() => {
///         println!("{error}");
///         return Ok(());
///     }
///     Err(error) => return Err(error),
/// };
/// handle(1 << 20);
/// let counts = events.event_counts();
/// let handle = &counts[0];
/// assert_eq!(handle.counted() + handle.uncounted(), 1);
/// match handle.mean(PerfEvent::Instructions) {
///     Some(instructions) => println!("{instructions} instructions, {:?} a cycle", handle.ipc()),
///     None => println!("{:?} page faults", handle.mean(PerfEvent::PageFaults)),
/// }
/// println!("{events}");
/// # Ok::<(), Error>(())
/// ```
#[derive(Default)]
pub struct Perf {
    options: PerfOptions,
    plan: OnceLock<Plan>,
    /// The time that a reading takes, in nanoseconds.
    cost_of_reading: OnceLock<f64>,
    calls: LazyCalls<NUMBERS, Self>,
    sampled: Option<Sampled>,
}

#[derive(Clone, Default, Debug)]
struct PerfOptions {
    events: Option<Vec<PerfEvent>>,
    in_kernel: bool,
    count: Option<fn(PerfEvent) -> Result<u64, i32>>,
}

impl Perf {
    /// Creates a consumer that counts the [processor's events](PerfEvent::HARDWARE) that this
    /// machine has; if it has none, the [kernel's](PerfEvent::SOFTWARE).
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a consumer that counts those of these events that can be counted. Processors count
    /// about four at once. If there are more, they take turns, and the counts are too low; the
    /// table [says by how much](EventCounts::share).
    pub fn of(events: impl IntoIterator<Item = PerfEvent>) -> Self {
        let mut perf = Self::new();
        perf.options.events = Some(events.into_iter().collect());
        perf
    }

    /// Takes the counts from this function instead, which is called on hits. It returns numbers
    /// that never decrease on a thread, or, for an event that can't be counted, an error number of
    /// `perf_event_open(2)`. Meant for simulations and tests.
    #[must_use]
    pub fn with_counts(mut self, count: fn(PerfEvent) -> Result<u64, i32>) -> Self {
        self.options.count = Some(count);
        self
    }

    /// Sets whether the processor's events are also counted in the kernel's work for the thread;
    /// off by default. That needs permission, and includes the system calls of reading.
    #[must_use]
    pub fn in_kernel(mut self, in_kernel: bool) -> Self {
        self.options.in_kernel = in_kernel;
        self
    }

    /// Counts a sample of the calls within a budget: [`sampled`](Self::sampled) by a profiler with
    /// this budget. Attaching fails with [`UnusableBudget`](crate::profile::UnusableBudget) if the
    /// profiler's would.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        self.sampled(Profiler::new().budget(budget))
    }

    /// Counts only the calls that this profiler times. Do not attach the profiler itself. It makes
    /// functions latent once they have a sample, and arms them again in each epoch. It keeps to its
    /// budget, readings of events included, and estimates the number of calls. There is no `self`
    /// column, because calls inside of others are timed by chance.
    #[must_use]
    pub fn sampled(mut self, profiler: Profiler) -> Self {
        self.sampled = Some(Sampled::new(profiler));
        self
    }

    /// Returns the profiler that chooses the calls, if they are [sampled](Self::sampled): to
    /// [step](Profiler::poll) it, or for its own [profile](Profiler::profile), whose times include
    /// the readings.
    pub fn profiler(&self) -> Option<&Profiler> {
        self.sampled.as_ref().map(|sampled| &sampled.profiler)
    }

    /// Returns everything counted so far, on all threads, including ended ones. Every call that
    /// ended before this is included; other threads keep counting meanwhile.
    pub fn event_counts(&self) -> EventCounts {
        self.close_ended();
        EventCounts::new(self)
    }

    /// Iterates over the groups of all threads.
    fn groups(&self) -> impl Iterator<Item = Local<'_, Group, ()>> {
        let whole = self.calls.get().into_iter().flat_map(Calls::heads);
        whole.chain(self.sampled.iter().flat_map(Sampled::groups))
    }

    /// Closes the events of threads that have ended, without heap or lock.
    fn close_ended(&self) {
        let Some(plan) = self.plan.get() else { return };
        self.groups().for_each(|local| local.head().close(plan, || !local.is_alive()));
    }

    fn make_plan(&self) -> Plan {
        let PerfOptions { events, in_kernel, count } = &self.options;
        // If the kernel can't tell a child from its parent, events are not reliable.
        let unknown: fn(PerfEvent) -> Result<u64, i32> = |_| Err(ENOSYS);
        let source = match count {
            Some(count) => CountSource::Given(*count),
            None => process().map_or(CountSource::Given(unknown), CountSource::Kernel),
        };
        Plan::new(source, events.as_deref(), *in_kernel)
    }
}

/// Measures how long a reading takes on this thread, in nanoseconds: the least of several readings.
fn cost_of_reading(plan: &Plan) -> f64 {
    const READINGS: u32 = 16;
    const ANY_THREAD: u64 = 1;
    if let CountSource::Given(_) = plan.source {
        return 0.0;
    }
    let group = Group::default();
    let read = || hint::black_box(group.read(ANY_THREAD, plan, || ()));
    read();
    let elapsed = || {
        let start = Instant::now();
        (0..READINGS).for_each(|_| _ = read());
        start.elapsed()
    };
    let least = (0..8).map(|_| elapsed()).min().unwrap_or_default();
    group.close(plan, || true);
    least.as_secs_f64() * 1e9 / f64::from(READINGS)
}

impl Meter<NUMBERS> for Perf {
    type Head = Group;
    type Part = CallCounts;

    #[inline]
    fn read(&self, local: Local<'_, Group, ()>) -> Numbers {
        let Some(plan) = self.plan.get() else { return [0; NUMBERS] };
        local.head().read(local.thread(), plan, || self.close_ended())
    }

    #[inline]
    fn end(&self, ended: &CallEnd<'_, NUMBERS, Group, CallCounts>) {
        ended.part.own(&ended.elapsed, &ended.own());
        if let Some(call) = ended.completed {
            ended.part.call(&call.busy);
        }
    }
}

impl Consumer for Perf {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn delivery_mode(&self) -> DeliveryMode {
        self.profiler().map_or(DeliveryMode::Delivered, Profiler::delivery_mode)
    }

    fn needs_thread(&self) -> bool {
        self.profiler().is_some_and(Profiler::needs_thread)
    }

    fn needs_order(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        // Checked first: the result must not depend on the events that the machine can count.
        self.sampled.as_ref().map_or(Ok(()), |sampled| sampled.prepare(probes))?;
        let plan = self.make_plan();
        if plan.counted.is_empty() {
            return Err(Error::Consumer(Box::new(NoEvents(plan.missing))));
        }
        let plan = self.plan.get_or_init(|| plan);
        let cost = *self.cost_of_reading.get_or_init(|| cost_of_reading(plan));
        match self.profiler() {
            Some(profiler) => profiler.set_extra_hit_time(cost),
            None => self.calls.prepare(probes)?,
        }
        Ok(())
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        match self.profiler() {
            Some(profiler) => profiler.join(probes),
            None => self.calls.join(probes),
        }
    }

    fn start(&self, probe: ProbeId) -> Start {
        self.profiler().map_or(Start::On, |profiler| profiler.start(probe))
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.profiler().map_or(Ok(()), |profiler| profiler.attached(switch))
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        match &self.sampled {
            Some(sampled) => sampled.hit(event, |local| self.read(local)),
            None => self.calls.hit(event, self),
        }
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        let Some(plan) = self.plan.get() else { return };
        self.groups().for_each(|local| local.head().close(plan, || true));
    }
}

impl_display!(Perf: event_counts);

impl_debug!(Perf: options, plan);

/// The options in `PROBES`: `events=cycles+instructions, budget=1%`.
impl Perf {
    /// Creates a consumer with the options `events` and `budget`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        let (mut events, mut budget) = (None, None);
        for it in settings {
            if it.name() == "events" {
                events = Some(read_events(it)?);
            } else {
                budget = Some(it.value().parse().map_err(|why: String| it.invalid_value(why))?);
            }
        }
        let perf = events.map_or_else(Self::new, Self::of);
        Ok(match budget {
            Some(budget) => perf.budget(budget),
            None => perf,
        })
    }
}

fn read_events(setting: &Setting<'_>) -> Result<Vec<PerfEvent>, ParseError> {
    let mut events = Vec::new();
    let mut at = 0;
    for name in setting.value().split('+') {
        let at_name = at + name.len() - name.trim_start().len();
        let event = name.trim().parse();
        events.push(event.map_err(|why: String| setting.invalid_value_at(at_name, why))?);
        at += name.len() + 1;
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::options::settings;

    fn from(options: &str) -> Result<Perf, ParseError> {
        Perf::with_settings(&settings(options).collect::<Vec<_>>())
    }

    fn found(options: &str) -> (Option<Vec<PerfEvent>>, bool) {
        let perf = from(options).unwrap();
        (perf.options.events.clone(), perf.profiler().is_some())
    }

    #[test]
    fn events_and_a_budget() {
        let two = Some(vec![PerfEvent::Cycles, PerfEvent::PageFaults]);
        assert_eq!(found("events=cycles+page-faults, budget=1%"), (two.clone(), true));
        assert_eq!(found(" events = cycles + page-faults "), (two, false));
        assert_eq!(found("budget=20/s"), (None, true));
    }

    #[test]
    fn an_error_points_at_its_option() {
        for (options, at, problem) in [
            ("events=cycles+ cycle", 15, "`cycle` is not an event; there is cycles,"),
            ("events=", 7, "`` is not an event"),
            ("budget= 1", 8, "`1` is not a budget; write `1%` or `1000/s`"),
            ("events=cycles,budget=-1%", 21, "`-1%` is not a budget"),
            ("budget=0%", 7, "`0%` leaves nothing to sample with; write `1%` or `1000/s`"),
            ("budget=101%", 7, "`101%` is more than all CPU time; "),
        ] {
            let mistake = from(options).unwrap_err();
            assert_eq!(mistake.at, at, "{options}: {}", mistake.problem);
            assert!(mistake.problem.starts_with(problem), "{options}: {}", mistake.problem);
        }
    }
}
