//! All threads of a process, stopped for a moment.
//!
//! ```text
//! list ▸ each new thread: seize, interrupt ▸ all stand ▸ list again, until there is no new one
//! ▸ work ▸ let go
//! ```
//! Only a thread of the process starts another one. So once each thread of a list stands, and a
//! second list has no other, all stand.
//!
//! Life cycle: one thread here does all of it. When it ends, however that happens, the kernel lets
//! all go, as they are. A thread that does not stop lets the others go; then all is tried again.
//!
//! Cost: each thread needs a processor to stop, and then the work.

use std::io;
use std::mem;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use crate::call::{Process, repeat};
use crate::error::InjectError;
use crate::memory::Memory;
use crate::process::{LOOK, Registers, Status, Stopped, Thread, seize, threads};

/// The time for all threads to stop. Each needs a processor for that.
const STOP: Duration = Duration::from_millis(100);
/// The time after which nobody waits for a thread that is in an uninterruptible wait.
const SLEEPS: Duration = Duration::from_millis(5);
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
    begun: Instant,
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

/// Asks a thread to stop; `None` if it has ended.
fn asked(pid: u32, id: u32) -> Result<Option<(u32, Thread)>, NotHalted> {
    match seize(pid, id).map_err(NotHalted::Never)? {
        // One that is gone is not asked.
        Ok(thread) => Ok(thread.interrupt().ok().map(|()| (id, thread))),
        Err("has ended") => Ok(None),
        Err(why) => Err(NotHalted::Now(format!("{id} {why}"))),
    }
}

impl Process {
    /// Stops all threads of the process, does something while they stand, and lets them go. Nothing
    /// of the process runs meanwhile, but for a child that uses its memory until it becomes another
    /// program (`vfork`), whose parent does not stop.
    ///
    /// # Errors
    /// [`InjectError`]: [`NoMoment`](InjectError::NoMoment) if a thread does not stop. All threads
    /// go on then.
    pub fn halt<R: Send>(&mut self, mut work: impl FnMut(&Halted<'_>) -> R + Send) -> Result<R, InjectError> {
        let begun = Instant::now();
        let mut lines = Vec::new();
        loop {
            let (pid, memory, work) = (self.pid, &*self.memory, &mut work);
            let attempt = move || {
                let halted = Halted::take(pid, memory)?;
                let done = work(&halted);
                Ok((done, halted.threads.len(), halted.let_go()))
            };
            // The kernel lets all threads go when the one ends that has stopped them.
            let attempted = thread::scope(|scope| scope.spawn(attempt).join());
            match attempted.unwrap_or_else(|panic| resume_unwind(panic)) {
                Ok((done, count, longest)) => {
                    self.longest = self.longest.max(longest);
                    self.stops += u32::try_from(count).unwrap_or(u32::MAX);
                    return Ok(done);
                }
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
        }
    }
}

impl<'a> Halted<'a> {
    fn take(pid: u32, memory: &'a Memory) -> Result<Self, NotHalted> {
        let begun = Instant::now();
        let mut halted = Self { pid, memory, threads: Vec::new(), begun };
        loop {
            let known = |id: &u32| halted.threads.iter().any(|(it, _)| it == id);
            let others: Vec<_> = threads(pid).into_iter().filter(|id| !known(id)).collect();
            let before = Instant::now();
            let asked = others.iter().filter_map(|id| asked(pid, *id).transpose());
            let asked = asked.collect::<Result<Vec<_>, _>>()?;
            if asked.is_empty() {
                break;
            }
            halted.wait(asked, before)?;
        }
        if halted.threads.is_empty() || Status::of(pid).is_none_or(|it| it.state == 'Z') {
            return Err(NotHalted::Never(InjectError::NoProcess(pid)));
        }
        Ok(halted)
    }

    /// Waits until these threads stand, which they were asked to do after the moment of `looked`.
    fn wait(&mut self, mut asked: Vec<(u32, Thread)>, mut looked: Instant) -> Result<(), NotHalted> {
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
            let Some((id, _)) = asked.first() else { return Ok(()) };
            let waited = self.begun.elapsed();
            if waited > SLEEPS {
                let sleeps = |(id, _): &&(u32, Thread)| {
                    Status::of_thread(self.pid, *id).is_some_and(|it| it.state == 'D')
                };
                if let Some((id, _)) = asked.iter().find(sleeps) {
                    return Err(NotHalted::Now(format!("{id} does not stop: it waits uninterruptibly")));
                }
            }
            if waited > STOP {
                return Err(NotHalted::Now(format!("{id} does not stop: it gets no processor")));
            }
            thread::sleep(LOOK);
        }
    }

    /// Returns the time since the first thread was stopped.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
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
        for (id, thread) in &self.threads {
            repeat(self.pid, *id, thread);
            // One that was killed needs nothing.
            let _ = thread.let_go();
            longest = longest.max(thread.longest_stop());
        }
        longest
    }
}
