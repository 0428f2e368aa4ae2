//! Counts and times calls within a budget.
//!
//! ```text
//! hits ▶ sampler (modes, the window) ▶ thread_state (each thread's calls and sums)
//!           ▲ switches, opens windows                 ▼ reads
//! daemon ▶ controller (accounts) ▶ rebalance (modes), windows (times), shares (CPU samples)
//!                                                     ▼
//!          costs (of hits) ▶ function_state (sums) ▶ estimate ▶ report
//! ```
//! The controller keeps the cost within the [budget](Budget).

mod budget;
mod controller;
mod costs;
mod estimate;
mod function_state;
mod rebalance;
mod report;
mod sampler;
#[cfg(all(probe_backend = "patched", not(miri)))]
mod shares;
mod thread_state;
mod time;
mod windows;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub use budget::{Budget, UnusableBudget};
use controller::{Controller, Daemon, ProfilerOptions, ProfilerState};
pub use estimate::Estimated;
pub use report::{FunctionProfile, Profile, ProfileCost};
pub(super) use sampler::Timed;
use sampler::{Sampler, begins};
pub(super) use thread_state::MAX_TIMED_CALLS;
use time::{TimeSource, Used};

use crate::engine::calls::Function;
use crate::engine::clock::Clock;
use crate::engine::control::{Consumer, DeliveryMode, ProbeSet, Start, Switch};
use crate::engine::dispatch::{Event, Quick, QuickListener, quick};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// Counts the calls of all functions, and times them, within a [budget](Self::budget). Safe to
/// leave on.
///
/// Each call of most functions is counted. Functions that are called seldom and take 2 µs or more
/// are timed at each call, beginning soon after their first one. The others are timed in *windows*:
/// 60 µs in which all calls that begin are timed, to their ends. If counting each call of a
/// function would exceed the budget, windows count its calls, too. Each stretch of time has one
/// window, at a random place. So windows represent all of the time, whatever the program does. If
/// these functions have more than some 2,000 sites together (8,000, if they are 256 or fewer), a
/// window has as many sites as the budget pays for: those of the functions with the largest shares
/// of the CPU time, and a random part of the others.
///
/// On x86-64 Linux, the kernel also samples which code the program's threads execute
/// (`perf_event_open(2)`; no signals). Its cost does not depend on the number of sites. So a second
/// tells the functions that take most of the CPU time.
///
/// Unlike a profiler that only samples instants, this one sees every function that is called,
/// including short and rare ones.
///
/// Select entries and exits (`net::*`, without a `kind`). The attachment prints as a table, with
/// the function of the most CPU time first; without samples, that of the most time in itself.
/// [`profile`](Self::profile) has the same for programs. But for `CPU`, times are wall time, waits
/// included:
///
/// | column | meaning |
/// |---|---|
/// | `CPU`, `±` | [`share`](FunctionProfile::share): the part of the CPU time in the function's machine code; no such column if nothing was sampled |
/// | `calls`, `±` | calls that began, and the error of that; `exact` if each was counted. All polls of a future are one call |
/// | `rate` | calls per second, since it was attached |
/// | `mean` | the time of a call, from entry to exit; for a future, of its polls without the waits between them |
/// | `self` | the time of all calls, without their calls of other functions in the table |
/// | `total`, `±` | the time of all calls that have ended, from entry to exit |
/// | `samples` | calls that were timed; for a future, polls |
/// | `polls`, `±` | polls that began, if there are futures |
///
/// The true number is within the error in 95 of 100 cases. Errors come from the spread between
/// windows, from the cost of hits, and from calls that no window has seen because they are long and
/// rare. So a run of some seconds tells more than one of a tenth of a second. If an error would be
/// as large as its number, or there is no known upper bound, the table shows a lower bound as
/// `≥`. It shows `-` if nothing is known. Calls of a function inside of itself each count; unless
/// each was timed, their time is a lower bound.
///
/// Further uncertainty:
/// - A call is timed [in order](crate::Consumer::needs_order), so that the time of its hits is
///   known within some 4 ns, and can be subtracted. If a function is called seldom, the code of its
///   hits has left the caches, and such a hit takes some 100 ns that are not subtracted.
/// - The table shows `self` without its error, which [`own`](FunctionProfile::own) has. It is `-`
///   if there were too many sites for one window.
/// - `CPU` is of threads that have made hits, in user mode. Code that the function calls is not in
///   it, unless the compiler has inlined it and it has no probes. Within one machine function,
///   what lies between the sites of an inlined function counts as its code; compilers may move
///   some of it. Where the body of a future is a machine function without sites, its time is in
///   other code. Up to 128 threads are sampled. None are if the kernel does not permit it, or if a
///   filter of system calls (seccomp) is installed.
/// - Where a thread has several stacks (stackful coroutines), an exit ends a call whose entry had
///   about its stack pointer. A call that another thread continues has no time.
/// - If one thread makes only long calls of a function and others make short ones, the error may
///   not cover the long calls.
/// - Functions that join a [persistent](ProbeSet::persistent) attachment are timed from the next
///   look at all functions on: after a tenth of a second, or up to 4 s on a small budget. They are
///   counted from the join on, but for functions of `-finstrument-functions` code whose entry is
///   found before the exit. Until that look, the table shows a lower bound of their calls. The time
///   of letting them join belongs to the thread that has found them, and is not in the budget.
/// - Calls are not seen while the attachment is [paused](crate::Attachment::pause), or a probe is
///   [held](crate::ProbeSet::hold); `rate` is per second of all the time.
///
/// # Which thread patches, and when
/// The profiler has a thread of its own, the daemon. It sleeps until a window begins or ends. Hits
/// never patch: for them, a window ends by the clock. Keep text open for speed
/// (`select("**")?.text_policy(TextPolicy::Open)`): otherwise each batch opens and seals it.
///
/// # Budget
/// The budget is empty at first, and grows with the CPU time that the program uses. It pays for
/// attaching, rehearsing, reading and switching, as measured, for hits, by their number and the
/// time that one takes on this machine, and for samples, by the time for which one interrupts a
/// thread. Attaching comes first: it takes some 0.3 to 1 µs a site, and as much again at the end.
/// So the budget does not hold in a program of tens of thousands of sites that uses only some
/// seconds of CPU time. One of 30,000 sites pays 9 % of its first second.
///
/// A surprise can cost more than that: a function may begin to be called 100 million times a
/// second. Until the profiler looks at all functions again, each of its calls is counted. It looks
/// again the sooner, the more the last surprise has cost. It spends less afterwards until the cost
/// is paid, up to the budget of 5 s. The table shows the cost of profiling. If the first quarter of
/// a second cost more than its budget, the table shows that, too: attaching to thousands of
/// functions takes milliseconds at once. So the budget does not hold in runs of less than a second,
/// and in runs of some seconds of programs with tens of thousands of functions.
///
/// # Cost
/// - A counted call: the same as with [`Count`](crate::Count).
/// - A delivered call: some 20 ns per hit, of which 5 are for order; no lock, no locked
///   instruction, no heap, and no system call.
/// - A timed call: also two readings of the clock, and an `lfence`.
/// - A sample: 1.5 times the interruption of a thread: 1 to 2 µs, on virtual machines 15 to 30.
/// - Memory: for each thread 5 KiB, and some 160 bytes for each function; a counter for each probe;
///   68 KiB of locked memory for each sampled thread.
///
/// See the figures `profiler` and `coverage`.
///
/// # Forks, and the end
/// The daemon ends before dropping the attachment returns. A forked child has no daemon. The
/// attachment there [has failed](crate::Attachment::failure), its sites are latent, and its profile
/// is that at the fork; its threads are not sampled. The profile is empty if another thread was
/// polling at the moment of the fork. A profiler that is [stepped](Self::stepped) continues in
/// the child, with the same exception.
///
/// ```
/// use probe_runtime::profile::Budget;
/// use probe_runtime::{Profiler, probe, select};
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
    options: ProfilerOptions,
    // Dropped before the state that it uses.
    daemon: Mutex<Option<Daemon>>,
    state: Arc<ProfilerState>,
    /// The CPU time when attaching began.
    used_before: OnceLock<Used>,
    /// The additional time of a consumer at either hit of a timed call, in nanoseconds.
    extra_hit_ns: OnceLock<f64>,
}

impl Default for Profiler {
    fn default() -> Self {
        Self::new()
    }
}

impl Profiler {
    /// Creates a profiler with a budget of 1 % of the CPU time, and at most one window in 10 ms.
    pub fn new() -> Self {
        Self::with(TimeSource::Machine(Clock::new()))
    }

    /// Creates a profiler with this clock instead of the machine's. It returns nanoseconds that
    /// never decrease, and serves as CPU time as well. Meant for simulations and tests. The clock
    /// is called on hits.
    pub fn with_clock(nanoseconds: fn() -> u64) -> Self {
        Self::with(TimeSource::Given(nanoseconds))
    }

    fn with(time: TimeSource) -> Self {
        let options = ProfilerOptions {
            min_interval: Duration::from_millis(10),
            budget: Budget::percent(1.0),
            is_stepped: false,
        };
        let (daemon, state) = (Mutex::new(None), Arc::new(ProfilerState::new(time)));
        Self { options, daemon, state, used_before: OnceLock::new(), extra_hit_ns: OnceLock::new() }
    }

    /// Sets the mean time between windows; it is longer if the budget does not pay for that. At
    /// least 3 ms, which is about eight times the length of a window with its preparation.
    #[must_use]
    pub fn epoch(mut self, epoch: Duration) -> Self {
        self.options.min_interval = epoch.max(Duration::from_millis(3));
        self
    }

    /// Sets the budget of all functions together, including the profiler's own work. Attaching
    /// fails with [`UnusableBudget`] if the budget allows nothing, or more than all CPU time.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.options.budget = budget;
        self
    }

    /// Runs without a daemon: the program calls [`poll`](Self::poll) instead, as often as that asks
    /// for.
    #[must_use]
    pub fn stepped(mut self) -> Self {
        self.options.is_stepped = true;
        self
    }

    /// Reads the samples, switches sites that are due, on this thread, and returns the time until
    /// the next poll. By default, the daemon does this. Do not call this on a hit.
    pub fn poll(&self) -> Duration {
        self.state.poll(false)
    }

    /// Returns everything known so far, including calls that have not ended. Do not call this on a
    /// hit.
    pub fn profile(&self) -> Profile {
        Profile::new(&self.state, self.options.budget, None)
    }

    /// Returns the same, of the functions with these probes only.
    pub(crate) fn profile_only(&self, probes: &[ProbeId]) -> Profile {
        Profile::new(&self.state, self.options.budget, Some(probes))
    }
}

impl Consumer for Profiler {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn delivery_mode(&self) -> DeliveryMode {
        DeliveryMode::Switchable
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
        // A consumer is attached only once.
        let _ = self.used_before.set(self.state.time.used());
        let _ = self.state.sampler.set(Sampler::new(probes, self.state.time)?);
        Ok(())
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        if self.state.has_panicked.load(Ordering::SeqCst) {
            return Err(Error::Consumer("the profiler's thread has panicked".into()));
        }
        self.state.sampler.get().map_or(Ok(()), |sampler| sampler.join(probes))
    }

    fn start(&self, probe: ProbeId) -> Start {
        let begins = self.state.sampler.get().is_some_and(|sampler| begins(sampler.act(probe)));
        if begins && !self.state.has_panicked.load(Ordering::SeqCst) { Start::Counted } else { Start::Off }
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        let used = self.used_before.get().copied().unwrap_or_default();
        let extra_hit_ns = self.extra_hit_ns.get().copied().unwrap_or_default();
        self.state.begin(Controller::new(&self.state, self.options, switch, used, extra_hit_ns)?);
        if !self.options.is_stepped {
            let daemon = Daemon::start(&self.state)?;
            *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(daemon);
        }
        Ok(())
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        if let Some(sampler) = self.state.sampler.get() {
            let _ = sampler.sample(event);
        }
    }

    #[expect(unsafe_code, reason = "the consumer is alive while it is called; its hits stay in this crate")]
    fn quick(&self) -> Option<Quick> {
        // SAFETY: the quick part is this consumer. It reads and writes atomics of its own and of
        // its sampler, and reads the processor's counter.
        self.state.time.is_counter().then(|| unsafe { quick(self) })
    }
}

impl QuickListener for Profiler {
    #[inline(always)]
    fn hit_quickly(&self, event: &Event<'_>) -> bool {
        self.state.sampler.get().is_some_and(|sampler| sampler.sample_quickly(event))
    }
}

/// For a consumer that measures the same calls in its own way: it passes on all methods of
/// [`Consumer`] and keeps to this profiler's budget.
impl Profiler {
    /// Sets the consumer's additional time at each of the two hits of a timed call, in nanoseconds.
    /// Called once, before attaching.
    pub(super) fn set_extra_hit_time(&self, nanoseconds: f64) {
        let _ = self.extra_hit_ns.set(nanoseconds);
    }

    /// Handles a hit. Returns whether it is one of a timed call.
    #[inline]
    pub(super) fn sample(&self, event: &Event<'_>) -> Option<Timed> {
        self.state.sampler.get()?.sample(event)
    }

    /// Returns the number of functions that there is room for.
    pub(super) fn room(&self) -> usize {
        self.state.sampler.get().map_or(0, Sampler::room)
    }

    /// Returns the functions, indexed by the numbers of [`Timed`].
    pub(super) fn functions(&self) -> &[Function] {
        self.state.sampler.get().map_or(&[], Sampler::functions)
    }
}

impl_display!(Profiler: profile);

impl_debug!(Profiler: options);

/// Where no code is patched, or no kernel samples the processor's clock, there are no shares.
#[cfg(not(all(probe_backend = "patched", not(miri))))]
mod shares {
    use super::estimate::Estimated;
    use super::sampler::Sampler;

    pub(super) enum Shares {}

    impl Shares {
        pub(super) fn begin() -> Option<Self> {
            None
        }

        pub(super) fn read(&mut self, _sampler: &Sampler, _budget: f64) -> f64 {
            match *self {}
        }

        pub(super) fn take_recent(&mut self) -> Vec<usize> {
            match *self {}
        }

        pub(super) fn is_sampling(&self) -> bool {
            match *self {}
        }

        pub(super) fn of(&self, _function: usize) -> Option<Estimated> {
            match *self {}
        }

        pub(super) fn seen(&self, _function: usize) -> u32 {
            match *self {}
        }

        pub(super) fn samples(&self) -> [u64; 2] {
            match *self {}
        }

        pub(super) fn is_partial(&self) -> bool {
            match *self {}
        }
    }
}
