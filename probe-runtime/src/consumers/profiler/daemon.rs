//! What looks, and what it does then: the daemon, or whoever steps the profiler.
//!
//! Order of a look: what was seen is read ▸ functions that are done are disarmed, and their sites made latent, not waiting for
//! anybody ▸ those whose turn it is have their sites made active, with one barrier for all ▸ they are armed. So a
//! hit that counts has both its function's sites active, whatever a thread had fetched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, process};

use super::estimate::Estimate;
use super::progress::Progress;
use super::sampler::{Sampler, Seen};
use super::schedule::{Reading, Schedule, Settings};
use super::time::{Time, Used};
use crate::control::Switch;
use crate::error::Error;
use crate::os::masked::Masked;
use crate::patch::Visibility;
use crate::registry::ProbeId;

/// What hits, looks and reports share.
pub(super) struct Core {
    pub(super) time: Time,
    pub(super) sampler: OnceLock<Sampler>,
    running: Mutex<Option<Running>>,
    is_over: AtomicBool,
    /// Where the daemon is.
    process: u32,
}

/// What looks change.
pub(super) struct Running {
    pub(super) schedule: Schedule,
    switch: Switch,
    scale: f64,
    used: Used,
    progress: Progress,
    /// When it was asked for last.
    asked: u64,
    /// What the last look took of its thread, in nanoseconds.
    own: u64,
    /// Sites that could not be switched at the last try.
    pub(super) refused: usize,
}

impl Core {
    pub(super) fn new(time: Time) -> Self {
        Self {
            time,
            sampler: OnceLock::new(),
            running: Mutex::new(None),
            is_over: AtomicBool::new(false),
            process: process::id(),
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
        self.process == process::id()
    }

    /// All of its sites are active: hits count from here on.
    pub(super) fn begin(&self, settings: Settings, scale: f64, switch: Switch) {
        let Some(sampler) = self.sampler.get() else { return };
        let functions = sampler.functions().len();
        let used = self.time.used();
        let base = Base { at: self.time.now(), progress: 0.0, busy: 1.0 };
        let mut schedule = Schedule::new(settings, functions, base.at);
        for function in 0..functions {
            schedule.opened(function, self.reading(sampler, function, &base));
            sampler.arm(function, schedule.mode(function));
        }
        let mut progress = Progress::default();
        progress.now(self.time, used, 0, sampler);
        let running = Running { schedule, switch, scale, used, own: 0, progress, asked: base.at, refused: 0 };
        if let Some(mut place) = self.running() {
            *place = Some(running);
        }
    }

    /// What was seen of a function until now; `base` is a moment ago.
    fn reading(&self, sampler: &Sampler, function: usize, base: &Base) -> Reading {
        let at = self.time.now();
        #[expect(clippy::cast_precision_loss, reason = "a moment")]
        let since = at.saturating_sub(base.at) as f64;
        Reading { at, progress: base.progress + since * base.busy, seen: sampler.seen(function) }
    }

    /// How far the program is now.
    fn ask(&self, used: Used, sampler: &Sampler, running: &mut Running) -> Base {
        let mut progress = std::mem::take(&mut running.progress);
        let base = self.base(used, sampler, &mut progress, running);
        (running.progress, running.asked) = (progress, base.at);
        base
    }

    fn base(&self, used: Used, sampler: &Sampler, progress: &mut Progress, running: &Running) -> Base {
        let at = self.time.now();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "nanoseconds between two looks"
        )]
        let since = (at.saturating_sub(running.asked) as f64 * running.scale) as u64;
        let progress = in_ticks(progress.now(self.time, used, since, sampler), running.scale);
        Base { at, progress, busy: running.schedule.busy }
    }

    /// What is known of each function as of now.
    pub(super) fn estimates(&self, sampler: &Sampler, running: &Running) -> Vec<(Estimate, Seen)> {
        let mut progress = running.progress.clone();
        let base = self.base(self.time.used(), sampler, &mut progress, running);
        let estimate = |function| {
            let reading = self.reading(sampler, function, &base);
            (running.schedule.estimate(function, reading), reading.seen)
        };
        (0..sampler.functions().len()).map(estimate).collect()
    }

    /// Looks, and switches what is to be switched; returns in how much time to look again. `is_daemon` says that all of this thread's time is
    /// the profiler's.
    pub(super) fn look(&self, is_daemon: bool) -> Duration {
        const NEVER: Duration = Duration::from_secs(1);
        let (Some(sampler), Some(mut running)) = (self.sampler.get(), self.running()) else { return NEVER };
        let Some(running) = running.as_mut() else { return NEVER };
        let used = self.time.used();
        let all = used.by_all.saturating_sub(running.used.by_all);
        let own = if is_daemon {
            used.by_this_thread.saturating_sub(running.used.by_this_thread)
        } else {
            running.own
        };
        let ticks = |nanoseconds| in_ticks(nanoseconds, running.scale);
        let (all, own) = (ticks(all), ticks(own));
        let base = self.ask(used, sampler, running);
        let read = |function| self.reading(sampler, function, &base);
        let orders = running.schedule.look(base.at, all, own, read);
        running.used = used;
        let probes = |functions: &[usize]| -> Vec<ProbeId> {
            let active = |function: &usize| sampler.probes(*function, running.schedule.mode(*function));
            functions.iter().flat_map(active).copied().collect()
        };
        if !(orders.off.is_empty() && orders.on.is_empty()) {
            running.refused = 0;
        }
        if !orders.off.is_empty() {
            orders.off.iter().for_each(|function| sampler.disarm(*function));
            let report = running.switch.off(&probes(&orders.off), Visibility::Eventual);
            running.refused += report.refused();
        }
        if !orders.on.is_empty() {
            let report = running.switch.on(&probes(&orders.on), Visibility::Synchronous);
            running.refused += report.refused();
            // That took a while.
            let base = self.ask(self.time.used(), sampler, running);
            running.schedule.catch_up(|function| self.reading(sampler, function, &base));
            for function in orders.on {
                running.schedule.opened(function, self.reading(sampler, function, &base));
                sampler.arm(function, running.schedule.mode(function));
            }
        }
        if !is_daemon {
            running.own = self.time.used().by_this_thread.saturating_sub(used.by_this_thread);
        }
        let now = self.time.now();
        #[expect(clippy::cast_precision_loss, reason = "of a time to sleep")]
        let left = running.schedule.next().saturating_sub(now) as f64 * running.scale;
        Duration::try_from_secs_f64(left / 1e9).unwrap_or(NEVER).min(NEVER)
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
            while !of_thread.is_over.load(Ordering::Acquire) {
                let wait = of_thread.look(true);
                if wait > SOON {
                    thread::park_timeout(wait);
                } else {
                    let start = Instant::now();
                    while start.elapsed() < wait {
                        std::hint::spin_loop();
                    }
                }
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
