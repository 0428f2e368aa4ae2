//! The controller keeps the profiler within its budget. It holds the accounts and the state of each
//! function.
//!
//! A *poll* does everything that is due, and returns when to poll again. The daemon polls, or the
//! program that steps the profiler does. The work of a poll is in [`windows`](super::windows) and
//! [`rebalance`](super::rebalance).
//!
//! # Functions whose probes appear while the profiler runs
//! A consumer that takes probes may not wait for its own thread, which switches sites. So a
//! function joins in steps:
//!
//! ```text
//! Consumer::join        ▶ the sampler has the function: hits find it
//! ▸ the runtime adds the probes to the attachment, and counts the function's entries, but for one
//!   that joined before the function's other probes
//! ▸ add_functions       ▶ it has a state, and is in reports
//! ▸ promote (rebalance) ▶ its probes have all joined: entries are counted, and it may be timed
//! ```
//! Until the last step its mode is `Counted` and no window has it, so its estimates are made like
//! those of other functions. If some of its probes are still missing at the second rebalance, its
//! entries become latent until these probes join.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::budget::{Bucket, Budget};
use super::costs::{Costs, RehearsedCosts};
use super::function_state::{FunctionEstimate, FunctionState, Timestamp};
use super::rebalance::{Loads, MeasureMode, RebalanceSchedule};
use super::sampler::Sampler;
use super::shares::Shares;
use super::thread_state::FunctionTotals;
use super::time::{Ticks, TimeSource, Used};
use super::windows::{WindowFunctions, Windows};
use crate::engine::calls::CallEffect;
use crate::engine::control::Switch;
use crate::engine::dispatch::slots;
use crate::engine::error::Error;
use crate::engine::os::fork::process;
use crate::engine::os::signal_mask::{self, SignalsBlocked};
use crate::engine::sites::Visibility;

/// The settings that a profiler begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfilerOptions {
    pub(super) min_interval: Duration,
    pub(super) budget: Budget,
    pub(super) is_stepped: bool,
}

/// The state that hits, polls and reports share.
pub(super) struct ProfilerState {
    pub(super) time: TimeSource,
    pub(super) sampler: OnceLock<Sampler>,
    controller: Mutex<Option<Controller>>,
    is_stopping: AtomicBool,
    /// Whether the daemon has panicked.
    pub(super) has_panicked: AtomicBool,
    /// The number of the process that the daemon runs in.
    process: u64,
}

/// The state that polls change. Times are in nanoseconds since the profiler began, converted with a
/// rough scale.
pub(super) struct Controller {
    pub(super) states: Vec<FunctionState>,
    /// Functions some of whose probes had not joined yet at the last rebalance.
    pub(super) joining: Vec<usize>,
    /// The number of sites of each function.
    pub(super) sites: Vec<u32>,
    pub(super) loads: Loads,
    /// Functions that windows sample, and those of the current window whose calls are counted
    /// there.
    pub(super) window_functions: WindowFunctions,
    pub(super) counted_in_window: Vec<usize>,
    pub(super) windows: Windows,
    pub(super) schedule: RebalanceSchedule,
    /// `None` with a given clock, or if nothing can be sampled.
    pub(super) shares: Option<Shares>,
    pub(super) bucket: Bucket,
    pub(super) switch: Switch,
    pub(super) time: TimeSource,
    /// The time in ticks when the profiler began, and the length of a tick in nanoseconds.
    start_ticks: u64,
    pub(super) scale: f64,
    rehearsed: RehearsedCosts,
    rehearsed_at: f64,
    /// The process whose CPU time is in `used`.
    process: u64,
    used: Used,
    /// Whether a daemon makes the polls.
    has_daemon: bool,
    /// The time at which the accounts were last updated.
    accounted_at: f64,
    totals: [f64; 2],
    /// The recent income per nanosecond, without the part for samples of the processor's clock.
    pub(super) income: f64,
    pub(super) cost: Cost,
    /// Sites that could not be switched at the last attempt.
    pub(super) refused: usize,
}

/// The cost so far: nanoseconds, calls, functions.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cost {
    pub(super) hits: f64,
    pub(super) own: f64,
    pub(super) used: f64,
    pub(super) calls: f64,
    pub(super) toggles: u64,
    /// The length of the beginning, and the share of the CPU time spent in it.
    pub(super) beginning: Option<(f64, f64)>,
}

/// The length of the beginning in nanoseconds. It includes the cost of attaching.
const BEGINNING_NS: f64 = 250e6;

/// The part of the budget for samples of the processor's clock.
pub(super) const SAMPLING_SHARE: f64 = 0.35;

/// The debt at which the profiler spends least: the income of this many nanoseconds.
const FULL_DEBT_NS: f64 = 100e6;

/// The time between rehearsals of hits, in nanoseconds.
const REHEARSAL_INTERVAL_NS: f64 = 200e6;
/// The cost of a rehearsal, in nanoseconds. It must be saved before.
const REHEARSAL_COST_NS: f64 = 120e3;

impl ProfilerState {
    pub(super) fn new(time: TimeSource) -> Self {
        Self {
            time,
            sampler: OnceLock::new(),
            controller: Mutex::new(None),
            is_stopping: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
            process: process(),
        }
    }

    /// Locks the controller; `None` in a forked child if the daemon was polling at the moment of
    /// the fork.
    fn controller(&self) -> Option<MutexGuard<'_, Option<Controller>>> {
        if self.is_own_process() {
            return Some(self.controller.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.controller.try_lock() {
            Ok(controller) => Some(controller),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Calls `act` with the sampler and the controller; `None` before attaching is complete.
    pub(super) fn with<R>(&self, act: impl FnOnce(&Sampler, &mut Controller) -> R) -> Option<R> {
        Some(act(self.sampler.get()?, self.controller()?.as_mut()?))
    }

    /// Returns whether this is the process in which the profiler was made, and not a forked child.
    pub(super) fn is_own_process(&self) -> bool {
        self.process == process()
    }

    /// Starts with the sites in their first state: entries are counted, all others are latent.
    pub(super) fn begin(&self, mut controller: Controller) {
        let (Some(sampler), Some(mut place)) = (self.sampler.get(), self.controller()) else { return };
        // Without a limit, all calls are timed from the beginning.
        if controller.bucket.is_unlimited() {
            let all: Vec<_> = (0..controller.states.len()).collect();
            controller.change(sampler, &all, &vec![MeasureMode::Timed; all.len()]);
        }
        controller.account(sampler);
        controller.plan();
        // The daemon runs on another thread than this.
        controller.used.by_this_thread = 0.0;
        *place = Some(controller);
    }

    /// Calls `report` with the present knowledge of each of these functions, in their order.
    pub(super) fn estimates(
        &self,
        sampler: &Sampler,
        controller: &mut Controller,
        functions: &[usize],
        mut report: impl FnMut(usize, FunctionEstimate, FunctionTotals),
    ) {
        if !controller.rehearsed.is_known() && sampler.totals()[1] > 0.0 {
            controller.rehearsed.rehearse();
        }
        let now = Timestamp { time: self.now_for(controller), worked: controller.worked(self.time.used()) };
        let (costs, threads) = (controller.costs(), slots().count() as f64);
        let others = controller.untimed(sampler, now.time);
        controller.read_and_account(sampler, functions, |function, state, seen| {
            report(function, state.estimate(seen, now, (costs, threads, others)), seen);
        });
    }

    /// Returns the time. A forked child has no daemon, so there it is the time at which the parent
    /// last updated the accounts.
    pub(super) fn now_for(&self, controller: &Controller) -> f64 {
        if controller.has_daemon && !self.is_own_process() {
            controller.accounted_at
        } else {
            controller.now()
        }
    }

    /// Polls, switches sites that are due, and returns the time until the next poll. `is_daemon`
    /// says that all of this thread's time is the profiler's.
    pub(super) fn poll(&self, is_daemon: bool) -> Duration {
        self.with(|sampler, controller| {
            if controller.process != process() {
                // A forked child begins with zero CPU time.
                (controller.process, controller.used) = (process(), Used::default());
            }
            if !is_daemon {
                controller.used.by_this_thread = self.time.used().by_this_thread;
            }
            controller.step(sampler);
            controller.rehearse();
            controller.account(sampler);
            // One nanosecond more, so that a clock of whole nanoseconds has reached the time.
            let left = controller.next() - controller.now() + 1.0;
            Duration::from_secs_f64(left.clamp(0.0, 1e9) / 1e9)
        })
        .unwrap_or(Duration::from_secs(1))
    }

    /// Makes all sites latent after the daemon has panicked. Reports say so.
    fn disable_all(&self) {
        self.has_panicked.store(true, Ordering::SeqCst);
        self.with(|sampler, controller| {
            sampler.close();
            let all: Vec<_> = (0..sampler.len()).collect();
            controller.switch_off(&[sampler.entries(&all), sampler.exits(&all)].concat());
        });
    }
}

impl Controller {
    /// `used` is the CPU time when attaching began. Each hit of a timed call takes `extra_hit_ns`
    /// nanoseconds more.
    pub(super) fn new(
        state: &ProfilerState,
        options: ProfilerOptions,
        switch: Switch,
        used: Used,
        extra_hit_ns: f64,
    ) -> Result<Self, Error> {
        let (time, start_ticks, scale) =
            (state.time, state.time.now(), state.time.nanoseconds_per_tick(true));
        let entries = state.sampler.get().map(|sampler| sampler.first_entries(0..sampler.len()));
        let in_place = Switch::counted_in_place(&entries.unwrap_or_default());
        let states: Vec<_> = in_place.into_iter().map(FunctionState::new).collect();
        let functions = states.len();
        let sites = state.sampler.get().map(|sampler| sampler.sites(0..functions));
        let bucket = Bucket::new(options.budget);
        Ok(Self {
            states,
            joining: Vec::new(),
            sites: sites.unwrap_or_default(),
            loads: Loads::new(functions),
            window_functions: WindowFunctions::default(),
            counted_in_window: Vec::new(),
            windows: Windows::new(
                start_ticks,
                functions,
                options.min_interval.as_secs_f64() * 1e9,
                |time, calls| bucket.price(time, calls),
            ),
            schedule: RebalanceSchedule::new(),
            shares: if let TimeSource::Machine(_) = time { Shares::begin() } else { None },
            income: bucket.income(1.0, 1.0),
            bucket,
            switch,
            time,
            start_ticks,
            scale,
            rehearsed: RehearsedCosts::new(time, scale, extra_hit_ns)?,
            rehearsed_at: 0.0,
            process: process(),
            used,
            has_daemon: !options.is_stepped,
            accounted_at: 0.0,
            totals: [0.0; 2],
            cost: Cost::default(),
            refused: 0,
        })
    }

    pub(super) fn now(&self) -> f64 {
        self.nanoseconds_since_start(self.time.now())
    }

    /// Converts a time in ticks to nanoseconds since the profiler began.
    fn nanoseconds_since_start(&self, ticks: u64) -> f64 {
        ticks.saturating_sub(self.start_ticks) as f64 * self.scale
    }

    /// Returns the costs of hits, as far as they are known. A counted hit costs more if many
    /// functions take turns.
    pub(super) fn costs(&self) -> Costs {
        self.rehearsed.costs.under_pressure(self.loads.cache_pressure)
    }

    /// Reads the sums of these functions, one after the other. For thousands of functions,
    /// allocating a list would take longer than filling it.
    pub(super) fn read<'a>(
        &self,
        sampler: &'a Sampler,
        functions: &'a [usize],
    ) -> impl Iterator<Item = FunctionTotals> + use<'a> {
        let mut counted = self.switch.counted(&sampler.entries(functions)).into_iter();
        let delivered = sampler.seen(self.scale);
        functions.iter().map(move |&function| {
            let mut seen = delivered(function);
            seen.calls = seen.delivered;
            for (&entry, counted) in sampler.probes(function).0.iter().zip(counted.by_ref()) {
                seen.calls += counted as f64;
                seen.resumed += if sampler.act(entry).is(CallEffect::Resume) { counted as f64 } else { 0.0 };
            }
            seen
        })
    }

    /// Updates the accounts since the last update: income, the cost of delivered hits, and that of
    /// the profiler's own work.
    pub(super) fn account(&mut self, sampler: &Sampler) {
        let (now, used, totals) = (self.now(), self.time.used(), sampler.totals());
        let elapsed = (now - self.accounted_at).max(0.0);
        let cpu = used.by_all - self.used.by_all;
        let own = used.by_this_thread - self.used.by_this_thread;
        let [new_hits, new_timed] = [0, 1].map(|it| totals[it] - self.totals[it]);
        let costs = self.costs();
        let of_hits = new_hits * costs.delivered + 2.0 * new_timed * costs.reading;
        let income = self.bucket.income(elapsed, cpu);
        let spent = self.bucket.price(of_hits + own, new_hits / 2.0);
        self.bucket.account(income, spent);
        if elapsed > 0.0 {
            let weight = (elapsed / 1e8).min(1.0);
            let of_clock =
                if self.shares.as_ref().is_some_and(Shares::is_sampling) { SAMPLING_SHARE } else { 0.0 };
            self.income += weight * ((1.0 - of_clock) * income / elapsed - self.income);
        }
        self.cost.hits += of_hits;
        self.cost.own += own;
        self.cost.used += cpu;
        if self.cost.beginning.is_none() && now >= BEGINNING_NS && self.cost.used > 0.0 {
            self.cost.beginning = Some((now, (self.cost.hits + self.cost.own) / self.cost.used));
        }
        (self.accounted_at, self.used, self.totals) = (now, used, totals);
    }

    /// Reads these functions, and accounts for the calls that the runtime has counted. Windows
    /// account for the functions that they alone count.
    pub(super) fn read_and_account(
        &mut self,
        sampler: &Sampler,
        functions: &[usize],
        mut each: impl FnMut(usize, &mut FunctionState, FunctionTotals),
    ) {
        let (mut of_all, mut time, costs) = (0.0, 0.0, self.costs());
        let readings = self.read(sampler, functions);
        for (&function, seen) in functions.iter().zip(readings) {
            let state = &mut self.states[function];
            let (calls, delivered) = std::mem::replace(&mut state.accounted, (seen.calls, seen.delivered));
            let calls = seen.calls - calls;
            self.cost.calls += calls;
            if state.mode != MeasureMode::Sampled {
                let counted = calls - (seen.delivered - delivered);
                of_all += counted;
                time += counted * costs.counted(state.is_in_place, self.loads.others_between(function));
            }
            each(function, state, seen);
        }
        self.spend(of_all, time);
    }

    /// Returns the CPU time of the process so far.
    pub(super) fn used_until(&self, now: Used) -> f64 {
        self.cost.used + (now.by_all - self.used.by_all).max(0.0)
    }

    /// Returns the program's part of the CPU time: without the profiler's part, as of the last
    /// update of the accounts.
    fn worked(&self, now: Used) -> f64 {
        self.used_until(now) - self.cost.own
    }

    /// Returns the timestamp of a moment before the last update of the accounts, or after it.
    fn timestamp_at(&self, ticks: u64, by_all: f64) -> Timestamp {
        let worked = self.cost.used + by_all - self.used.by_all - self.cost.own;
        Timestamp { time: self.nanoseconds_since_start(ticks), worked }
    }

    /// Returns the present timestamp. Call this on the thread that polls.
    pub(super) fn timestamp(&self) -> Timestamp {
        let used = self.time.used_now();
        let own = used.by_this_thread - self.used.by_this_thread;
        Timestamp { time: self.now(), worked: self.worked(used) - own }
    }

    /// Returns the debt: 1 for the income of [`FULL_DEBT_NS`] or more, and -1 for as much of
    /// savings.
    pub(super) fn debt(&self) -> f64 {
        (-self.bucket.level / (self.income * FULL_DEBT_NS).max(f64::MIN_POSITIVE)).clamp(-1.0, 1.0)
    }

    /// Accounts for the hits of this number of calls, which took this time.
    pub(super) fn spend(&mut self, calls: f64, time: f64) {
        self.cost.hits += time;
        self.bucket.account(0.0, self.bucket.price(time, calls));
    }

    /// Rehearses hits if it is time to and the cost is saved.
    fn rehearse(&mut self) {
        let since = self.accounted_at - self.rehearsed_at;
        let price = self.bucket.price(REHEARSAL_COST_NS, 0.0);
        if self.bucket.level >= price && (since >= REHEARSAL_INTERVAL_NS || !self.rehearsed.is_known()) {
            self.rehearsed_at = self.accounted_at;
            self.rehearsed.rehearse();
        }
    }

    /// Gives states to functions that the sampler has added since the last call. Cost: a load if
    /// there are no such functions.
    pub(super) fn add_functions(&mut self, sampler: &Sampler) {
        for function in self.states.len()..sampler.len() {
            let (ticks, by_all) = sampler.added(function);
            self.states.push(FunctionState::joining(self.timestamp_at(ticks, by_all)));
            self.joining.push(function);
        }
        if self.sites.len() < self.states.len() {
            self.sites.extend(sampler.sites(self.sites.len()..self.states.len()));
        }
        self.loads.extend(self.states.len());
    }

    /// Adds functions, and promotes those whose probes have all joined: they may be timed. Returns
    /// these.
    pub(super) fn promote(&mut self, sampler: &Sampler) -> Vec<usize> {
        self.add_functions(sampler);
        if self.joining.is_empty() {
            return Vec::new();
        }
        let probes: Vec<_> = self.joining.iter().map(|it| sampler.probes(*it)).collect();
        let probes: Vec<_> = probes.iter().map(|(entries, exits)| [*entries, *exits].concat()).collect();
        let has_all = self.switch.has_all(&probes);
        let mut has_all = has_all.into_iter();
        let (joined, joining): (Vec<_>, Vec<_>) =
            self.joining.iter().partition(|_| has_all.next() == Some(true));
        self.joining = joining;
        // If a function has waited for two rebalances, some of its probes may never join.
        let is_old = |it: &&usize| self.states[**it].added.time < self.schedule.last.time;
        let old: Vec<_> = self.joining.iter().filter(is_old).copied().collect();
        self.switch_off(&sampler.entries(&old));
        if joined.is_empty() {
            return joined;
        }
        // An entry that was there before the function's other probes is still latent.
        let entries = sampler.entries(&joined);
        self.switch.count(&entries);
        self.switch_on(&entries, Visibility::Eventual);
        let in_place = Switch::counted_in_place(&sampler.first_entries(joined.iter().copied()));
        for (function, is_in_place) in joined.iter().zip(in_place) {
            let state = &mut self.states[*function];
            (state.is_in_place, state.is_joining) = (is_in_place, false);
        }
        joined
    }
}

/// The thread that polls. It receives none of the program's signals, and ends when this is dropped.
pub(super) struct Daemon {
    state: Arc<ProfilerState>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub(super) fn start(state: &Arc<ProfilerState>) -> Result<Self, Error> {
        let of_thread = Arc::clone(state);
        let masked = SignalsBlocked::new();
        let thread = thread::Builder::new().name("probe-profiler".to_owned()).spawn(move || {
            signal_mask::minimise_timer_slack();
            let watch = || {
                while !of_thread.is_stopping.load(Ordering::Acquire) {
                    thread::park_timeout(of_thread.poll(true));
                }
            };
            // The panic hook has printed the message. The program continues.
            if catch_unwind(AssertUnwindSafe(watch)).is_err() {
                of_thread.disable_all();
            }
        });
        drop(masked);
        Ok(Self { state: Arc::clone(state), thread: Some(thread.map_err(Error::Thread)?) })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.state.is_own_process() {
            // The thread is the parent's, so waiting for it here would never end.
            std::mem::forget(thread);
            return;
        }
        self.state.is_stopping.store(true, Ordering::Release);
        thread.thread().unpark();
        // The thread catches panics, so this can't fail.
        let _ = thread.join();
    }
}
