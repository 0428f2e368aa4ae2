//! Sampling calls within a budget.

mod anchors;
mod budget;
mod costs;
mod daemon;
mod estimate;
mod mode;
mod part;
mod progress;
mod rate;
mod report;
mod sampler;
mod schedule;
mod time;
mod times;
mod window;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use budget::Budget;
use costs::Rehearsed;
use daemon::{Core, Daemon};
pub use estimate::Estimated;
pub use report::{FunctionProfile, Profile, ProfileCost};
use sampler::Sampler;
#[cfg(feature = "perf")]
pub(super) use sampler::{DEPTH, Timed};
use schedule::Settings;
use time::Time;

use super::shown::Shown;
#[cfg(feature = "perf")]
use crate::calls::Function;
use crate::clock::Clock;
use crate::consumer::{Consumer, Wants};
use crate::control::{ProbeSet, Switch};
use crate::dispatch::Event;
use crate::error::Error;
use crate::patch::Visibility;

/// Profiles by sampling calls, within a [budget](Self::budget). Safe to leave on.
///
/// The profiler *arms* a function: it times the first calls. Then the function's sites become
/// latent, except those that count its calls, if that costs little. In each epoch functions take
/// turns again, as far as the budget reaches. Calls in between are estimated, with their error.
///
/// Unlike a profiler that samples instants, it sees every function that is called, also short and
/// rare ones. A function that has not been called yet stays armed, and each gets at least one
/// sample. Most functions are counted whole: all those that together are called at most some
/// million times a second. Only the calls of the others, and times, are estimated.
///
/// Select entries and exits (`net::*`, without a `kind`). The attachment prints as a table, with
/// the function of the most time first. [`profile`](Self::profile) has the same for programs:
///
/// | column | of |
/// |---|---|
/// | `calls`, `±` | calls that began, estimated; two standard errors. Without error where each was counted. A future's call is all of its polls |
/// | `rate` | calls a second, since it was attached |
/// | `mean` | a call, from entry to exit; of a future, its polls without the waits between them |
/// | `total`, `±` | all calls, estimated |
/// | `samples` | calls that were timed; of a future, polls |
/// | `polls`, `±` | polls that began, estimated, if there are futures |
/// | `latent` | the part of the time that the function's sites were latent |
///
/// If a function is called too often to be counted whole, its calls are counted in *windows*. The
/// calls between windows are estimated in one of two ways, the one that has predicted the
/// function's windows better:
/// - from calls of other functions that are counted whole, if it is called in a constant ratio to
///   these,
/// - from the CPU time that the program's threads have used. Windows make that time longer. The
///   time that a hit takes is measured on the machine now and then, and subtracted.
///
/// What remains uncertain:
/// - The time by which a hit delays a program differs from program to program. It is known within
///   some 40 %. A hit that counts takes 2 to 3 ns. So if rates are estimated from time, those of
///   functions under 20 ns that are called in a row may be off by more than a tenth. The error says
///   so.
/// - A function may be called in bursts shorter than the time for which it is latent, at the start
///   of a program, say. Its estimate may be many times its calls. The error says so, once some
///   windows have passed.
///
/// Calls are timed [in order](crate::Consumer::needs_order), so that the time of their hits is
/// known within a tenth, some 4 ns, and can be subtracted. Two kinds of calls are kept apart:
/// - a thread's first two calls of a window, whose hits are cold. They stand for others only if
///   they are more than half of the calls;
/// - calls that took at least 16 times as long as those before. If they are so few that they may
///   have been interrupted (2,000 times a second), they count in the error only. If there are more,
///   they count in the mean.
///
/// # Which thread patches, and when
/// The profiler has a thread of its own, the daemon. It sleeps until a planned window ends or an
/// epoch begins. (A window that times calls ends from 30 µs after its functions were armed; the
/// daemon does not sleep for that.) Hits never patch: those of a function that has its sample are
/// only counted, until the daemon has looked. For speed, keep text open:
/// `select("**")?.text(TextPolicy::Open).attach(Profiler::new())`. Otherwise each batch opens and
/// seals it.
///
/// # Budget
/// The profile tells its cost: the CPU time of the daemon, as measured, and that of hits, by their
/// number and the time that one takes on this machine
/// ([`ProfileCost::hits`](super::ProfileCost::hits)). If the cost exceeds the budget, functions
/// that are timed, or that have windows, become latent until the debt is paid. So unforeseen bursts
/// of calls are paid for afterwards, and the budget holds over seconds. A quarter of it is for
/// functions that are always counted.
///
/// # Cost
/// - A counted call: 2 to 3 ns, the same as with [`Count`](crate::Count).
/// - A delivered call: some 20 ns a hit, of which 5 are for order.
/// - A timed call: also two readings of the clock, and an `lfence`.
/// - Memory: for each thread some 450 bytes for each function, as far as touched, and a counter for
///   each probe.
///
/// Hits take no lock, no locked instruction, no heap, and no system call. See the figure
/// `profiler`.
///
/// # Forks, and the end
/// The daemon ends with the attachment: after the attachment was dropped, that thread is gone. A
/// forked child has no daemon. The attachment there [has failed](crate::Attachment::failure), its
/// sites are latent, and its profile is that at the fork. A profiler that is
/// [stepped](Self::stepped) goes on in the child.
///
/// ```
/// use probe_runtime::{Budget, Profiler, probe, select};
///
/// #[probe]
/// fn handle(n: u64) -> u64 {
///     (0..n).map(|n| parse(n)).sum()
/// }
///
/// #[probe]
/// fn parse(n: u64) -> u64 {
///     n ^ 1
/// }
///
/// let profiler = Profiler::new().budget(Budget::percent(0.5));
/// let profiler = select("**::handle, **::parse")?.attach(profiler)?;
/// handle(100);
/// let profile = profiler.profile();
/// for function in &profile {
///     println!("{}: {:.0} ± {:.0} calls", function.path(), function.calls().value, function.calls().error);
/// }
/// println!("{profiler}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Profiler {
    options: Options,
    // Ends before what it looks at.
    daemon: Mutex<Option<Daemon>>,
    core: Arc<Core>,
    /// What was measured before the sites are active.
    prepared: Mutex<Option<Prepared>>,
    /// What else is done at both hits of a call that is timed, in nanoseconds a hit.
    besides: OnceLock<f64>,
}

struct Prepared {
    /// Nanoseconds a tick.
    scale: f64,
    rehearsed: Rehearsed,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    sample_size: u32,
    epoch: Duration,
    budget: Budget,
    budget_each: Budget,
    is_stepped: bool,
}

/// How long after something is armed to look first, in nanoseconds: hot functions have their sample
/// by then.
const FIRST_LOOK: f64 = 30_000.0;

impl Default for Profiler {
    fn default() -> Self {
        Self::new()
    }
}

impl Profiler {
    /// One with the defaults: samples of 10 calls, epochs of 10 ms, a budget of 1 % of the CPU time
    /// for all functions together.
    pub fn new() -> Self {
        Self::with(Time::Machine(Clock::new()))
    }

    /// One that measures, and plans, with this clock, which says nanoseconds that never become
    /// less, rather than with the machine's; CPU time is the same. For simulations and tests. It is
    /// called on hits.
    pub fn with_clock(nanoseconds: fn() -> u64) -> Self {
        Self::with(Time::Given(nanoseconds))
    }

    fn with(time: Time) -> Self {
        let options = Options {
            sample_size: 10,
            epoch: Duration::from_millis(10),
            budget: Budget::percent(1.0),
            budget_each: Budget::UNLIMITED,
            is_stepped: false,
        };
        let (daemon, core) = (Mutex::new(None), Arc::new(Core::new(time)));
        Self { options, daemon, core, prepared: Mutex::default(), besides: OnceLock::new() }
    }

    /// How many calls of a function each thread times before the function becomes latent; at least 1.
    #[must_use]
    pub fn sample_size(mut self, calls: u32) -> Self {
        self.options.sample_size = calls.max(1);
        self
    }

    /// How often what is latent is armed again, more or less a quarter; at least 100 µs.
    #[must_use]
    pub fn epoch(mut self, epoch: Duration) -> Self {
        self.options.epoch = epoch.max(Duration::from_micros(100));
        self
    }

    /// What it may cost, of all functions together and with its own work. Attaching fails with
    /// [`Error::Budget`] if that is nothing, or more than all CPU time.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.options.budget = budget;
        self
    }

    /// What the hits of each function may cost; no limit, if not said otherwise. Checked as
    /// [`budget`](Self::budget).
    #[must_use]
    pub fn budget_each(mut self, budget: Budget) -> Self {
        self.options.budget_each = budget;
        self
    }

    /// Without a thread of its own: the program calls [`look`](Self::look), as often as that asks
    /// for.
    #[must_use]
    pub fn stepped(mut self) -> Self {
        self.options.is_stepped = true;
        self
    }

    /// Looks at what was sampled, switches what is to be switched, on this thread, and returns in
    /// how much time to look again. What a thread of its own does otherwise; not to be called on a
    /// hit.
    pub fn look(&self) -> Duration {
        self.core.look(false)
    }

    /// What is known so far, also of calls that go on. Not to be called on a hit.
    pub fn profile(&self) -> Profile {
        Profile::new(&self.core, self.options.budget)
    }

    /// Refuses budgets that nothing can keep to.
    pub(super) fn check_budgets(&self) -> Result<(), Error> {
        let Options { budget, budget_each, .. } = self.options;
        for (option, budget) in [("budget", budget), ("budget_each", budget_each)] {
            if budget.problem().is_some() {
                return Err(Error::Budget { option, budget });
            }
        }
        Ok(())
    }

    fn settings(&self, scale: f64) -> Settings {
        Settings {
            sample_size: f64::from(self.options.sample_size),
            epoch: self.options.epoch.as_secs_f64() * 1e9 / scale,
            first_look: FIRST_LOOK / scale,
            ticks_per_second: 1e9 / scale,
            budget: self.options.budget,
            budget_each: self.options.budget_each,
        }
    }
}

/// How long a tick is, well enough to plan with.
fn rough_scale(time: Time) -> f64 {
    const APART: Duration = Duration::from_micros(500);
    let Time::Machine(clock) = time else { return 1.0 };
    let (start, ticks) = (Instant::now(), clock.now());
    thread::sleep(APART);
    let (elapsed, ticks) = (start.elapsed(), clock.now().saturating_sub(ticks).max(1));
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let scale = elapsed.as_secs_f64() * 1e9 / ticks as f64;
    scale
}

impl Consumer for Profiler {
    fn wants(&self) -> Wants {
        Wants::Either
    }

    fn needs_thread(&self) -> bool {
        !self.options.is_stepped
    }

    fn needs_order(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.check_budgets()?;
        // A consumer is attached once.
        let _ = self.core.sampler.set(Sampler::new(probes, self.options.sample_size, self.core.time)?);
        let scale = rough_scale(self.core.time);
        let prepared = Prepared { scale, rehearsed: Rehearsed::new(self.core.time, scale)? };
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
        Ok(())
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        if let Some(sampler) = self.core.sampler.get() {
            switch.off(sampler.idle(), Visibility::Eventual);
        }
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Prepared { scale, rehearsed }) = prepared else { return Ok(()) };
        let besides = self.besides.get().copied().unwrap_or_default() / scale;
        let has_daemon = !self.options.is_stepped;
        self.core.begin(self.settings(scale), scale, rehearsed.and_besides(besides), switch, has_daemon);
        if !self.options.is_stepped {
            let daemon = Daemon::start(&self.core)?;
            *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(daemon);
        }
        Ok(())
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        if let Some(sampler) = self.core.sampler.get() {
            let _ = sampler.hit(event);
        }
    }
}

/// For a consumer that measures the same calls in a way of its own: it hands on what it is asked
/// and told of, and keeps to this one's budget.
#[cfg(feature = "perf")]
impl Profiler {
    /// It takes so many nanoseconds at each of the two hits of a call that is timed. Said once,
    /// before it is attached.
    pub(super) fn takes_besides(&self, nanoseconds: f64) {
        let _ = self.besides.set(nanoseconds);
    }

    /// A hit; tells if it is one of a call that is timed.
    #[inline]
    pub(super) fn sample(&self, event: &Event<'_>) -> Option<Timed> {
        self.core.sampler.get()?.hit(event)
    }

    /// The functions, by the numbers of [`Timed`].
    pub(super) fn functions(&self) -> &[Function] {
        self.core.sampler.get().map_or(&[], Sampler::functions)
    }

    /// What it may cost.
    pub(super) fn limit(&self) -> Budget {
        self.options.budget
    }
}

impl Shown for Profiler {
    fn shown(&self) -> impl fmt::Display {
        self.profile()
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("options", &self.options).finish_non_exhaustive()
    }
}
