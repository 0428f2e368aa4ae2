//! All threads of a process, stopped at once.
//!
//! ```text
//! list ▸ each new thread: seize, interrupt ▸ wait until all are stopped ▸ list again, until no
//! thread is new ▸ work ▸ detach all
//! ```
//! Only a thread of the process starts another one. So once each thread of a list is stopped or has
//! ended, and later lists have no new one, all are stopped.
//!
//! Life cycle: one thread here does all of it. When it ends, for whatever reason, the kernel
//! detaches all tracees, and they run on. If one does not stop in time, the others are detached,
//! and the whole is tried again.
//!
//! Cost: each thread needs a processor to stop. Then it is stopped for as long as the work takes.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use crate::call::{Process, has_filters, prepare_detach, stop};
use crate::error::InjectError;
use crate::process::{
    Memory, POLL_INTERVAL, Registers, SkipReason, TaskStatus, Tracee, TraceeState, is_io_worker, seize,
    threads,
};

/// The time for all threads to stop. Each needs a processor for that, so the time doubles with each
/// attempt, up to the maximum.
const STOP_TIMEOUT: Duration = Duration::from_millis(5);
const MAX_STOP_TIMEOUT: Duration = Duration::from_millis(160);
/// The time after which polls become rare, and the interval of rare polls: threads need the
/// processor that polls.
const FREQUENT_POLLS: Duration = Duration::from_micros(500);
const RARE_POLL_INTERVAL: Duration = Duration::from_micros(200);
/// The longest wait for a thread that waits uninterruptibly.
const UNINTERRUPTIBLE_TIMEOUT: Duration = Duration::from_millis(2);
/// The interval at which ended threads are reaped, for which the process may wait.
const REAP_INTERVAL: Duration = Duration::from_millis(10);
/// The time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// The most lines in an error.
const MAX_LINES: usize = 8;

/// All threads of a process, while they are stopped. See [`Process::halt`].
///
/// ```no_run
/// let mut process = probe_inject::Process::open(4711)?;
/// let addresses = process.halt(|halted| {
///     let mut addresses = Vec::new();
///     halted.each_thread(|registers| {
///         addresses.push(registers.instruction);
///         Ok(None)
///     })?;
///     std::io::Result::Ok(addresses)
/// })?;
/// let count = addresses.map_or(0, |it| it.len());
/// println!("{count} threads were stopped for {:?}", process.longest_stop());
/// # Ok::<(), probe_inject::InjectError>(())
/// ```
#[derive(Debug)]
pub struct Halted<'a> {
    pid: u32,
    memory: &'a Memory,
    threads: Vec<(u32, Tracee)>,
    /// The threads that did not stop in time.
    late: Vec<(u32, Tracee)>,
    /// The time since which all are stopped.
    since: Instant,
}

/// The registers that tell where a stopped thread is. A caller may change all but the last.
///
/// ```
/// let registers = probe_inject::ThreadRegisters { instruction: 0x1000, ..Default::default() };
/// assert_eq!(registers.flags, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadRegisters {
    /// The address of the next instruction.
    pub instruction: u64,
    /// The stack pointer.
    pub stack: u64,
    /// The flags.
    pub flags: u64,
    /// The thread pointer: the address of the thread's descriptor, which the C library keeps above
    /// the thread's own stack.
    pub thread_pointer: u64,
}

/// Why not all threads are stopped.
enum HaltError {
    /// Another attempt may succeed. Has a line about a thread.
    Retry(String),
    Fatal(InjectError),
}

/// Begins to trace a thread; `None` if it has ended.
fn try_seize(pid: u32, id: u32) -> Result<Option<(u32, Tracee)>, HaltError> {
    match seize(pid, id).map_err(HaltError::Fatal)? {
        Ok(tracee) => Ok(Some((id, tracee))),
        Err(SkipReason::Ended) => Ok(None),
        Err(why) => Err(HaltError::Retry(format!("{id} {why}"))),
    }
}

/// Reaps all ended threads but the first. A thread that becomes another program waits for that.
/// Meanwhile it holds a lock that beginning to trace takes.
fn reap(pid: u32) {
    threads(pid).into_iter().filter(|it| *it != pid).for_each(Tracee::reap);
}

impl Process {
    /// Stops all threads of the process, works while they are stopped, and lets them run on. No
    /// code of the process runs meanwhile. Two kinds of other processes may still use its memory: a
    /// child until it becomes another program (`vfork`), whose parent does not stop; and those that
    /// share its memory (`CLONE_VM` without `CLONE_THREAD`).
    ///
    /// # Errors
    /// [`InjectError`]: [`NoSafePoint`](InjectError::NoSafePoint) if a thread does not stop. All
    /// threads run on then. A thread with filters of system calls (seccomp) that gets no processor
    /// may take up to ten seconds more.
    pub fn halt<R: Send>(&mut self, mut work: impl FnMut(&Halted<'_>) -> R + Send) -> Result<R, InjectError> {
        let begun = Instant::now();
        let mut lines = Vec::new();
        let mut timeout = STOP_TIMEOUT;
        loop {
            let (pid, memory, work) = (self.pid, &*self.memory, &mut work);
            let attempt = move || {
                let mut halted =
                    Halted { pid, memory, threads: Vec::new(), late: Vec::new(), since: Instant::now() };
                let done = halted.stop_all(timeout).map(|()| work(&halted));
                (done, halted.threads.len(), halted.detach_all())
            };
            // The kernel also detaches all tracees when the thread ends that has stopped them.
            let attempted = thread::scope(|scope| {
                let attempt = scope.spawn(attempt);
                let mut reaped = Instant::now();
                while !attempt.is_finished() {
                    thread::sleep(RARE_POLL_INTERVAL);
                    if reaped.elapsed() > REAP_INTERVAL {
                        reap(pid);
                        reaped = Instant::now();
                    }
                }
                attempt.join()
            });
            let (done, count, longest) = attempted.unwrap_or_else(|panic| resume_unwind(panic));
            self.longest_stop = self.longest_stop.max(longest);
            self.stops += u32::try_from(count).unwrap_or(u32::MAX);
            match done {
                Ok(done) => return Ok(done),
                Err(HaltError::Fatal(error)) => return Err(error),
                Err(HaltError::Retry(line)) if !lines.contains(&line) && lines.len() < MAX_LINES => {
                    lines.push(line);
                }
                Err(HaltError::Retry(_)) => (),
            }
            if begun.elapsed() > self.timeout {
                return Err(InjectError::NoSafePoint { pid: self.pid, within: self.timeout, threads: lines });
            }
            thread::sleep(RETRY_INTERVAL);
            timeout = (2 * timeout).min(MAX_STOP_TIMEOUT);
        }
    }
}

impl Halted<'_> {
    /// Stops all threads.
    fn stop_all(&mut self, timeout: Duration) -> Result<(), HaltError> {
        let deadline = Instant::now() + timeout;
        let mut known = HashSet::new();
        // The system's list may lack a thread while another one ends. So two lists in a row must
        // have no new one.
        let mut lists_without_new = 0;
        while lists_without_new < 2 {
            let before = Instant::now();
            let new: Vec<_> = threads(self.pid).into_iter().filter(|id| known.insert(*id)).collect();
            lists_without_new = if new.is_empty() { lists_without_new + 1 } else { 0 };
            let own = new.into_iter().filter(|id| !is_io_worker(self.pid, *id));
            let seized = own.filter_map(|id| try_seize(self.pid, id).transpose());
            let mut interrupted = seized.collect::<Result<Vec<_>, _>>()?;
            // Interrupting fails for a thread that has ended.
            interrupted.retain(|(_, tracee)| tracee.interrupt().is_ok());
            self.wait(interrupted, before, deadline)?;
        }
        if self.threads.is_empty() {
            // All listed threads may have ended for one that becomes another program.
            let status = TaskStatus::of(self.pid);
            let is_there = status.is_some_and(|it| it.state != 'Z' || threads(self.pid).len() > 1);
            return Err(if is_there {
                HaltError::Retry(format!("{} becomes another program", self.pid))
            } else {
                HaltError::Fatal(InjectError::NoProcess(self.pid))
            });
        }
        self.since = Instant::now();
        Ok(())
    }

    /// Waits until these threads are stopped. They were interrupted after the time `polled`.
    fn wait(
        &mut self,
        mut running: Vec<(u32, Tracee)>,
        mut polled: Instant,
        deadline: Instant,
    ) -> Result<(), HaltError> {
        let begun = polled;
        loop {
            let before = mem::replace(&mut polled, Instant::now());
            for (id, tracee) in mem::take(&mut running) {
                match tracee.poll_stop(before) {
                    Ok(None | Some(TraceeState::StillRunning)) => running.push((id, tracee)),
                    Ok(Some(TraceeState::Ended)) | Err(_) => (),
                    // A thread that job control has stopped stays so.
                    Ok(Some(_)) => self.threads.push((id, tracee)),
                }
            }
            let Some(&(first, _)) = running.first() else { return Ok(()) };
            let reason = |id| SkipReason::still_running(self.pid, id);
            if begun.elapsed() > UNINTERRUPTIBLE_TIMEOUT {
                let mut ids = running.iter().map(|(id, _)| *id);
                if let Some(id) = ids.find(|id| reason(*id) == SkipReason::Uninterruptible) {
                    self.late = running;
                    return Err(HaltError::Retry(format!("{id} {}", SkipReason::Uninterruptible)));
                }
            }
            if Instant::now() > deadline {
                let why = reason(first);
                self.late = running;
                return Err(HaltError::Retry(format!("{first} {why}")));
            }
            let is_rare = begun.elapsed() > FREQUENT_POLLS;
            thread::sleep(if is_rare { RARE_POLL_INTERVAL } else { POLL_INTERVAL });
        }
    }

    /// Returns the time since all threads are stopped.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the process's memory.
    pub fn memory(&self) -> &Memory {
        self.memory
    }

    /// Calls `visit` with each thread's registers. A thread resumes with the registers that it
    /// returns, if any.
    ///
    /// # Errors
    /// Those of `visit`, and the system's for a thread that has ended, or one of 32 bits.
    pub fn each_thread(
        &self,
        mut visit: impl FnMut(ThreadRegisters) -> io::Result<Option<ThreadRegisters>>,
    ) -> io::Result<()> {
        for (_, tracee) in &self.threads {
            let all = tracee.registers()?;
            let (instruction, stack, flags) = (all.rip, all.rsp, all.eflags);
            let registers = ThreadRegisters { instruction, stack, flags, thread_pointer: all.fs_base };
            if let Some(ThreadRegisters { instruction, stack, flags, .. }) = visit(registers)? {
                tracee.set_registers(&Registers { rip: instruction, rsp: stack, eflags: flags, ..all })?;
            }
        }
        Ok(())
    }

    /// Detaches all threads, and returns the longest stop.
    fn detach_all(self) -> Duration {
        let mut longest = Duration::ZERO;
        // A late thread without filters may be left alone: it is detached when this thread ends.
        // One with filters must stop first, after all others are detached.
        let must_stop =
            |(id, tracee): &&(u32, Tracee)| has_filters(self.pid, *id) && stop(self.pid, *id, tracee).is_ok();
        for (id, tracee) in self.threads.iter().chain(self.late.iter().filter(must_stop)) {
            prepare_detach(self.pid, *id, tracee);
            // It fails for a thread that was killed.
            let _ = tracee.detach();
            longest = longest.max(tracee.longest_stop());
        }
        longest
    }
}
