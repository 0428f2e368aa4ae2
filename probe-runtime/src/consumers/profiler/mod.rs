//! Counts and times calls within a budget.
//!
//! ```text
//! hits ▶ sampler ▶ part, stack (each thread's sums)
//!            ▲ modes, windows                 ▼ read
//! daemon ▶ core (accounts) ▶ survey ▶ plan (modes, pure)
//!                            windows ▶ stretch (when, pure)
//!                                             ▼
//!                    course (a function's sums) ▶ estimate (pure) ▶ report
//! ```

mod budget;
mod core;
mod costs;
mod course;
mod daemon;
mod estimate;
mod part;
mod plan;
mod report;
mod sampler;
mod stack;
mod stretch;
mod survey;
mod time;
mod windows;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use self::core::{Core, Running};
pub use budget::{Budget, UnusableBudget};
use daemon::Daemon;
pub use estimate::Estimated;
pub use report::{FunctionProfile, Profile, ProfileCost};
#[cfg(feature = "perf")]
pub(super) use sampler::{DEPTH, Timed};
use sampler::{Sampler, begins};
use time::{Time, Used};

use super::shown::Shown;
#[cfg(feature = "perf")]
use crate::calls::Function;
use crate::clock::Clock;
use crate::control::{Consumer, ProbeSet, Start, Switch, Wants};
use crate::dispatch::Event;
use crate::error::Error;
use crate::registry::ProbeId;

/// Counts the calls of all functions, and times them, within a [budget](Self::budget). Safe to
/// leave on.
///
/// Each call of most functions is counted. Functions that are called seldom, and take 2 µs or more,
/// are timed at each call, from soon after their first one on. The others are timed in *windows*:
/// 60 µs in which all calls that begin are timed, to their ends. If counting each call of a function
/// would exceed the budget, windows count its calls, too. Each stretch of time has one window,
/// anywhere in it by chance. So windows stand for all time, whatever the program does.
///
/// Unlike a profiler that samples instants, it sees every function that is called, also short and
/// rare ones.
///
/// Select entries and exits (`net::*`, without a `kind`). The attachment prints as a table, with
/// the function of the most time in itself first. [`profile`](Self::profile) has the same for
/// programs:
///
/// | column | of |
/// |---|---|
/// | `calls`, `±` | calls that began, and how sure that is; `exact` if each was counted. A future's call is all of its polls |
/// | `rate` | calls a second, since it was attached |
/// | `mean` | a call, from entry to exit; of a future, its polls without the waits between them |
/// | `self` | all calls, without what they spent in calls of other functions in the table |
/// | `total`, `±` | all calls that have ended, from entry to exit |
/// | `samples` | calls that were timed; of a future, polls |
/// | `polls`, `±` | polls that began, if there are futures |
///
/// Errors cover the truth in 95 of 100 cases. They come from the spread between windows, from what
/// hits may take, and from what no window has seen: calls that take long, but seldom. So a run of
/// some seconds tells more than one of a tenth of a second. Where an error would be as large as its
/// number, or nothing is known above it, `≥` stands before a lower bound, and `-` where nothing is
/// known. Calls of a function inside of itself count each; the time of those is a lower bound where
/// not each was timed.
///
/// What remains uncertain:
/// - A call is timed [in order](crate::Consumer::needs_order), so that the time of its hits is known
///   within some 4 ns, and can be subtracted. Hits of a function that is called seldom have left the
///   caches by the next time, and take some 100 ns that are not subtracted.
/// - The table shows `self` without its error, which [`own`](FunctionProfile::own) has. It is `-` if
///   there are too many functions for one window (256).
/// - Calls of a thread that makes only long calls of a function of which others make short ones may
///   be in no error.
/// - Calls are not seen while the attachment is [paused](crate::Attachment::pause), or a probe is
///   [held](crate::ProbeSet::hold); `rate` goes by all the time.
///
/// # Which thread patches, and when
/// The profiler has a thread of its own, the daemon. It sleeps until a window begins or ends. Hits
/// never patch, and a window is over for them by the clock. Keep text open for speed
/// (`select("**")?.text(TextPolicy::Open)`): otherwise each batch opens and seals it.
///
/// # Budget
/// It begins with nothing, and grows with the CPU time that the program uses. Attaching, rehearsing,
/// reading and switching are paid of it, as measured, and hits, by their number and the time that
/// one takes on this machine. There are at least some three windows a second, so that a budget of
/// less than some 0.05 % is exceeded. What a surprise has cost (a function that begins to be called
/// 100 million times a second) is saved afterwards, up to the budget of 5 s: it is looked for at least
/// three times a second. The table says what profiling has cost, and how
/// much of the first quarter of a second, if that was more than the budget: attaching to thousands of
/// functions takes milliseconds at once.
///
/// # Cost
/// - A counted call: the same as with [`Count`](crate::Count).
/// - A delivered call: some 20 ns a hit, of which 5 are for order; no lock, no locked instruction, no
///   heap, and no system call.
/// - A timed call: also two readings of the clock, and an `lfence`.
/// - Memory: for each thread 4 KiB, and some 150 bytes for each function; and a counter for each
///   probe.
///
/// See the figures `profiler` and `coverage`.
///
/// # Forks, and the end
/// The daemon ends with the attachment: it is gone when that has been dropped. A forked child has no
/// daemon. The attachment there [has failed](crate::Attachment::failure), its sites are latent, and
/// its profile is that at the fork; it is empty where another thread was just looking. A profiler that
/// is [stepped](Self::stepped) goes on in the child, with the same exception.
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
/// assert_eq!(profile.iter().map(|it| it.calls().value).sum::<f64>(), 101.0);
/// println!("{profiler}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Profiler {
    options: Options,
    // Ends before what it looks at.
    daemon: Mutex<Option<Daemon>>,
    core: Arc<Core>,
    /// The CPU time when attaching began.
    used_before: OnceLock<Used>,
    /// What else is done at both hits of a call that is timed, in nanoseconds a hit.
    besides: OnceLock<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    epoch: Duration,
    budget: Budget,
    is_stepped: bool,
}

impl Default for Profiler {
    fn default() -> Self {
        Self::new()
    }
}

impl Profiler {
    /// One with the defaults: a budget of 1 % of the CPU time, and a window each 10 ms at most.
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
        let options =
            Options { epoch: Duration::from_millis(10), budget: Budget::percent(1.0), is_stepped: false };
        let (daemon, core) = (Mutex::new(None), Arc::new(Core::new(time)));
        Self { options, daemon, core, used_before: OnceLock::new(), besides: OnceLock::new() }
    }

    /// The mean time from window to window, if the budget pays for that; else it is longer. At least
    /// 3 ms, some eight times as long as a window with all that belongs to it.
    #[must_use]
    pub fn epoch(mut self, epoch: Duration) -> Self {
        self.options.epoch = epoch.max(Duration::from_millis(3));
        self
    }

    /// What it may cost, of all functions together and with its own work. Attaching fails with
    /// [`UnusableBudget`] if that is nothing, or more than all CPU time.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.options.budget = budget;
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
        let budget = self.options.budget;
        let unusable = || UnusableBudget { option: "budget", budget };
        budget.problem().map_or(Ok(()), |_| Err(Error::Consumer(Box::new(unusable()))))?;
        // A consumer is attached once.
        let _ = self.used_before.set(self.core.time.used());
        let _ = self.core.sampler.set(Sampler::new(probes, self.core.time)?);
        Ok(())
    }

    fn start(&self, probe: ProbeId) -> Start {
        let begins = self.core.sampler.get().is_some_and(|sampler| begins(sampler.step(probe)));
        if begins { Start::Counted } else { Start::Off }
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        let used = self.used_before.get().copied().unwrap_or_default();
        let besides = self.besides.get().copied().unwrap_or_default();
        self.core.begin(Running::new(&self.core, self.options, switch, used, besides)?);
        if !self.options.is_stepped {
            let daemon = Daemon::start(&self.core)?;
            *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(daemon);
        }
        Ok(())
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        if let Some(sampler) = self.core.sampler.get() {
            let _ = sampler.sample(event);
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
        self.core.sampler.get()?.sample(event)
    }

    /// The functions, by the numbers of [`Timed`].
    pub(super) fn functions(&self) -> &[Function] {
        self.core.sampler.get().map_or(&[], |it| &it.selected.functions)
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
