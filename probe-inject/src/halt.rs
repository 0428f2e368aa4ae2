//! All threads of a process, stopped for a moment.
//!
//! ```text
//! list ▸ each new thread: seize, interrupt ▸ all stand ▸ list again, until there is no new one
//! ▸ work ▸ let go
//! ```
//! Only a thread of the process starts another one. So once each thread of a list stands or has
//! ended, and later lists have no other, all stand.
//!
//! Life cycle: one thread here does all of it. When it ends, however that happens, the kernel lets
//! all go, as they are. If one does not stop in time, the others go on, and all is tried again.
//!
//! Cost: each thread needs a processor to stop, and then the work.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use crate::call::{Process, is_filtered, repeat, stop};
use crate::error::InjectError;
use crate::memory::Memory;
use crate::process::{LOOK, Reason, Registers, Status, Stopped, Thread, seize, threads, worker};

/// The time for all threads to stop. Each needs a processor for that, so the time doubles with each
/// try, up to the other one.
const STOP: Duration = Duration::from_millis(5);
const MOST_STOP: Duration = Duration::from_millis(160);
/// The time after which it is looked seldom, and the time between two looks then: threads need the
/// processor that looks.
const SOON: Duration = Duration::from_micros(500);
const SELDOM: Duration = Duration::from_micros(200);
/// The time after which nobody waits for a thread that is in an uninterruptible wait.
const SLEEPS: Duration = Duration::from_millis(2);
/// The time after which the process may wait for a thread's end to be noticed here.
const EXECS: Duration = Duration::from_millis(10);
/// The time between two tries.
const ROUND: Duration = Duration::from_millis(5);
/// The most threads that an error shows.
const SHOWN: usize = 8;

/// All threads of a process, while they stand. See [`Process::halt`].
///
/// ```no_run
/// let mut process = probe_inject::Process::open(4711)?;
/// let places = process.halt(|halted| {
///     let mut places = Vec::new();
///     halted.each(|stand| {
///         places.push(stand.instruction);
///         Ok(None)
///     })?;
///     std::io::Result::Ok(places)
/// })?;
/// println!("{} threads stood for {:?}", places.map_or(0, |it| it.len()), process.longest_stop());
/// # Ok::<(), probe_inject::InjectError>(())
/// ```
#[derive(Debug)]
pub struct Halted<'a> {
    pid: u32,
    memory: &'a Memory,
    threads: Vec<(u32, Thread)>,
    /// Those that were asked to stop, and did not in time.
    late: Vec<(u32, Thread)>,
    /// The moment since which all stand.
    since: Instant,
}

/// The place at which a thread stands: registers that other code may lead it by.
///
/// ```
/// let stand = probe_inject::Stand { instruction: 0x1000, ..Default::default() };
/// assert_eq!(stand.flags, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stand {
    /// The address of its next instruction.
    pub instruction: u64,
    /// The stack pointer.
    pub stack: u64,
    /// The flags.
    pub flags: u64,
    /// The address of its descriptor, which the C library keeps above the thread's own stack.
    pub descriptor: u64,
}

/// Why not all threads stand.
enum NotHalted {
    /// Not at this moment: a line about a thread.
    Now(String),
    Never(InjectError),
}

/// Begins to trace a thread; `None` if it has ended.
fn seized(pid: u32, id: u32) -> Result<Option<(u32, Thread)>, NotHalted> {
    match seize(pid, id).map_err(NotHalted::Never)? {
        Ok(thread) => Ok(Some((id, thread))),
        Err(Reason::Ended) => Ok(None),
        Err(why) => Err(NotHalted::Now(format!("{id} {why}"))),
    }
}

/// Notices the ends of all threads but the first. A thread that becomes another program
/// waits for that, and holds a lock meanwhile that beginning to trace takes.
fn reap(pid: u32) {
    threads(pid).into_iter().filter(|it| *it != pid).for_each(Thread::reap);
}

impl Process {
    /// Stops all threads of the process, does something while they stand, and lets them go. Nothing
    /// of the process runs meanwhile, but for a child that uses its memory until it becomes another
    /// program (`vfork`), whose parent does not stop, and for other processes that share its memory
    /// (`CLONE_VM` without `CLONE_THREAD`).
    ///
    /// # Errors
    /// [`InjectError`]: [`NoMoment`](InjectError::NoMoment) if a thread does not stop. All threads
    /// go on then. A thread with filters of system calls (seccomp) that gets no processor is waited
    /// for, up to ten seconds more.
    pub fn halt<R: Send>(&mut self, mut work: impl FnMut(&Halted<'_>) -> R + Send) -> Result<R, InjectError> {
        let begun = Instant::now();
        let mut lines = Vec::new();
        let mut limit = STOP;
        loop {
            let (pid, memory, work) = (self.pid, &*self.memory, &mut work);
            let attempt = move || {
                let mut halted =
                    Halted { pid, memory, threads: Vec::new(), late: Vec::new(), since: Instant::now() };
                let done = halted.take(limit).map(|()| work(&halted));
                (done, halted.threads.len(), halted.let_go())
            };
            // The kernel lets all threads go when the one ends that has stopped them.
            let attempted = thread::scope(|scope| {
                let attempt = scope.spawn(attempt);
                let mut begun = Instant::now();
                while !attempt.is_finished() {
                    thread::sleep(SELDOM);
                    if begun.elapsed() > EXECS {
                        reap(pid);
                        begun = Instant::now();
                    }
                }
                attempt.join()
            });
            let (done, count, longest) = attempted.unwrap_or_else(|panic| resume_unwind(panic));
            self.longest = self.longest.max(longest);
            self.stops += u32::try_from(count).unwrap_or(u32::MAX);
            match done {
                Ok(done) => return Ok(done),
                Err(NotHalted::Never(error)) => return Err(error),
                Err(NotHalted::Now(line)) if !lines.contains(&line) && lines.len() < SHOWN => {
                    lines.push(line);
                }
                Err(NotHalted::Now(_)) => (),
            }
            if begun.elapsed() > self.patience {
                return Err(InjectError::NoMoment { pid: self.pid, within: self.patience, threads: lines });
            }
            thread::sleep(ROUND);
            limit = (2 * limit).min(MOST_STOP);
        }
    }
}

impl Halted<'_> {
    /// Stops all threads within a time.
    fn take(&mut self, limit: Duration) -> Result<(), NotHalted> {
        let begun = Instant::now();
        let mut known = HashSet::new();
        // The system's list may lack a thread while another one ends. So two must have no new one.
        let mut quiet = 0;
        while quiet < 2 {
            let before = Instant::now();
            let new: Vec<_> = threads(self.pid).into_iter().filter(|id| known.insert(*id)).collect();
            quiet = if new.is_empty() { quiet + 1 } else { 0 };
            let own = new.into_iter().filter(|id| !worker(self.pid, *id));
            let seized = own.filter_map(|id| seized(self.pid, id).transpose());
            let mut asked = seized.collect::<Result<Vec<_>, _>>()?;
            // One that is gone is not waited for.
            asked.retain(|(_, thread)| thread.interrupt().is_ok());
            self.wait(asked, before, begun + limit)?;
        }
        if self.threads.is_empty() {
            // All of the list may have ended for one that becomes another program.
            let status = Status::of(self.pid);
            let is_there = status.is_some_and(|it| it.state != 'Z' || threads(self.pid).len() > 1);
            return Err(if is_there {
                NotHalted::Now(format!("{} becomes another program", self.pid))
            } else {
                NotHalted::Never(InjectError::NoProcess(self.pid))
            });
        }
        self.since = Instant::now();
        Ok(())
    }

    /// Waits until these threads stand, which they were asked to do after the moment of `looked`.
    fn wait(
        &mut self,
        mut asked: Vec<(u32, Thread)>,
        mut looked: Instant,
        end: Instant,
    ) -> Result<(), NotHalted> {
        let begun = looked;
        loop {
            let before = mem::replace(&mut looked, Instant::now());
            for (id, thread) in mem::take(&mut asked) {
                match thread.is_stopped(before) {
                    // One that job control has stopped stays so.
                    Ok(Some(Stopped::Here | Stopped::ByJobControl | Stopped::Elsewhere)) => {
                        self.threads.push((id, thread));
                    }
                    Ok(None | Some(Stopped::NotYet)) => asked.push((id, thread)),
                    Ok(Some(Stopped::Ended)) | Err(_) => (),
                }
            }
            let Some(&(id, _)) = asked.first() else { return Ok(()) };
            let not_stopped = |id| Reason::not_stopped(self.pid, id);
            if begun.elapsed() > SLEEPS {
                let mut ids = asked.iter().map(|(id, _)| *id);
                if let Some(id) = ids.find(|id| not_stopped(*id) == Reason::Sleeps) {
                    self.late = asked;
                    return Err(NotHalted::Now(format!("{id} {}", Reason::Sleeps)));
                }
            }
            if Instant::now() > end {
                let why = not_stopped(id);
                self.late = asked;
                return Err(NotHalted::Now(format!("{id} {why}")));
            }
            thread::sleep(if begun.elapsed() > SOON { SELDOM } else { LOOK });
        }
    }

    /// Returns the time since all threads stand.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the process's memory.
    pub fn memory(&self) -> &Memory {
        self.memory
    }

    /// Lets `leads` see where each thread stands. One for which it returns another place goes on
    /// from there.
    ///
    /// # Errors
    /// The system's, for a thread that has ended, or one of 32 bits.
    pub fn each(&self, mut leads: impl FnMut(Stand) -> io::Result<Option<Stand>>) -> io::Result<()> {
        for (_, thread) in &self.threads {
            let registers = thread.registers()?;
            let stand = Stand {
                instruction: registers.rip,
                stack: registers.rsp,
                flags: registers.eflags,
                descriptor: registers.fs_base,
            };
            if let Some(Stand { instruction, stack, flags, .. }) = leads(stand)? {
                let led = Registers { rip: instruction, rsp: stack, eflags: flags, ..registers };
                thread.set_registers(&led)?;
            }
        }
        Ok(())
    }

    /// Lets all go, and returns the longest time for which one was stopped.
    fn let_go(self) -> Duration {
        let mut longest = Duration::ZERO;
        // One without filters may be left: it is let go when this thread ends. Others are waited
        // for after the rest has gone.
        let is_late =
            |(id, thread): &&(u32, Thread)| is_filtered(self.pid, *id) && stop(self.pid, *id, thread).is_ok();
        for (id, thread) in self.threads.iter().chain(self.late.iter().filter(is_late)) {
            repeat(self.pid, *id, thread);
            // One that was killed needs nothing.
            let _ = thread.let_go();
            longest = longest.max(thread.longest_stop());
        }
        longest
    }
}
