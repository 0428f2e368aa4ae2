//! The times at which threads were off the processor, as a trace has them.

use std::sync::Mutex;

use probe_trace::layout::off;

use crate::consumers::waits::{Refused, permitted};
use crate::engine::clock::Clock;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::os::perf::{ProcessNumber, SystemCall, is_proc_ours, system_call};
use crate::engine::os::time;
use crate::engine::per_thread::{Local, PerThread};
use crate::engine::waits::{Found, ThreadWaits, Wait};

/// The threads' times, and what reads them.
pub(super) struct OffTimes {
    process: ProcessNumber,
    threads: PerThread<ThreadWaits, ()>,
    /// Taken while somebody looks for system calls. `None` if `/proc` does not tell those of this
    /// process's threads.
    looking: Option<Mutex<()>>,
}

impl OffTimes {
    /// Checks that the kernel permits it.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the reason.
    pub(super) fn new() -> Result<Self, Error> {
        let looking = is_proc_ours().then(Mutex::default);
        Ok(Self { process: permitted()?, threads: PerThread::new(0)?, looking })
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
        let Some(local) = self.threads.of(event) else { return clock.now() };
        let own = local.thread();
        let [now, ..] =
            local.head().now(own, self.process, clock, |thread, found| each(thread, words(found)));
        now
    }

    /// Returns the times of a thread after its last hit, as a block has them.
    pub(super) fn last(&self, thread: u64) -> Vec<u64> {
        let mut last = vec![thread];
        let local = self.threads.iter().find(|local| local.head().owner() == thread);
        if let Some(local) = local {
            // A later thread that makes no hit of this trace leaves the records to the one before.
            let has_ended = !local.is_alive() || local.thread() != thread;
            let each = |found| {
                // The latest ones are enough.
                if found == Found::Lost {
                    last.truncate(1);
                }
                last.extend(words(found).unwrap_or_else(|| [time::monotonic(), 0, off::LOST, 0, 0, 0]));
            };
            if has_ended {
                local.head().look_at_ended(thread, self.process.get(), each);
            } else {
                local.head().look(thread, self.process.get(), each);
            }
        }
        last
    }

    /// Sees in which system calls threads wait, unless another thread does already.
    pub(super) fn see_calls(&self) {
        let Some(Ok(_looking)) = self.looking.as_ref().map(Mutex::try_lock) else { return };
        let threads = self.threads.iter().filter(Local::is_alive);
        threads.for_each(|local| local.head().see(local.thread(), self.process.get(), system_call));
    }

    /// Returns a line about threads without such times, if there are any.
    pub(super) fn note(&self) -> Option<String> {
        Refused::of(self.threads.iter()).note()
    }
}

fn words(found: Found) -> Option<[u64; off::WORDS]> {
    let Found::Wait(Wait { is_ready, has_ended, begin, end, processors, call }) = found else { return None };
    let ready = if is_ready { off::READY } else { 0 };
    let ended = if has_ended { off::ENDED } else { 0 };
    let SystemCall { name: [name, rest], argument } = call.unwrap_or_default();
    Some([begin, end.unwrap_or(0), off::about(ready | ended, processors), name, rest, argument])
}

impl Drop for OffTimes {
    fn drop(&mut self) {
        self.threads.iter().for_each(|local| _ = local.head().close(self.process.get()));
    }
}
