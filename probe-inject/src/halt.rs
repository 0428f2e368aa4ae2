//! All threads of a process, stopped for a moment.
//!
//! ```text
//! list ▸ each new thread: seize ▸ stop ▸ list again, until there is no new one ▸ work ▸ let go
//! ```
//! Only a thread of the process starts another one. So once each thread of a list stands, and a
//! second list has no other, all stand.
//!
//! Life cycle: one thread here does all of it. When it ends, however that happens, the kernel lets
//! all go, as they are. A thread that does not stop lets the others go; then all is tried again.
//!
//! Cost: about 50 µs a thread, and the work.

use std::io;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use crate::call::{Process, repeat};
use crate::error::InjectError;
use crate::memory::Memory;
use crate::process::{Registers, Status, Stopped, Thread, seize, threads};

/// The time for a thread to stop.
const STOP: Duration = Duration::from_millis(10);
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
        let mut is_whole = false;
        while !is_whole {
            is_whole = true;
            for id in threads(pid) {
                if halted.threads.iter().all(|(known, _)| *known != id) {
                    is_whole = false;
                    halted.stop(id)?;
                }
            }
            if begun.elapsed() > 10 * STOP {
                return Err(NotHalted::Now("new threads begin all the time".to_owned()));
            }
        }
        if halted.threads.is_empty() || Status::of(pid).is_none_or(|it| it.state == 'Z') {
            return Err(NotHalted::Never(InjectError::NoProcess(pid)));
        }
        Ok(halted)
    }

    fn stop(&mut self, id: u32) -> Result<(), NotHalted> {
        let thread = match seize(self.pid, id).map_err(NotHalted::Never)? {
            Ok(thread) => thread,
            Err("has ended") => return Ok(()),
            Err(why) => return Err(NotHalted::Now(format!("{id} {why}"))),
        };
        match thread.stop(STOP) {
            // One that job control has stopped stays so.
            Ok(Stopped::Here | Stopped::ByJobControl | Stopped::Elsewhere) => {
                self.threads.push((id, thread));
                Ok(())
            }
            Ok(Stopped::Ended) | Err(_) => Ok(()),
            Ok(Stopped::NotYet) => {
                Err(NotHalted::Now(format!("{id} does not stop: it waits uninterruptibly")))
            }
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
