//! Rules that this program follows by itself: `PROBE_RULES`.
//!
//! Life cycle: [`follow`] starts the thread `probe-rules`, if the variable names a file ▸ the
//! thread attaches the consumers of the figures, and waits for the end of each window ▸ rules fire
//! and end ▸ as the program exits, the thread finishes recordings, and logs the numbers of each
//! rule. A forked child has no such thread, and none of its attachments.
//!
//! Cost: one wake-up in each window, and a reading of each consumer. A program without the variable
//! has no thread.

mod host;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use probe_protocol::OwnRules;

use super::answer::cut;
use super::described::SPEC;
use super::state::{self, lock};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::fork::process;
use crate::engine::os::signal_mask::SignalsBlocked;
use host::{Host, Log};
use probe_lang::rules::{Engine, RuleDriver, RuleHost};

/// The thread's name.
const NAME: &str = "probe-rules";

/// The time of a window.
const EVERY: Duration = Duration::from_secs(1);

/// The time that the program's end leaves to the thread.
const AT_EXIT: Duration = Duration::from_secs(5);

/// The process whose thread it is; 0 without one.
static PROCESS: AtomicU64 = AtomicU64::new(0);
static CURRENT: Mutex<Option<Arc<Stop>>> = Mutex::new(None);

/// How the thread is told to end, and tells that it has. Others see its firings, too.
#[derive(Default)]
struct Stop {
    /// Without the firings.
    followed: OwnRules,
    firings: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    is_asked: bool,
    has_ended: bool,
}

impl Stop {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most for this time, and returns early if the state becomes as asked for. Returns
    /// whether it is.
    fn wait(&self, at_most: Duration, is_it: fn(&State) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, |state| !is_it(state));
        is_it(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Follows the rules of a file from now on, until the program exits, and logs to a file, or else to
/// stderr. If it follows some already, nothing changes.
pub(crate) fn follow(engine: Engine, file: String, log: Option<&Path>) -> Result<(), Error> {
    static AT_EXIT_ONCE: std::sync::Once = std::sync::Once::new();
    state::require()?;
    // Forks wait for this lock, so a child never finds the lock below taken.
    let _unforked = lock();
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if PROCESS.load(Ordering::Relaxed) == process() {
        return Ok(());
    }
    let rules = engine.rules().count().try_into().unwrap_or(u32::MAX);
    let followed = OwnRules { file: cut(file, SPEC), rules, firings: 0 };
    let stop = Arc::new(Stop { followed, ..Stop::default() });
    let of_thread = Arc::clone(&stop);
    let driver = RuleDriver::new(engine, Host::new(Log::open(log)));
    // Without it, the last lines of the log are missing, and recordings end early.
    AT_EXIT_ONCE.call_once(|| _ = os::process::at_exit(at_exit));
    // Only the program's own threads may run its signal handlers.
    let masked = SignalsBlocked::new();
    let run = move || {
        let _ended = Ended(&of_thread);
        run(driver, &of_thread);
    };
    let thread = thread::Builder::new().name(NAME.to_owned()).spawn(run);
    drop(masked);
    thread.map_err(Error::Thread)?;
    *current = Some(stop);
    PROCESS.store(process(), Ordering::Relaxed);
    Ok(())
}

/// Returns the rules that this process follows. Forks wait for the agent's state, which the caller
/// has locked.
pub(super) fn followed(_unforked: &state::State) -> Option<OwnRules> {
    if PROCESS.load(Ordering::Relaxed) != process() {
        return None;
    }
    let stop = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    let is_followed = !stop.lock().has_ended;
    is_followed.then(|| OwnRules { firings: stop.firings.load(Ordering::Relaxed), ..stop.followed.clone() })
}

/// Tells that the thread has ended, also by a panic.
struct Ended<'a>(&'a Stop);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.set(|state| state.has_ended = true);
    }
}

fn run(mut driver: RuleDriver<Host>, stop: &Stop) {
    os::heavy_barrier();
    let Ok(()) = driver.start(std::process::id());
    let mut from = driver.host.elapsed();
    let mut next = from + EVERY;
    loop {
        let until = driver.next_due().map_or(next, |due| due.min(next));
        if stop.wait(until.saturating_sub(driver.host.elapsed()), |state| state.is_asked) {
            driver.host.is_exiting = true;
            let Ok(()) = driver.finish();
            let Ok(()) = driver.summarize("program");
            return;
        }
        let now = driver.host.elapsed();
        let Ok(()) = driver.finish_recordings(Some(now));
        if now >= next {
            let Ok(readings) = driver.read();
            let Ok(()) = driver.step(readings, from, now);
            let firings = driver.engine().totals().map(|it| u64::from(it.firings)).sum();
            stop.firings.store(firings, Ordering::Relaxed);
            // A late window skips those that it missed.
            (from, next) = (now, driver.host.elapsed() + EVERY);
        }
    }
}

extern "C" fn at_exit() {
    let _whole = Uncancellable::new();
    // In a forked child the thread is missing, and may have held the locks.
    if PROCESS.load(Ordering::Relaxed) != process() {
        return;
    }
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(stop) = current {
        stop.set(|state| state.is_asked = true);
        stop.wait(AT_EXIT, |state| state.has_ended);
    }
}
