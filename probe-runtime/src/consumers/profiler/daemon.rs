//! What looks, and what it does then: the daemon, or whoever steps the profiler.
//!
//! Order of a look: what was seen is read ▸ functions that are done are disarmed, and their sites
//! made latent, not waiting for anybody; of those that are only counted from here on, the exits' ▸
//! those whose turn it is have their sites made active, with one barrier for all, if any of them
//! are to be timed ▸ these are armed. So a call that is timed has both its function's sites active,
//! whatever a thread had fetched. Of one that is counted, a thread may for a moment execute what
//! was there before, and miss it: windows are a thousand times as long.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::costs::Rehearsed;
use super::estimate::Estimate;
use super::progress::Progress;
use super::sampler::{Sampler, Seen};
use super::schedule::{Orders, Reading, Schedule, Settings};
use super::time::{Time, Used};
use crate::control::Switch;
use crate::error::Error;
use crate::os::fork::process;
use crate::os::masked::{self, Masked};
use crate::patch::Visibility;

/// What hits, looks and reports share.
pub(super) struct Core {
    pub(super) time: Time,
    pub(super) sampler: OnceLock<Sampler>,
    running: Mutex<Option<Running>>,
    is_over: AtomicBool,
    /// The one that the daemon is in.
    process: u64,
}

/// What looks change.
pub(super) struct Running {
    pub(super) schedule: Schedule,
    rehearsed: Rehearsed,
    /// At which epoch, last.
    rehearsed_at: u32,
    switch: Switch,
    scale: f64,
    /// The one that has used that.
    process: u64,
    used: Used,
    /// Whether a thread of its own looks.
    has_daemon: bool,
    progress: Progress,
    /// When it was asked for last.
    asked: u64,
    /// What the last look took of its thread, in nanoseconds.
    own: u64,
    /// Sites that could not be switched at the last try.
    pub(super) refused: usize,
    /// Whether the thread that looked has panicked.
    pub(super) has_given_up: bool,
}

impl Core {
    pub(super) fn new(time: Time) -> Self {
        Self {
            time,
            sampler: OnceLock::new(),
            running: Mutex::new(None),
            is_over: AtomicBool::new(false),
            process: process(),
        }
    }

    /// `None` in a forked child, if the daemon was at work when it was forked.
    pub(super) fn running(&self) -> Option<MutexGuard<'_, Option<Running>>> {
        if self.is_here() {
            return Some(self.running.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.running.try_lock() {
            Ok(running) => Some(running),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether this is the process that it was made in, not a forked child.
    fn is_here(&self) -> bool {
        self.process == process()
    }

    /// All of its sites are active: hits count from here on. `has_daemon` says that a thread of its
    /// own looks.
    pub(super) fn begin(
        &self,
        settings: Settings,
        scale: f64,
        rehearsed: Rehearsed,
        switch: Switch,
        has_daemon: bool,
    ) {
        let Some(sampler) = self.sampler.get() else { return };
        let functions = sampler.functions().len();
        let used = self.time.used();
        let base = Base { at: self.time.now(), progress: 0.0, busy: 1.0 };
        let mut schedule = Schedule::new(settings, rehearsed.costs(), functions, base.at);
        let all: Vec<_> = (0..functions).collect();
        for (function, reading) in self.readings(sampler, &switch, &all, &base).into_iter().enumerate() {
            schedule.opened(function, reading);
            sampler.arm(function);
        }
        let mut progress = Progress::new(used);
        progress.now(self.time, used, 0);
        let running = Running {
            schedule,
            rehearsed,
            rehearsed_at: 0,
            switch,
            scale,
            process: process(),
            used,
            has_daemon,
            own: 0,
            progress,
            asked: base.at,
            refused: 0,
            has_given_up: false,
        };
        if let Some(mut place) = self.running() {
            *place = Some(running);
        }
    }

    /// What was seen of each of these functions until now; `base` is a moment ago.
    fn readings(&self, sampler: &Sampler, switch: &Switch, functions: &[usize], base: &Base) -> Vec<Reading> {
        let at = self.time.now();
        #[expect(clippy::cast_precision_loss, reason = "a moment")]
        let since = at.saturating_sub(base.at) as f64;
        let progress = base.progress + since * base.busy;
        let entries: Vec<_> =
            functions.iter().flat_map(|function| sampler.probes(*function).0).copied().collect();
        let mut counted = switch.counted(&entries).into_iter();
        let reading = |(function, seen): (&usize, Seen)| {
            let mut of_this = counted.by_ref().take(sampler.probes(*function).0.len());
            let resumed: u64 = of_this.by_ref().take(sampler.resuming(*function)).sum();
            let counted = resumed + of_this.sum::<u64>();
            Reading { at, progress, seen: Seen { counted, resumed: seen.resumed + resumed, ..seen } }
        };
        functions.iter().zip(sampler.seen(functions)).map(reading).collect()
    }

    /// How far the program is now.
    fn ask(&self, used: Used, running: &mut Running) -> Base {
        let mut progress = std::mem::take(&mut running.progress);
        let base = self.base(used, &mut progress, running);
        (running.progress, running.asked) = (progress, base.at);
        base
    }

    fn base(&self, used: Used, progress: &mut Progress, running: &Running) -> Base {
        let at = self.time.now();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "nanoseconds between two looks"
        )]
        let since = (at.saturating_sub(running.asked) as f64 * running.scale) as u64;
        let progress = progress.now(self.time, used, since) / running.scale;
        Base { at, progress, busy: running.schedule.busy }
    }

    /// What is known of each function as of now.
    pub(super) fn estimates(&self, sampler: &Sampler, running: &Running) -> Vec<(Estimate, Seen)> {
        let base = if self.is_left_behind(running) {
            Base { at: running.asked, progress: running.progress.last() / running.scale, busy: 0.0 }
        } else {
            self.base(self.time.used(), &mut running.progress.clone(), running)
        };
        let all: Vec<_> = (0..sampler.functions().len()).collect();
        let readings = self.readings(sampler, &running.switch, &all, &base);
        let estimate = |(function, reading): (usize, &Reading)| {
            (running.schedule.estimate(function, &readings), reading.seen)
        };
        readings.iter().enumerate().map(estimate).collect()
    }

    /// Looks whenever it is time to, until it is over.
    fn watch(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let wait = self.look(true);
            if wait > SOON {
                thread::park_timeout(wait);
            } else {
                let start = Instant::now();
                while start.elapsed() < wait {
                    std::hint::spin_loop();
                }
            }
        }
    }

    /// Nobody is going to look any more: all becomes latent, and reports say so.
    fn give_up(&self) {
        let (Some(sampler), Some(mut running)) = (self.sampler.get(), self.running()) else { return };
        let Some(running) = running.as_mut() else { return };
        running.has_given_up = true;
        for function in 0..sampler.functions().len() {
            sampler.disarm(function);
            let (entries, exits) = sampler.probes(function);
            [entries, exits].iter().for_each(|probes| {
                running.switch.off(probes, Visibility::Eventual);
            });
        }
    }

    /// For how long it has been at work, in ticks.
    pub(super) fn elapsed(&self, running: &Running) -> u64 {
        let now = if self.is_left_behind(running) { running.asked } else { self.time.now() };
        now.saturating_sub(running.schedule.began)
    }

    /// Whether this is a forked child, and the daemon is the parent's: what is known stays what it
    /// was.
    fn is_left_behind(&self, running: &Running) -> bool {
        running.has_daemon && !self.is_here()
    }

    /// Looks, and switches what is to be switched; returns in how much time to look again.
    /// `is_daemon` says that all of this thread's time is the profiler's.
    pub(super) fn look(&self, is_daemon: bool) -> Duration {
        const NEVER: Duration = Duration::from_secs(1);
        let (Some(sampler), Some(mut running)) = (self.sampler.get(), self.running()) else { return NEVER };
        let Some(running) = running.as_mut() else { return NEVER };
        if is_daemon {
            running.progress.leave_out_this_thread();
        }
        let used = self.time.used();
        if running.process != process() {
            // Times on processors begin anew in a forked child.
            (running.process, running.used, running.own) = (process(), Used::default(), 0);
            running.progress.begin_anew();
        }
        let all = used.by_all.saturating_sub(running.used.by_all);
        let own = if is_daemon {
            used.by_this_thread.saturating_sub(running.used.by_this_thread)
        } else {
            running.own
        };
        let ticks = |nanoseconds| in_ticks(nanoseconds, running.scale);
        let (all, own) = (ticks(all), ticks(own));
        let base = self.ask(used, running);
        let read = |switch: &Switch, base: &Base, functions: &[usize]| {
            self.readings(sampler, switch, functions, base)
        };
        let Running { schedule, switch, .. } = running;
        let orders =
            schedule.look((base.at, base.progress), all, own, |functions| read(switch, &base, functions));
        running.used = used;
        if orders.len() != 0 {
            let before = self.time.used().by_this_thread;
            let opening = running.switch(&orders, sampler);
            let after = self.time.used();
            running.schedule.cost.switching +=
                in_ticks(after.by_this_thread.saturating_sub(before), running.scale);
            // That took a while.
            let base = self.ask(after, running);
            let Running { schedule, switch, .. } = running;
            schedule.catch_up(|functions| read(switch, &base, functions));
            let readings = read(switch, &base, &opening);
            opening.iter().zip(readings).for_each(|(function, reading)| schedule.opened(*function, reading));
            orders.time.iter().for_each(|function| sampler.arm(*function));
        }
        running.rehearse();
        if !is_daemon {
            running.own = self.time.used().by_this_thread.saturating_sub(used.by_this_thread);
        }
        let now = self.time.now();
        #[expect(clippy::cast_precision_loss, reason = "of a time to sleep")]
        let left = running.schedule.next().saturating_sub(now) as f64 * running.scale;
        Duration::try_from_secs_f64(left / 1e9).unwrap_or(NEVER).min(NEVER)
    }
}

/// In one of so many epochs, hits are rehearsed.
const REHEARSED: u32 = 64;

impl Running {
    /// Switches what is to be switched; returns what was latent.
    fn switch(&mut self, orders: &Orders, sampler: &Sampler) -> Vec<usize> {
        let switch = &self.switch;
        let (mut off, mut on, mut counted, mut delivered) = (vec![], vec![], vec![], vec![]);
        orders.off.iter().chain(&orders.count).for_each(|function| sampler.disarm(*function));
        for function in &orders.off {
            let (entries, exits) = sampler.probes(*function);
            off.extend(entries.iter().chain(exits));
        }
        for function in &orders.count {
            let (entries, exits) = sampler.probes(*function);
            counted.extend(entries);
            off.extend(exits);
            on.extend(entries);
        }
        for function in &orders.time {
            let (entries, exits) = sampler.probes(*function);
            delivered.extend(entries);
            on.extend(entries.iter().chain(exits));
        }
        switch.count(&counted);
        switch.deliver(&delivered);
        let visibility = if orders.time.is_empty() { Visibility::Eventual } else { Visibility::Synchronous };
        self.refused = 0;
        for (probes, is_on) in [(off, false), (on, true)] {
            if !probes.is_empty() {
                let report = if is_on {
                    self.switch.on(&probes, visibility)
                } else {
                    self.switch.off(&probes, Visibility::Eventual)
                };
                self.refused += report.refused();
            }
        }
        let all = orders.count.iter().chain(&orders.time);
        all.copied().filter(|function| self.schedule.is_opening(*function)).collect()
    }

    /// Now and then, what hits take is tried again.
    fn rehearse(&mut self) {
        let epochs = self.schedule.epochs;
        if epochs.wrapping_sub(self.rehearsed_at) >= REHEARSED {
            self.rehearsed_at = epochs;
            self.rehearsed.again();
            self.schedule.costs = self.rehearsed.costs();
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("time", &self.time).finish_non_exhaustive()
    }
}

/// Sleeping so long takes longer, and more of the processor, than waiting.
const SOON: Duration = Duration::from_micros(60);

/// A moment that is not long ago.
struct Base {
    at: u64,
    progress: f64,
    /// Processors that the program uses.
    busy: f64,
}

#[expect(clippy::cast_precision_loss, reason = "between two looks")]
fn in_ticks(nanoseconds: u64, scale: f64) -> f64 {
    nanoseconds as f64 / scale
}

/// The thread that looks. It takes none of the program's signals, and ends when this is dropped.
#[derive(Debug)]
pub(super) struct Daemon {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub(super) fn start(core: &Arc<Core>) -> Result<Self, Error> {
        let of_thread = Arc::clone(core);
        let masked = Masked::new();
        let thread = thread::Builder::new().name("probe-profiler".to_owned()).spawn(move || {
            masked::wake_in_time();
            // What it has said is on stderr; the program goes on.
            if catch_unwind(AssertUnwindSafe(|| of_thread.watch())).is_err() {
                of_thread.give_up();
            }
        });
        drop(masked);
        Ok(Self { core: Arc::clone(core), thread: Some(thread.map_err(Error::Thread)?) })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.core.is_here() {
            // The thread is the parent's. Who waited for it here would wait for ever.
            std::mem::forget(thread);
            return;
        }
        self.core.is_over.store(true, Ordering::Release);
        thread.thread().unpark();
        // It does not panic; if it has, it is over.
        let _ = thread.join();
    }
}
