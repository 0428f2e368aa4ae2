//! The thread that copies full sub-buffers to the file, while the program runs.
//!
//! It wakes up more often the fuller it finds the rings: no thread of the program wakes it, since
//! that would be a system call on a hit. However long a program was idle, the next burst finds a
//! thread that wakes up before a ring is full.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::file::{at, problem};
use super::output::Output;
use super::recording::Recording;
use super::ring::Shape;
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::fork;
use crate::engine::os::signal_mask::{self, SignalsBlocked};

/// The shortest sleep, and the longest one, for any size of ring.
const SLEEP_LIMITS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(50)];
/// The time between two readings of all clocks.
const READING_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks at what threads wait for, and how many times a look's own time it is
/// at least: many threads take longer.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const LOOK_SHARE: u32 = 50;

/// The thread, and the state that it shares with the consumer.
pub(super) struct Drain {
    shared: Arc<Shared>,
    /// `None` once it has ended.
    thread: Mutex<Option<JoinHandle<io::Result<()>>>>,
    path: PathBuf,
    process: u64,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    flushes: Mutex<Flushes>,
    flushed: Condvar,
}

/// Numbers of the flushes that were asked for, and of those that the file has.
#[derive(Default)]
struct Flushes {
    asked: u64,
    done: u64,
    has_ended: bool,
    /// The reason why the file had to end, once it has.
    failed: Option<io::Error>,
}

impl Drain {
    /// Creates the file, if it is not open, and starts the thread.
    pub(super) fn start(
        recording: &Arc<Recording>,
        path: &Path,
        opened: Option<&File>,
        limit: Option<u64>,
    ) -> Result<Self, Error> {
        let output = Output::begin(recording, path, opened, limit);
        let mut output = output.map_err(|error| at(path, &error))?;
        let shared = Arc::new(Shared::default());
        let (recording, of_thread, of) = (Arc::clone(recording), Arc::clone(&shared), path.to_owned());
        let masked = SignalsBlocked::new();
        let thread = thread::Builder::new().name("probe-trace".to_owned()).spawn(move || {
            signal_mask::minimise_timer_slack();
            let mut work = || {
                let written =
                    drain(&recording, &of_thread, &mut output).and_then(|()| output.finish(&recording));
                if let Err(error) = &written {
                    // The program may run for long before it asks.
                    os::stderr::print_line(&problem(&of, error));
                    output.cut(&recording);
                    of_thread.flushes().failed = Some(same(error));
                    outlive(&recording, &of_thread, &mut output);
                }
                written
            };
            let written = catch_unwind(AssertUnwindSafe(&mut work))
                .unwrap_or_else(|_| Err(io::Error::other("the thread that writes it has panicked")));
            of_thread.flushes().has_ended = true;
            of_thread.flushed.notify_all();
            written
        });
        drop(masked);
        let thread = Mutex::new(Some(thread.map_err(Error::Thread)?));
        Ok(Self { shared, thread, path: path.to_owned(), process: fork::process() })
    }

    /// Returns whether this is a forked child. The thread and the file are its parent's then.
    pub(super) fn is_parents(&self) -> bool {
        self.process != fork::process()
    }

    /// Waits until the file has everything that was recorded before, or for this time.
    pub(super) fn flush(&self, at_most: Duration) -> Result<(), Error> {
        if self.is_parents() {
            return Ok(());
        }
        let mut flushes = self.shared.flushes();
        flushes.asked += 1;
        let own = flushes.asked;
        self.wake();
        let is_open = |it: &mut Flushes| it.done < own && !it.has_ended;
        let waited = self.shared.flushed.wait_timeout_while(flushes, at_most, is_open);
        flushes = waited.unwrap_or_else(PoisonError::into_inner).0;
        let problem = match &flushes.failed {
            Some(error) => same(error),
            None if flushes.done >= own => return Ok(()),
            None if flushes.has_ended => io::Error::other("the thread that writes it has ended"),
            None => io::Error::new(io::ErrorKind::TimedOut, "its last events are not written yet"),
        };
        Err(at(&self.path, &problem))
    }

    /// Writes what the rings still hold, and closes the file. No thread may hit any more.
    pub(super) fn finish(&self) -> Result<(), Error> {
        if self.is_parents() {
            return Ok(());
        }
        self.shared.is_over.store(true, Ordering::Release);
        self.wake();
        let thread = self.thread().take();
        let written = thread.map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())));
        written.map_err(|error| at(&self.path, &error))
    }

    fn wake(&self) {
        self.thread().iter().for_each(|thread| thread.thread().unpark());
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<io::Result<()>>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn flushes(&self) -> MutexGuard<'_, Flushes> {
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drain(recording: &Recording, shared: &Shared, output: &mut Output) -> io::Result<()> {
    let longest = longest_sleep(recording.shape);
    let (mut sleep, mut read, mut look) = (SLEEP_LIMITS[0], Instant::now(), Instant::now());
    while !shared.is_over.load(Ordering::Acquire) {
        let fullest = output.pass(recording)?;
        // Half of the ring's room remains for the next sleep.
        if fullest * 4 >= recording.shape.sub_buffers {
            sleep = (sleep / 2).max(SLEEP_LIMITS[0]);
        } else if fullest * 8 < recording.shape.sub_buffers {
            sleep = (sleep * 2).min(longest);
        }
        let asked = shared.flushes().asked;
        if asked != shared.flushes().done {
            output.flush(recording)?;
            shared.flushes().done = asked;
            shared.flushed.notify_all();
        }
        if look <= Instant::now() {
            let began = Instant::now();
            recording.look_for_waits();
            look = Instant::now() + LOOK_INTERVAL.max(began.elapsed() * LOOK_SHARE);
        }
        // A file that is whole stays so until there is something new.
        if read.elapsed() >= READING_INTERVAL {
            read = Instant::now();
            output.reading(recording)?;
        }
        thread::park_timeout(sleep);
    }
    Ok(())
}

/// Returns the same error once more.
fn same(error: &io::Error) -> io::Error {
    let of_system = error.raw_os_error().map(io::Error::from_raw_os_error);
    of_system.unwrap_or_else(|| io::Error::new(error.kind(), error.to_string()))
}

/// Keeps a file up to date that had to end: it says how many events it lacks. The rings get full,
/// and lose later events.
fn outlive(recording: &Recording, shared: &Shared, output: &mut Output) {
    let emitted = || recording.totals().iter().sum::<u64>();
    // Nothing can be done about errors: then the file stays one that was not finished.
    let mut reported = None;
    while !shared.is_over.load(Ordering::Acquire) {
        let asked = shared.flushes().asked;
        if asked != shared.flushes().done {
            reported = Some(emitted());
            let _ = output.report_missing(recording);
            shared.flushes().done = asked;
            shared.flushed.notify_all();
        }
        if reported.is_some_and(|reported| reported != emitted()) {
            reported = None;
            let _ = output.reopen();
        }
        thread::park_timeout(SLEEP_LIMITS[1]);
    }
    let _ = output.report_missing(recording);
}

/// Returns the time in which a thread fills its ring that writes four bytes in a nanosecond. One
/// that does nothing but hit writes fewer: 8 in 11 for a bare hit, 24 in 15 for one with a number.
/// Long texts may be copied faster; then what finds no room is lost, and counted.
fn longest_sleep(shape: Shape) -> Duration {
    let bytes = shape.sub_buffers * shape.words * 8;
    Duration::from_nanos(bytes / 4).clamp(SLEEP_LIMITS[0], SLEEP_LIMITS[1])
}

#[cfg(test)]
mod tests {
    use super::super::ring::WhenFull;
    use super::*;

    #[test]
    fn larger_rings_let_the_thread_sleep_longer() {
        let longest = |bytes: u64| {
            longest_sleep(Shape { sub_buffers: 8, words: bytes / 64, when_full: WhenFull::Wait }).as_micros()
        };
        assert_eq!([4096, 1 << 20, 4 << 20, 1 << 30].map(longest), [200, 262, 1048, 50_000]);
    }
    /// Its thread may be writing to a file that takes nothing.
    #[test]
    fn a_flush_gives_up_in_time() {
        let (shared, thread) = (Arc::new(Shared::default()), Mutex::new(None));
        let drain = Drain { shared, thread, path: "run.pftrace".into(), process: fork::process() };
        let problem = drain.flush(Duration::from_millis(1)).unwrap_err().to_string();
        assert!(problem.ends_with("its last events are not written yet"), "{problem}");
        drain.shared.flushes().done = 2;
        drain.flush(Duration::MAX).unwrap();
        drain.shared.flushes().has_ended = true;
        let problem = drain.flush(Duration::MAX).unwrap_err().to_string();
        assert!(problem.ends_with("the thread that writes it has ended"), "{problem}");
    }
}
