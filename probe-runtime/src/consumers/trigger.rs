//! Runs an action when a call took too long, such as a snapshot of the events before it.
//!
//! Life cycle: attaching starts a thread, which sleeps ▸ the end of a long call hands its function
//! and time to the thread, and wakes it ▸ the thread runs the action, and rests ▸ dropping the
//! consumer ends the thread. While the thread is busy, further long calls are counted, and run
//! nothing.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::calls::{CallEnd, LazyCalls, Meter};
use crate::clock::{Clock, Scale};
use crate::control::{Consumer, ProbeSet};
use crate::dispatch::Event;
use crate::error::Error;
use crate::os::fork;
use crate::os::masked::Masked;
use crate::per_thread::Local;

/// Runs an action when a call took longer than a limit: a snapshot of a
/// [flight recorder](crate::Trace::recorder), or attaching more for a while. Entries and exits are
/// paired as described in [`calls`](crate::calls); select both.
///
/// The action runs on a thread of its own, outside of hits, so it may allocate, wait, attach and
/// write files. After it the thread rests for a second ([`rest`](Self::rest)). Calls that are too
/// long meanwhile are [counted](Self::ignored). In a forked child the trigger is detached.
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
    over: Duration,
    rest: Duration,
    /// Taken when the thread starts.
    action: Mutex<Option<Action>>,
    clock: Clock,
    /// Known before the first hit.
    scale: OnceLock<Scale>,
    calls: Arc<LazyCalls<1, Self>>,
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
}

/// The thread, in the process that started it.
struct Runner {
    thread: Thread,
    handle: Mutex<Option<JoinHandle<()>>>,
    process: u64,
}

/// The call that is handed to the thread.
#[derive(Default)]
struct Pending {
    /// One of the states below.
    state: AtomicU64,
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
/// The thread is to end.
const OVER: u64 = 3;

impl Trigger {
    /// Creates a trigger that runs this action when a call took longer than this. A panic of the
    /// action ends that run, and no later one.
    pub fn over(limit: Duration, action: impl FnMut(&TriggerCall) + Send + 'static) -> Self {
        Self {
            over: limit,
            rest: Duration::from_secs(1),
            action: Mutex::new(Some(Box::new(action))),
            clock: Clock::new(),
            scale: OnceLock::new(),
            calls: Arc::new(LazyCalls::new()),
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
        // The consumer may be dropped meanwhile.
        if pending.state.compare_exchange(TAKEN, READY, Release, Relaxed).is_ok() {
            self.runner.get().into_iter().for_each(|runner| runner.thread.unpark());
        }
    }

    fn start(&self) -> Result<Runner, Error> {
        let action = self.action.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut action) = action else {
            return Err(Error::Consumer("a trigger can be attached only once; make another one".into()));
        };
        let (calls, pending, rest) = (Arc::clone(&self.calls), Arc::clone(&self.pending), self.rest);
        let masked = Masked::new();
        let handle = thread::Builder::new().name("probe-trigger".to_owned()).spawn(move || {
            while pending.wait() {
                if let Some(call) = pending.call(&calls) {
                    // The panic's message was printed.
                    let _ = catch_unwind(AssertUnwindSafe(|| action(&call)));
                }
                pending.rest(rest);
            }
        });
        drop(masked);
        let handle = handle.map_err(Error::Thread)?;
        let thread = handle.thread().clone();
        Ok(Runner { thread, handle: Mutex::new(Some(handle)), process: fork::process() })
    }
}

impl Pending {
    /// Waits for a call. Returns whether there is one, and not the end.
    fn wait(&self) -> bool {
        loop {
            match self.state.load(Acquire) {
                READY => return true,
                OVER => return false,
                _ => thread::park(),
            }
        }
    }

    fn call(&self, calls: &LazyCalls<1, Trigger>) -> Option<TriggerCall> {
        let function = usize::try_from(self.function.load(Relaxed)).ok()?;
        let path = calls.get()?.functions().get(function)?.path().to_owned();
        let elapsed = Duration::from_nanos(self.nanoseconds.load(Relaxed));
        Some(TriggerCall { path, elapsed, thread: self.thread.load(Relaxed) })
    }

    /// Rests, and takes calls again.
    fn rest(&self, time: Duration) {
        let began = Instant::now();
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            if self.state.load(Relaxed) == OVER {
                return;
            }
            thread::park_timeout(left);
        }
        // At the end the state stays.
        let _ = self.state.compare_exchange(READY, IDLE, AcqRel, Relaxed);
    }
}

impl Meter<1> for Trigger {
    /// The thread's number.
    type Head = AtomicU64;
    type Part = ();

    const NOTES: bool = true;

    #[inline(always)]
    fn read(&self, _: Local<'_, AtomicU64, ()>) -> [u64; 1] {
        [self.clock.now()]
    }

    #[inline(always)]
    fn read_inline(&self) -> Option<[u64; 1]> {
        self.clock.counter().map(|now| [now])
    }

    #[inline]
    fn begin(&self, local: Local<'_, AtomicU64, ()>, _function: usize, _outer: u64) -> u64 {
        local.head().store(local.thread(), Relaxed);
        0
    }

    #[inline]
    fn end(&self, ended: &CallEnd<'_, 1, AtomicU64, ()>) {
        let Some((call, scale)) = ended.completed.zip(self.scale.get()) else { return };
        let elapsed = Duration::from_nanos(scale.nanoseconds(call.total[0]));
        if elapsed > self.over {
            self.fire(ended.function, elapsed, ended.head.load(Relaxed));
        }
    }
}

impl Consumer for Trigger {
    fn needs_thread(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = self.scale.set(self.clock.scale());
        self.calls.prepare(probes)?;
        let _ = self.runner.set(self.start()?);
        Ok(())
    }

    #[inline(always)]
    fn hit(&self, event: &Event<'_>) {
        self.calls.hit(event, self);
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        let Some(runner) = self.runner.take() else { return };
        let handle = runner.handle.into_inner().unwrap_or_else(PoisonError::into_inner);
        if runner.process != fork::process() {
            // The thread is the parent's. In this process there is none to join or to detach.
            return std::mem::forget(handle);
        }
        self.pending.state.store(OVER, Release);
        runner.thread.unpark();
        // The action itself may drop the attachment.
        if runner.thread.id() != thread::current().id() {
            let _ = handle.map(JoinHandle::join);
        }
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger").field("over", &self.over).field("rest", &self.rest).finish_non_exhaustive()
    }
}
