//! Copies rings into a file, beside the threads that write them: when the program asks for it, or
//! when a thread panics, from the process's panic hook.
//!
//! Life of the hook: the first trace that asks for it puts a hook before the program's present one,
//! which then runs as before ▸ each panic writes a snapshot of each such trace that is still
//! attached ▸ without one, the hook does nothing but call the program's. It stays: a hook that was
//! put on top of it may call it.
//!
//! The standard library calls hooks before it unwinds or aborts, so this works with
//! `panic = "abort"`, too. The panicking thread may hold any lock of the program or of this crate;
//! a snapshot takes none but the list of traces, and waits for that one not for ever.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Once, TryLockError, Weak};
use std::time::{Duration, Instant};
use std::{panic, thread};

use probe_trace::layout::{block, event, ring, sub_buffer};

use super::file::{ClockReading, TraceFile, at, problem};
use super::file_name::FileName;
use super::recording::Recording;
use super::ring::Ring;
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::fork;
use crate::engine::os::guarded_file::GuardedFile;
use crate::report::file;

/// Writes a snapshot to a file, which appears whole, and replaces one of this name. A pipe or
/// another stream is written in place.
pub(super) fn to_file(recording: &Recording, path: &Path) -> io::Result<()> {
    let write_to = |file: GuardedFile| {
        let mut out = io::BufWriter::with_capacity(1 << 16, file);
        write(recording, &mut out)?;
        out.flush()
    };
    if file::is_stream(path) {
        return write_to(GuardedFile::open_stream(path)?);
    }
    file::replace(path, |beside| write_to(file::create(beside)?))
}

/// Writes a whole file with the rings' present content. Threads continue meanwhile; the file lacks
/// the events that they write after their ring was copied.
pub(super) fn write(recording: &Recording, out: impl Write) -> io::Result<()> {
    let off = recording.last_off();
    let mut file = TraceFile::begin(out, &recording.about(true))?;
    for ring in recording.rings() {
        copy(recording, ring, &mut file)?;
    }
    end(recording, &off, &mut file)?;
    Ok(())
}

/// Writes the sub-buffers of a ring, and its head as it was at the last of them.
fn copy<W: Write>(recording: &Recording, ring: Ring<'_>, file: &mut TraceFile<W>) -> io::Result<()> {
    let mut head = ring.head_words();
    for sub_buffer in ring.numbers(recording.shape) {
        // A sub-buffer that its thread has begun anew since is one of the oldest.
        let Some(words) = file.sub_buffer(ring, recording.shape, sub_buffer)? else { continue };
        let written = words[sub_buffer::WRITTEN_BEFORE] + events(words);
        if written > head[ring::WRITTEN] {
            head[ring::WRITTEN] = written;
        }
    }
    file.words(block::RING, ring.number(), &head)
}

/// Writes the last blocks of a file. The last times off the processor were read before the rings
/// were copied: a thread that has hit in between has them in its ring as well, and readers take
/// them once.
pub(super) fn end<W: Write>(
    recording: &Recording,
    off: &[(u64, Vec<u64>)],
    file: &mut TraceFile<W>,
) -> io::Result<()> {
    // Read after the rings, so that all hits that were copied have their definitions and stacks.
    file.define(&recording.later(file.defined()))?;
    file.write_stacks(recording)?;
    off.iter().try_for_each(|(ring, words)| file.words(block::OFF, *ring, words))?;
    file.words(block::UNSEEN, 0, &recording.unseen())?;
    file.reading(ClockReading::now(recording.clock))
}

/// Returns the number of events in a copy of a sub-buffer.
pub(super) fn events(words: &[u64]) -> u64 {
    let (mut at, mut events) = (sub_buffer::WORDS, 0);
    while let Some(word) = words.get(at) {
        at += 1 + event::payload(*word);
        events += u64::from(event::probe(*word) != event::CONTROL);
    }
    events
}

/// A trace that wants snapshots.
pub(super) struct OnPanic {
    name: FileName,
    recording: Weak<Recording>,
    process: u64,
}

static ALL: Mutex<Vec<Weak<OnPanic>>> = Mutex::new(Vec::new());

/// The longest wait for another thread that panics, too.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl OnPanic {
    /// Writes snapshots to this file from now on, until the last share is dropped.
    ///
    /// # Errors
    /// If the path can't be used, if this thread panics, or if other threads write snapshots of
    /// panics for too long.
    pub(super) fn new(path: &Path, recording: &Arc<Recording>) -> Result<Arc<Self>, Error> {
        static HOOK: Once = Once::new();
        let name = FileName::new(path).map_err(|error| at(path, &error))?;
        if thread::panicking() {
            let problem = io::Error::other("a thread that panics can't put a panic hook in place");
            return Err(at(path, &problem));
        }
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if let Err(problem) = write_all(LOCK_TIMEOUT) {
                    os::stderr::print_line(&format!("PROBES: a panic has no snapshot: {problem}"));
                }
                before(info);
            }));
        });
        let process = fork::process();
        let new = Arc::new(Self { name, recording: Arc::downgrade(recording), process });
        remember(Arc::downgrade(&new), LOCK_TIMEOUT).map_err(|error| at(path, &error))?;
        Ok(new)
    }

    fn write(&self) {
        let Some(recording) = self.recording.upgrade() else { return };
        let path = self.name.path(std::process::id(), self.process != fork::process());
        if let Err(error) = to_file(&recording, &path) {
            os::stderr::print_line(&problem(&path, &error));
        }
    }
}

fn remember(new: Weak<OnPanic>, timeout: Duration) -> io::Result<()> {
    let mut all = lock(timeout)?;
    all.retain(|it| it.strong_count() != 0);
    all.push(new);
    Ok(())
}

/// Writes a snapshot of each trace. Threads that panic at the same time take turns, so that none
/// aborts the process while another one writes.
///
/// # Errors
/// If the list can't be locked. A snapshot that can't be written is told on stderr.
fn write_all(timeout: Duration) -> io::Result<()> {
    lock(timeout)?.iter().filter_map(Weak::upgrade).for_each(|it| it.write());
    Ok(())
}

/// Locks the list.
///
/// # Errors
/// If that takes too long. In a forked child, another thread of its parent may have left it locked.
fn lock(timeout: Duration) -> io::Result<MutexGuard<'static, Vec<Weak<OnPanic>>>> {
    let began = Instant::now();
    loop {
        match ALL.try_lock() {
            Ok(all) => return Ok(all),
            Err(TryLockError::Poisoned(all)) => return Ok(all.into_inner()),
            Err(TryLockError::WouldBlock) if began.elapsed() >= timeout => {
                let problem = "another thread writes snapshots of a panic all along, or did when this \
                               process was forked";
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_stays_locked_is_an_error() {
        let all = lock(LOCK_TIMEOUT).unwrap();
        let problem =
            "another thread writes snapshots of a panic all along, or did when this process was forked";
        assert_eq!(remember(Weak::new(), Duration::ZERO).unwrap_err().to_string(), problem);
        assert_eq!(write_all(Duration::ZERO).unwrap_err().to_string(), problem);
        drop(all);
        remember(Weak::new(), LOCK_TIMEOUT).unwrap();
        write_all(LOCK_TIMEOUT).unwrap();
    }
}
