//! The times at which threads were off the processor, as a trace has them. They come from the
//! kernel's records of switches. Without these, the thread that writes the file looks into `/proc`.

use std::sync::{Mutex, PoisonError};

use probe_trace::layout::off;

use crate::consumers::waits::{Refused, permitted};
use crate::engine::clock::Clock;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::os::perf::{ProcessNumber, system_call, tells_calls};
use crate::engine::os::time;
use crate::engine::per_thread::{Local, PerThread};
use crate::engine::waits::polled::{self, PolledWaits};
use crate::engine::waits::{Found, ThreadWaits, Wait};

/// The threads' times, and what reads them.
pub(super) enum OffTimes {
    Recorded(Recorded),
    Polled(Polled),
}

/// Times of the kernel's records.
pub(super) struct Recorded {
    process: ProcessNumber,
    threads: PerThread<ThreadWaits, ()>,
    /// Taken while somebody looks for system calls. `None` if `/proc` does not tell those of this
    /// process's threads.
    looking: Option<Mutex<()>>,
}

/// Times that `/proc` shows.
pub(super) struct Polled {
    threads: PerThread<PolledWaits, ()>,
    /// Taken while somebody looks.
    looking: Mutex<()>,
    /// Why there are no records.
    refused: Error,
}

impl OffTimes {
    /// Checks that the kernel permits records. If it does not, the times are those that `/proc`
    /// shows, as long as another thread will [look](Self::look) in intervals.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the reason.
    pub(super) fn new(is_polling: bool) -> Result<Self, Error> {
        match permitted() {
            Ok(process) => {
                let looking = tells_calls().then(Mutex::default);
                Ok(Self::Recorded(Recorded { process, threads: PerThread::new(0)?, looking }))
            }
            Err(refused) if is_polling && tells_calls() && polled::is_possible() => {
                let looking = Mutex::default();
                Ok(Self::Polled(Polled { threads: PerThread::new(0)?, looking, refused }))
            }
            Err(refused) => Err(refused),
        }
    }

    /// Reads the clock, and passes on the times since the thread's last hit. Its first hit gets
    /// those of an ended thread. Each comes with its thread's number. `None` stands for lost ones.
    #[inline(always)]
    pub(super) fn now(
        &self,
        event: &Event<'_>,
        clock: Clock,
        mut each: impl FnMut(u64, Option<[u64; off::WORDS]>),
    ) -> u64 {
        match self {
            Self::Recorded(Recorded { process, threads, .. }) => {
                let Some(local) = threads.of(event) else { return clock.now() };
                let own = local.thread();
                let each = |thread, found| each(thread, words(found, 0));
                let [now, ..] = local.head().now(own, *process, clock, each);
                now
            }
            Self::Polled(Polled { threads, .. }) => {
                if let Some(local) = threads.of(event) {
                    local
                        .head()
                        .take(local.thread(), |thread, found| each(thread, words(found, off::POLLED)));
                }
                clock.now()
            }
        }
    }

    /// Looks for what threads wait, unless another thread does already.
    pub(super) fn look(&self) {
        match self {
            Self::Recorded(Recorded { process, threads, looking }) => {
                let Some(Ok(_looking)) = looking.as_ref().map(Mutex::try_lock) else { return };
                let threads = threads.iter().filter(Local::is_alive);
                threads.for_each(|local| local.head().see(local.thread(), process.get(), system_call));
            }
            Self::Polled(Polled { threads, looking, .. }) => {
                let Ok(_looking) = looking.try_lock() else { return };
                for local in threads.iter() {
                    if local.is_alive() { local.head().look(local.thread()) } else { local.head().end() }
                }
            }
        }
    }

    /// Returns the times of a thread after its last hit, as a block has them.
    pub(super) fn last(&self, thread: u64) -> Vec<u64> {
        let mut last = vec![thread];
        let mut each = |found, flags| {
            // The latest ones are enough. Of polled ones, the latest are lost.
            if found == Found::Lost && flags & off::POLLED == 0 {
                last.truncate(1);
            }
            last.extend(words(found, flags).unwrap_or_else(|| [time::monotonic(), 0, off::LOST, 0, 0, 0]));
        };
        match self {
            Self::Recorded(Recorded { process, threads, .. }) => {
                let Some(local) = threads.iter().find(|local| local.head().owner() == thread) else {
                    return last;
                };
                // A later thread without a hit of this trace leaves the records to the one before.
                if !local.is_alive() || local.thread() != thread {
                    local.head().look_at_ended(thread, process.get(), |found| each(found, 0));
                } else {
                    local.head().look(thread, process.get(), |found| each(found, 0));
                }
            }
            Self::Polled(Polled { threads, looking, .. }) => {
                let _looking = looking.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(local) = threads.iter().find(|local| local.thread() == thread) {
                    local.head().last(thread, |found| each(found, off::POLLED));
                }
            }
        }
        last
    }

    /// Returns a line about threads without such times, if there are any, or about where the times
    /// are from, if that is `/proc`.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Recorded(Recorded { threads, .. }) => Refused::of(threads.iter()).note(),
            Self::Polled(Polled { refused, .. }) => Some(format!(
                "times off the processor are those that looks into /proc found, mostly every 10 ms: shorter \
                 ones, and those of ready threads, are missing ({refused})"
            )),
        }
    }
}

/// Returns a time's words, with these flags.
fn words(found: Found, flags: u64) -> Option<[u64; off::WORDS]> {
    let Found::Wait(Wait { is_ready, has_ended, begin, end, processors, call }) = found else { return None };
    let ready = if is_ready { off::READY } else { 0 };
    let ended = if has_ended { off::ENDED } else { 0 };
    let call = call.unwrap_or_default();
    let [name, rest] = call.name;
    let about = off::about(ready | ended | flags, processors);
    Some([begin, end.unwrap_or(0), about, name, rest, call.argument])
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.threads.iter().for_each(|local| _ = local.head().close(self.process.get()));
    }
}
