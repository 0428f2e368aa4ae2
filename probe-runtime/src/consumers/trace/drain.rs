//! The thread that copies full sub-buffers to the file, while the program runs.
//!
//! It wakes up more often the fuller it finds the rings: no thread of the program wakes it, since
//! that would be a system call on a hit.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use probe_trace::layout::{block, header, state};

use super::clocks::Moment;
use super::file::{About, TraceFile};
use super::running::Running;
use super::snapshot;
use crate::error::Error;
use crate::os;
use crate::os::fork;
use crate::os::masked::{self, Masked};

/// The shortest and the longest sleep.
const SLEEP: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(50)];
/// The time between two readings of all clocks.
const READING: Duration = Duration::from_secs(1);

/// The thread, and the state that it shares with the consumer. It ends when this is dropped.
pub(super) struct Drain {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    path: PathBuf,
    process: u64,
}

struct Shared {
    is_over: AtomicBool,
    nested: AtomicU64,
}

impl Drain {
    /// Creates the file, and starts the thread.
    pub(super) fn start(running: &Arc<Running>, path: &Path) -> Result<Self, Error> {
        let file = File::create(path).and_then(|file| TraceFile::begin(file, &About::of(running, false)));
        let mut file = file.map_err(|error| at(path, &error))?;
        let shared = Arc::new(Shared { is_over: AtomicBool::new(false), nested: AtomicU64::new(0) });
        let (running, of_thread, of) = (Arc::clone(running), Arc::clone(&shared), path.to_owned());
        let masked = Masked::new();
        let thread = thread::Builder::new().name("probe-trace".to_owned()).spawn(move || {
            masked::wake_in_time();
            let mut work = || {
                drain(&running, &of_thread, &mut file)?;
                let nested = of_thread.nested.load(Ordering::Relaxed);
                close(&running, nested, &mut file)
            };
            let written = catch_unwind(AssertUnwindSafe(&mut work))
                .unwrap_or_else(|_| Err(io::Error::other("the thread that writes it has panicked")));
            // The program may run for long before it asks; from now on its events are lost.
            if let Err(error) = &written {
                let _ = os::stderr::write(format!("{}\n", problem(&of, error)).as_bytes());
            }
            written
        });
        drop(masked);
        let thread = Some(thread.map_err(Error::Thread)?);
        Ok(Self { shared, thread, path: path.to_owned(), process: fork::process() })
    }

    /// Writes what the rings still hold, and closes the file. No thread may hit any more.
    pub(super) fn finish(&mut self, nested: u64) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        if self.process != fork::process() {
            // The thread and the file are the parent's.
            std::mem::forget(thread);
            return Ok(());
        }
        self.shared.nested.store(nested, Ordering::Relaxed);
        self.shared.is_over.store(true, Ordering::Release);
        thread.thread().unpark();
        let written = thread.join().unwrap_or(Ok(()));
        written.map_err(|error| at(&self.path, &error))
    }
}

/// Returns an error that names the file.
pub(super) fn at(path: &Path, error: &io::Error) -> Error {
    Error::Consumer(io::Error::new(error.kind(), problem(path, error)).into())
}

fn problem(path: &Path, error: &io::Error) -> String {
    format!("the trace can't be written to {}: {error}", path.display())
}

fn drain(running: &Running, shared: &Shared, file: &mut TraceFile<File>) -> io::Result<()> {
    let (mut sleep, mut read) = (SLEEP[0], Instant::now());
    while !shared.is_over.load(Ordering::Acquire) {
        let fullest = pass(running, file)?;
        // Half of the ring's room remains for the next sleep.
        if fullest * 4 >= running.shape.sub_buffers {
            sleep = (sleep / 2).max(SLEEP[0]);
        } else if fullest * 8 < running.shape.sub_buffers {
            sleep = (sleep * 2).min(SLEEP[1]);
        }
        if read.elapsed() >= READING {
            read = Instant::now();
            file.reading(Moment::now(running.clock))?;
        }
        thread::park_timeout(sleep);
    }
    Ok(())
}

/// Copies each sub-buffer that its thread has left. Returns the largest number of one ring.
fn pass(running: &Running, file: &mut TraceFile<File>) -> io::Result<u64> {
    let mut fullest = 0;
    for ring in running.rings() {
        let first = ring.drained();
        let mut next = first;
        while ring.is_whole(running.shape, next) {
            if let Some(words) = ring.copy(running.shape, next) {
                file.words(block::SUB_BUFFER, ring.number(), &words)?;
            }
            next += 1;
            ring.set_drained(next);
        }
        fullest = fullest.max(next - first);
    }
    Ok(fullest)
}

/// Copies the rest, and the rings' heads, and marks the file as closed.
fn close(running: &Running, nested: u64, file: &mut TraceFile<File>) -> io::Result<()> {
    pass(running, file)?;
    for ring in running.rings() {
        for last in ring.drained()..ring.numbers(running.shape).end {
            if let Some(words) = ring.copy(running.shape, last) {
                file.words(block::SUB_BUFFER, ring.number(), &words)?;
            }
        }
        file.words(block::RING, ring.number(), &ring.head_words())?;
    }
    snapshot::end(running, nested, file)?;
    let out = file.get_mut();
    // A pipe has no beginning to go back to; its readers see its end.
    if out.seek(SeekFrom::Start(header::STATE as u64 * 8)).is_ok() {
        out.write_all(&state::CLOSED.to_le_bytes())?;
        out.sync_data()?;
    }
    Ok(())
}
