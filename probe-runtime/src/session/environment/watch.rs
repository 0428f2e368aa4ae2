//! A thread that reports at intervals and at signals while the program runs.
//!
//! Life cycle: [`start`] starts the thread with the first guard ▸ the thread reports at each
//! interval and at each signal that asks for a report. It looks for probes every 300 ms, and
//! soon after a hook has discovered a function ▸ it ends with the last guard, or by ending the
//! program at a signal. A forked child has no such thread: signals have their default action there.
//!
//! Cost: three wake-ups a second, each with a query of the dynamic linker: less than 0.03 % of a
//! processor.
//!
//! At a signal that ends the program, the thread reports and lets the signal take its default
//! action. It holds the lock in between, so a thread that calls `exit` meanwhile waits, and the
//! program ends by the signal.
//!
//! Several threads may make and drop guards at the same time. They start and end this thread in
//! a [`TryLock`]: two such threads would read each other's pipe. It is taken before the lock on the
//! outputs, which the thread needs before it can end.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::output::{end_triggers, outputs, report_all, report_and_end};
use super::when::{ON, When};
use crate::engine::control::{DISCOVERY_INTERVAL, PeriodicDiscovery, discover_probes};
use crate::engine::os::fork::process;
use crate::engine::os::process::{TryLock, TryLockGuard};
#[cfg(probe_discovers)]
use crate::engine::os::signal_catcher::request_look;
use crate::engine::os::signal_catcher::{SignalCatcher, WakeReason};
use crate::engine::os::signal_mask::SignalsBlocked;
use crate::engine::os::stderr::print_line;

/// The thread's name.
const NAME: &str = "probe-reports";

/// A guard's share of the thread.
#[derive(Debug)]
pub(super) struct Watching(Option<Arc<Watch>>);

impl Drop for Watching {
    fn drop(&mut self) {
        let _turn = take_turn();
        drop(self.0.take());
    }
}

/// Waits for the turn to start or end the thread.
fn take_turn() -> TryLockGuard<'static> {
    static LOCK: TryLock = TryLock::new();
    loop {
        if let Some(turn) = LOCK.try_lock() {
            return turn;
        }
        // The thread that has the turn may be waiting for a report to be written.
        thread::sleep(BETWEEN_TRIES);
    }
}

const BETWEEN_TRIES: Duration = Duration::from_micros(200);

/// The least time between two looks for probes that hooks ask for.
const AFTER_LOOK: Duration = Duration::from_millis(50);

/// The running thread. It ends when the last guard drops.
#[derive(Debug)]
struct Watch {
    caught: Arc<SignalCatcher>,
    thread: Option<JoinHandle<()>>,
    /// The process whose thread it is.
    process: u64,
}

/// Starts the thread if `when` asks for reports. A second guard shares the first one's thread.
pub(super) fn start(when: &When) -> Option<Watching> {
    static CURRENT: Mutex<Weak<Watch>> = Mutex::new(Weak::new());
    if when.is_never() {
        return None;
    }
    let _turn = take_turn();
    // Forks wait for this lock, so a child never finds the lock below taken.
    let _unforked = outputs();
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(watch) = current.upgrade()
        && watch.process == process()
    {
        return Some(Watching(Some(watch)));
    }
    match watch(when) {
        Ok(watch) => {
            let watch = Arc::new(watch);
            *current = Arc::downgrade(&watch);
            Some(Watching(Some(watch)))
        }
        Err(error) => {
            print_line(&format!(
                "PROBES: there are no reports at signals, nor at intervals: their thread can't be started: {error}"
            ));
            None
        }
    }
}

fn watch(when: &When) -> io::Result<Watch> {
    let caught = Arc::new(SignalCatcher::new()?);
    let thread = {
        let (caught, every) = (Arc::clone(&caught), when.every);
        // Only the program's own threads may run its signal handlers.
        let _masked = SignalsBlocked::new();
        // Before the thread runs: the program may continue first.
        let discovery = PeriodicDiscovery::begin();
        thread::Builder::new().name(NAME.to_owned()).spawn(move || run(&caught, every, discovery))?
    };
    let handled = caught.install(&when.ends, &when.on);
    // Functions may have been discovered before there was anybody to tell.
    #[cfg(probe_discovers)]
    request_look();
    for signal in when.on.iter().filter(|signal| handled.contains(signal)) {
        print_line(&format!(
            "{ON}: this program handles or ignores {}; it asks for no report",
            signal.name()
        ));
    }
    Ok(Watch { caught, thread: Some(thread), process: process() })
}

fn run(caught: &SignalCatcher, every: Option<Duration>, _discovery: PeriodicDiscovery) {
    let mut next = first(every);
    let (mut look_from, mut look_at) = (Instant::now(), Instant::now() + DISCOVERY_INTERVAL);
    loop {
        match caught.wait(Some(next.map_or(look_at, |next| next.min(look_at)))) {
            WakeReason::Stopped => return,
            WakeReason::LookRequested => {
                look_at = look_at.min(look_from);
                continue;
            }
            WakeReason::TimedOut if look_at <= Instant::now() => {
                discover_probes();
                let now = Instant::now();
                (look_from, look_at) = (now + AFTER_LOOK, now + DISCOVERY_INTERVAL);
                continue;
            }
            WakeReason::Signal(signal) if SignalCatcher::ends(signal) => {
                end_triggers();
                report_and_end(|| SignalCatcher::end(signal));
            }
            WakeReason::TimedOut | WakeReason::Signal(_) => report_all(),
        }
        if let (Some(at), Some(every)) = (&mut next, every) {
            // Skips the intervals that passed during a long report.
            let now = Instant::now();
            while *at <= now {
                *at += every;
            }
        }
    }
}

/// Returns when the first report is due; `None` if the clock can't represent that moment.
fn first(every: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(every?)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != process() {
            // The thread is the parent's. In this process there is none to join or to detach.
            return std::mem::forget(thread);
        }
        self.caught.stop();
        // The thread does not panic. If it did, the panic's message was printed.
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signal takes effect although each report panics, and the program ends by the signal that
    /// ends it.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_panic_is_no_end_of_the_thread() {
        use std::env;
        use std::os::unix::process::ExitStatusExt;
        use std::process::Command;

        const SCENARIO: &str = "PROBE_UNIT_SCENARIO";
        if env::var_os(SCENARIO).is_some() {
            return super::super::output::tests::panics_at_each_report(|| {
                let when = When::parse("", "USR1", "TERM").unwrap();
                std::mem::forget(start(&when));
            });
        }
        let mut command = Command::new(env::current_exe().unwrap());
        let name = "session::environment::watch::tests::a_panic_is_no_end_of_the_thread";
        let output = command.args(["--exact", name, "--nocapture"]).env(SCENARIO, "").output().unwrap();
        assert_eq!(output.status.signal(), Some(15), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.matches("this report panics").count(), 2, "{said}");
    }

    #[test]
    fn an_interval_beyond_the_clock_is_never_due() {
        assert_eq!(first(Some(Duration::MAX)), None);
        assert_eq!(first(None), None);
        assert!(first(Some(Duration::from_secs(3600))) > Some(Instant::now()));
    }
}
