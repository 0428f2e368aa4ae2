//! Runs an action when a call took too long, such as a snapshot of the events before it.
//!
//! Life cycle: attaching starts a thread, which sleeps ▸ the end of a long call hands its function
//! and time to the thread, and wakes it ▸ the thread runs the action, and rests ▸ dropping the
//! consumer ends the thread, once the action has run for a call that was handed over before. While
//! the thread is busy, further long calls are counted, and run nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::LimitedCalls;
use crate::engine::calls::{CallEnd, Calls, Meter};
use crate::engine::control::{Consumer, ProbeSet};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::os::fork;
use crate::engine::os::signal_mask::SignalsBlocked;
use crate::engine::per_thread::Local;
use probe_core::abi::Kind;

/// Runs an action when a call took longer than a limit: a snapshot of a
/// [flight recorder](crate::Trace::recorder), or attaching more for a while. Entries and exits are
/// paired as described in [`calls`](crate::calls); select both.
///
/// The action runs on a thread of its own, outside of hits, so it may allocate, wait, attach and
/// write files. After it the thread rests for a second ([`rest`](Self::rest)). Calls that are too
/// long meanwhile are [counted](Self::ignored). Dropping the attachment waits until the action has
/// run for a call that ended before. In a forked child the trigger is detached.
///
/// `PROBES='when latency(db::query) > 5ms then snapshot, **=trace(flight)'` does the same without a
/// change of code, see [`init_from_env`](crate::init_from_env).
///
/// Cost: that of [`Calls`](crate::calls::Calls) with one reading of the clock. A call that is too
/// long wakes the thread, which is a system call.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use probe_runtime::{Trace, Trigger, probe, select};
///
/// #[probe(args(*))]
/// fn query(ms: u64) {
///     std::thread::sleep(Duration::from_millis(ms));
/// }
/// query(0);
///
/// let recorder = Arc::new(select("**::query")?.attach(Trace::recorder())?);
/// # let path = std::env::temp_dir().join(format!("slow-{}.probetrace", std::process::id()));
/// // let path = "slow.probetrace";
/// # let (sent, done) = std::sync::mpsc::channel();
/// # let written = path.clone();
/// let trigger = Trigger::over(Duration::from_millis(5), move |call| {
///     eprintln!("{} took {:?}", call.path(), call.elapsed());
///     if let Err(error) = recorder.snapshot(&path) {
///         eprintln!("{error}");
///     }
/// #   sent.send(()).unwrap();
/// });
/// let trigger = select("**::query")?.attach(trigger)?;
/// query(20);
/// # done.recv().unwrap();
/// # assert!(std::fs::remove_file(written).is_ok());
/// # drop(trigger);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Trigger {
    rest: Duration,
    /// Taken when the thread starts.
    action: Mutex<Option<Action>>,
    timed: Arc<LimitedCalls<Self>>,
    pending: Arc<Pending>,
    runner: OnceLock<Runner>,
}

type Action = Box<dyn FnMut(&TriggerCall) + Send>;

/// The call that a [`Trigger`]'s action runs for.
///
/// ```
/// use probe_runtime::Trigger;
/// let trigger = Trigger::over(std::time::Duration::from_millis(5), |call| {
///     eprintln!("{} took {:?} in thread {}", call.path(), call.elapsed(), call.thread());
/// });
/// # drop(trigger);
/// ```
#[derive(Clone, Debug)]
pub struct TriggerCall {
    path: String,
    elapsed: Duration,
    thread: u64,
    pending: Arc<Pending>,
}

impl TriggerCall {
    /// Returns the function's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the time that it took, from entry to exit.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the thread on which it ended, as [`Event::thread`] counts them.
    pub fn thread(&self) -> u64 {
        self.thread
    }

    /// Returns the number of calls so far that took too long while the trigger was busy or rested,
    /// as [`Trigger::ignored`] does.
    pub fn ignored(&self) -> u64 {
        self.pending.ignored.load(Relaxed)
    }

    /// Waits for this time, or until somebody drops the trigger. Returns whether the time is over.
    /// Call it in the action: one that attaches more for a while then delays nobody who drops the
    /// trigger.
    ///
    /// ```
    /// use std::time::Duration;
    /// use probe_runtime::{Trigger, probe, select};
    ///
    /// #[probe]
    /// fn query() {}
    /// query();
    ///
    /// let trigger = Trigger::over(Duration::ZERO, |call| {
    ///     let is_over = call.wait(Duration::from_secs(3600));
    ///     assert!(!is_over);
    /// });
    /// let trigger = select("**::query")?.attach(trigger)?;
    /// query();
    /// drop(trigger);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn wait(&self, time: Duration) -> bool {
        self.pending.wait_for(time)
    }
}

/// The thread, in the process that started it.
struct Runner {
    thread: Thread,
    handle: Mutex<Option<JoinHandle<()>>>,
    process: u64,
}

/// The call that is handed to the thread.
#[derive(Default, Debug)]
struct Pending {
    /// One of the states below.
    state: AtomicU64,
    /// Whether the thread is to end.
    is_over: AtomicBool,
    function: AtomicU64,
    nanoseconds: AtomicU64,
    thread: AtomicU64,
    ignored: AtomicU64,
}

/// The thread waits for a call.
const IDLE: u64 = 0;
/// A hit is handing over a call.
const TAKEN: u64 = 1;
/// The thread has a call, and is busy with it.
const READY: u64 = 2;

impl Trigger {
    /// Creates a trigger that runs this action when a call took longer than this. A panic of the
    /// action ends that run, and no later one.
    pub fn over(limit: Duration, action: impl FnMut(&TriggerCall) + Send + 'static) -> Self {
        Self {
            rest: Duration::from_secs(1),
            action: Mutex::new(Some(Box::new(action))),
            timed: Arc::new(LimitedCalls::new(limit)),
            pending: Arc::default(),
            runner: OnceLock::new(),
        }
    }

    /// Sets the time between the end of a run and the next one, a second by default.
    ///
    /// ```
    /// use std::time::Duration;
    /// let trigger = probe_runtime::Trigger::over(Duration::from_millis(5), |_| ()).rest(Duration::from_secs(60));
    /// # drop(trigger);
    /// ```
    #[must_use]
    pub fn rest(mut self, time: Duration) -> Self {
        self.rest = time;
        self
    }

    /// Returns the number of calls that took too long while the thread was busy or rested.
    pub fn ignored(&self) -> u64 {
        self.pending.ignored.load(Relaxed)
    }

    /// Returns a line for each of the first functions whose calls are not timed.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let left_out = self.timed.calls.get().map(Calls::left_out).unwrap_or_default();
        left_out.iter().take(3).map(ToString::to_string).collect()
    }

    #[cold]
    fn fire(&self, function: usize, elapsed: Duration, thread: u64) {
        let pending = &*self.pending;
        if pending.state.compare_exchange(IDLE, TAKEN, Acquire, Relaxed).is_err() {
            pending.ignored.fetch_add(1, Relaxed);
            return;
        }
        pending.function.store(function as u64, Relaxed);
        pending.nanoseconds.store(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        pending.thread.store(thread, Relaxed);
        pending.state.store(READY, Release);
        self.runner.get().into_iter().for_each(|runner| runner.thread.unpark());
    }

    fn start(&self) -> Result<Runner, Error> {
        let action = self.action.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut action) = action else {
            return Err(Error::Consumer("a trigger can be attached only once; make another one".into()));
        };
        let (timed, pending, rest) = (Arc::clone(&self.timed), Arc::clone(&self.pending), self.rest);
        let masked = SignalsBlocked::new();
        let handle = thread::Builder::new().name("probe-trigger".to_owned()).spawn(move || {
            while pending.wait() {
                if let Some(call) = call(&pending, &timed) {
                    // The panic's message was printed.
                    let _ = catch_unwind(AssertUnwindSafe(|| action(&call)));
                }
                pending.wait_for(rest);
                pending.state.store(IDLE, Release);
            }
        });
        drop(masked);
        let handle = handle.map_err(Error::Thread)?;
        let thread = handle.thread().clone();
        Ok(Runner { thread, handle: Mutex::new(Some(handle)), process: fork::process() })
    }
}

const POINTS: &str = "these probes are points";

fn untimed(why: &str) -> Error {
    Error::Consumer(format!("no calls can be timed here: {why}; select entries and exits").into())
}

/// Returns the call that was handed over.
fn call(pending: &Arc<Pending>, timed: &LimitedCalls<Trigger>) -> Option<TriggerCall> {
    let function = usize::try_from(pending.function.load(Relaxed)).ok()?;
    let path = timed.calls.get()?.functions().get(function)?.path().to_owned();
    let elapsed = Duration::from_nanos(pending.nanoseconds.load(Relaxed));
    let (thread, pending) = (pending.thread.load(Relaxed), Arc::clone(pending));
    Some(TriggerCall { path, elapsed, thread, pending })
}

impl Pending {
    /// Waits for a call. Returns whether there is one, and not the end.
    fn wait(&self) -> bool {
        loop {
            // A call that was handed over before the end is not lost.
            let is_over = self.is_over.load(Acquire);
            if self.state.load(Acquire) == READY {
                return true;
            }
            if is_over {
                return false;
            }
            thread::park();
        }
    }

    /// Waits for this time, or until the thread is to end. Returns whether the time is over.
    fn wait_for(&self, time: Duration) -> bool {
        let began = Instant::now();
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            if self.is_over.load(Acquire) {
                return false;
            }
            thread::park_timeout(left);
        }
        true
    }
}

impl Meter<1> for Trigger {
    /// The thread's number.
    type Head = AtomicU64;
    type Part = ();

    const NOTES: bool = true;

    reads_clock!(timed.clock);

    #[inline]
    fn begin(&self, local: Local<'_, AtomicU64, ()>, _function: usize, _outer: u64) -> u64 {
        local.head().store(local.thread(), Relaxed);
        0
    }

    #[inline]
    fn end(&self, ended: &CallEnd<'_, 1, AtomicU64, ()>) {
        if let Some(elapsed) = ended.completed.as_ref().and_then(|call| self.timed.over(call.total[0])) {
            self.fire(ended.function, elapsed, ended.head.load(Relaxed));
        }
    }
}

impl Consumer for Trigger {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn needs_thread(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.timed.prepare(probes)?;
        if let Some(calls) = self.timed.calls.get().filter(|calls| calls.functions().is_empty()) {
            match calls.left_out().last() {
                Some(left_out) if left_out.is_point() => return Err(untimed(POINTS)),
                Some(left_out) if probes.room() == 0 => return Err(untimed(&left_out.to_string())),
                // The rest of a function may join.
                _ => (),
            }
        }
        let _ = self.runner.set(self.start()?);
        Ok(())
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        if probes.with_definitions(|all| all.map(|(_, it)| it.kind()).all(|kind| kind == Kind::Point)) {
            return Err(untimed(POINTS));
        }
        self.timed.calls.join(probes)
    }

    #[inline(always)]
    fn hit(&self, event: &Event<'_>) {
        self.timed.calls.hit(event, self);
    }
}

impl Trigger {
    /// Ends the thread, and waits for that: the action runs for a call that was handed over before,
    /// and no longer waits. No later call runs it.
    pub(crate) fn end(&self) {
        let Some(runner) = self.runner.get().filter(|runner| !runner.is_parents()) else { return };
        self.pending.is_over.store(true, Release);
        runner.thread.unpark();
        let handle = runner.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The action itself may drop the attachment.
        if runner.thread.id() != thread::current().id() {
            let _ = handle.map(JoinHandle::join);
        }
    }
}

impl Runner {
    /// Returns whether this is a forked child. The thread is its parent's then.
    fn is_parents(&self) -> bool {
        self.process != fork::process()
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        self.end();
        if self.runner.get().is_some_and(Runner::is_parents) {
            // In this process there is no thread to join or to detach.
            std::mem::forget(self.runner.take());
        }
    }
}

impl_debug!(Trigger: timed, rest);
