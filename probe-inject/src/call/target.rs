//! A process in which something is called.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use super::code::Code;
use super::lead::lead;
use super::moment::{Look, Places};
use super::restart::{Rank, rank};
use super::scratch::{Regions, Scratch, place};
use super::stub::{
    DONE, FILE, FILLED, NAME, PATH, PATH_LENGTH, RESULT, SIZE, TEXT, TEXT_LENGTH, WORDS, Words,
};
use super::stub::{PAGE, code};
use super::turn::Turn;
use crate::error::InjectError;
use crate::memory::Memory;
use crate::process::{Mapping, Registers, Status, activity, check, maps, threads};

/// The time between two looks at the end of a call.
const LOOK: Duration = Duration::from_micros(200);
/// The time between two looks at all threads.
const ROUND: Duration = Duration::from_millis(2);
/// The time after which threads are taken whose calls have limits in time.
const PREFERENCE: Duration = Duration::from_millis(200);
/// The most threads that an error shows.
const SHOWN: usize = 8;

/// A process in which functions can be called.
///
/// ```no_run
/// use probe_inject::{Call, Places, Process};
///
/// let mut process = Process::open(4711)?;
/// // int getpid(void), whose address there its C library's file and `process.maps()` tell.
/// let call = Call { function: 0x7f12_3456_7890, ..Call::default() };
/// let returned = process.call(&call, &Places::default())?;
/// println!("{}, and a thread was stopped for {:?}", returned.value, process.longest_stop());
/// # Ok::<(), probe_inject::InjectError>(())
/// ```
#[derive(Debug)]
pub struct Process {
    pid: u32,
    memory: Memory,
    patience: Duration,
    longest: Duration,
    stops: u32,
}

/// A call.
///
/// ```
/// let call = probe_inject::Call { function: 0x1000, arguments: [1, 2, 0], ..Default::default() };
/// assert_eq!(call.explains, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Call<'a> {
    /// The function, of the C calling convention.
    pub function: u64,
    /// Its arguments. With a file, the first one is replaced by the address of a path.
    pub arguments: [u64; 3],
    /// A function without arguments that is called if the first one returns 0, and returns a text
    /// of C, such as `dlerror`; 0 for none.
    pub explains: u64,
    /// The bytes of a file in memory that exists during the call. Its path is the first argument.
    pub file: Option<&'a [u8]>,
    /// Whether the first two arguments are replaced by the address and the bytes of a text, which
    /// the function may write, with a terminator.
    pub takes_text: bool,
}

/// The result of a call.
///
/// ```
/// assert_eq!(probe_inject::Returned::default().value, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Returned {
    /// The value.
    pub value: u64,
    /// The text that the function has written, or that explains the value 0.
    pub text: String,
}

impl Process {
    /// Opens a process.
    ///
    /// # Errors
    /// [`InjectError`] if nothing can be called there.
    pub fn open(pid: u32) -> Result<Self, InjectError> {
        let memory = check(pid)?;
        Ok(Self { pid, memory, patience: Duration::from_secs(10), longest: Duration::ZERO, stops: 0 })
    }

    /// Sets how long to look for a suitable thread, and how long to wait for the end of a call; ten
    /// seconds by default.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Returns the process's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the process's mappings.
    ///
    /// # Errors
    /// [`InjectError::NoProcess`].
    pub fn maps(&self) -> Result<Vec<Mapping>, InjectError> {
        maps(self.pid).map_err(|_| InjectError::NoProcess(self.pid))
    }

    /// Returns the longest time for which a thread was stopped.
    pub fn longest_stop(&self) -> Duration {
        self.longest
    }

    /// Returns how often a thread was stopped.
    pub fn stops(&self) -> u32 {
        self.stops
    }

    /// Calls a function on a thread of the process, on a stack of its own.
    ///
    /// # Errors
    /// [`InjectError`]. Unless it is [`TimedOut`](InjectError::TimedOut), nothing was called.
    pub fn call(&mut self, call: &Call<'_>, places: &Places) -> Result<Returned, InjectError> {
        let _turn = Turn::take(self.pid, self.patience)?;
        let scratch = self.scratch(places)?;
        let base = scratch.base;
        let mut arguments = call.arguments;
        if call.file.is_some() {
            arguments[0] = base + PATH;
        }
        if call.takes_text {
            arguments[..2].copy_from_slice(&[base + TEXT, TEXT_LENGTH as u64]);
        }
        let words = Words {
            busy: 0,
            wants_file: call.file.is_some(),
            function: call.function,
            arguments,
            explains: call.explains,
        };
        self.write(base + WORDS, &words.bytes())?;
        self.write(base + NAME, b"libprobe_agent.so\0")?;
        self.write(base + TEXT, &[0])?;
        let entries = scratch.entries();
        let code = Code { restorer: entries.restorer, call: entries.call };
        let told = |registers: &mut Registers| {
            registers.rip = entries.stub;
            registers.rdi = base + WORDS;
        };
        let thread = self.tell(code, places, &[scratch.range()], Some(base + WORDS), &told)?;
        self.finish(base, thread, call.file)
    }

    /// Waits for the end of a call, and gives it its file.
    fn finish(&self, base: u64, thread: u32, mut file: Option<&[u8]>) -> Result<Returned, InjectError> {
        let begun = Instant::now();
        while self.word(base + DONE)? == 0 {
            let descriptor = self.word(base + FILE)?.cast_signed();
            if descriptor > 0
                && let Some(bytes) = file.take()
            {
                self.fill(base, descriptor - 1, bytes)?;
            }
            if begun.elapsed() > self.patience {
                return Err(InjectError::TimedOut { pid: self.pid, thread, within: self.patience });
            }
            thread::sleep(LOOK);
        }
        let descriptor = self.word(base + FILE)?.cast_signed();
        if descriptor < 0 {
            // One more than the negative number of the error.
            let error = i32::try_from(1 - descriptor).unwrap_or(0);
            let error = io::Error::from_raw_os_error(error);
            return Err(InjectError::System {
                pid: self.pid,
                step: "a file in memory can't be made there",
                error,
            });
        }
        let value = self.word(base + RESULT)?;
        let text = self.memory.bytes(base + TEXT, TEXT_LENGTH).map_err(|error| self.gone(error))?;
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        Ok(Returned { value, text: String::from_utf8_lossy(&text[..length]).into_owned() })
    }

    /// Fills the file in memory, and tells its path. An unusual one: the loader knows objects by
    /// their paths, and the program may load other files by that number.
    fn fill(&self, base: u64, descriptor: i64, bytes: &[u8]) -> Result<(), InjectError> {
        let open = || {
            let path = format!("/proc/{}/fd/{descriptor}", self.pid);
            OpenOptions::new().write(true).open(path)?.write_all(bytes)
        };
        let step = "the file in memory can't be filled";
        open().map_err(|error| InjectError::System { pid: self.pid, step, error })?;
        let mut path = format!("/proc/self/./fd/{descriptor}").into_bytes();
        path.resize(PATH_LENGTH, 0);
        self.write(base + PATH, &path)?;
        self.write(base + FILLED, &1_u64.to_le_bytes())
    }

    /// Returns the memory of calls there, which the first one maps.
    fn scratch(&mut self, places: &Places) -> Result<Scratch, InjectError> {
        const READ_WRITE: u64 = 3;
        const READ_EXECUTE: u64 = 5;
        // Private, of no file, and at this address or not at all.
        const FLAGS: u64 = 0x2 | 0x20 | 0x10_0000;
        let maps = self.maps()?;
        let regions = Regions::find(&self.memory, &maps);
        if let Some(it) = regions.free.filter(|it| it.is_ready) {
            return Ok(it);
        }
        let unable = |problem: &str| InjectError::Unable { pid: self.pid, problem: problem.to_owned() };
        if !regions.has_room {
            return Err(unable("has several calls under way that don't end"));
        }
        let code = Code::find(&self.memory, &maps).ok_or_else(|| unable("has no C library"))?;
        let base = if let Some(it) = regions.free {
            it.base
        } else {
            let base = place(&maps).ok_or_else(|| unable("has no room for memory of a call"))?;
            let arguments = [base, SIZE, READ_WRITE, FLAGS, u64::MAX, 0];
            let is_there = |maps: &[Mapping]| maps.iter().any(|it| it.start == base && it.is_writable);
            self.system(libc::SYS_mmap, arguments, code, places, &regions.all, is_there)?;
            self.write(base, self::code().0)?;
            base
        };
        let is_there = |maps: &[Mapping]| maps.iter().any(|it| it.start == base && it.is_executable);
        let arguments = [base, PAGE, READ_EXECUTE, 0, 0, 0];
        self.system(libc::SYS_mprotect, arguments, code, places, &regions.all, is_there)?;
        Ok(Scratch { base, is_ready: true })
    }

    /// Makes a system call there, and waits until its mappings show it.
    fn system(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        code: Code,
        places: &Places,
        scratch: &[Range<u64>],
        is_done: impl Fn(&[Mapping]) -> bool,
    ) -> Result<(), InjectError> {
        /// A thread that gets time makes it within microseconds.
        const REFUSED: Duration = Duration::from_secs(3);
        let told = |registers: &mut Registers| {
            registers.rip = code.call;
            registers.rax = number.cast_unsigned();
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] =
                arguments;
        };
        self.tell(code, places, scratch, None, &told)?;
        let begun = Instant::now();
        while !is_done(&self.maps()?) {
            if begun.elapsed() > REFUSED {
                let problem =
                    "gives no memory for a call: its limits (ulimit -v), or a security module, may forbid it";
                return Err(InjectError::Unable { pid: self.pid, problem: problem.to_owned() });
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Leads a thread to other code, from which it returns by itself. Returns that thread.
    fn tell(
        &mut self,
        code: Code,
        places: &Places,
        scratch: &[Range<u64>],
        busy: Option<u64>,
        told: &(dyn Fn(&mut Registers) + Sync),
    ) -> Result<u32, InjectError> {
        let begun = Instant::now();
        let restorers = [code.restorer];
        loop {
            let mut lines = Vec::new();
            let is_late = begun.elapsed() > PREFERENCE.min(self.patience / 2);
            for (rank, id) in self.ranked(&mut lines) {
                if rank == Rank::Limited && !is_late {
                    lines.push(format!("{id} waits, with a limit in time"));
                    continue;
                }
                let later =
                    if is_late { self.patience.saturating_sub(begun.elapsed()) } else { Duration::ZERO };
                let (pid, memory) = (self.pid, &self.memory);
                let look = Look { pid, id, memory, places, restorers: &restorers, scratch, later };
                let attempt = move || lead(&look, code, busy, told);
                // The kernel lets a thread go, too, when the one ends that has stopped it.
                let attempted = thread::scope(|scope| scope.spawn(attempt).join());
                let (stopped, led) = attempted.unwrap_or_else(|panic| resume_unwind(panic))?;
                self.longest = self.longest.max(stopped);
                self.stops += 1;
                match led {
                    Ok(()) => return Ok(id),
                    Err(why) => lines.push(format!("{id} {why}")),
                }
            }
            if lines.is_empty() && Status::of(self.pid).is_none() {
                return Err(InjectError::NoProcess(self.pid));
            }
            if begun.elapsed() > self.patience {
                lines.truncate(SHOWN);
                return Err(InjectError::NoMoment { pid: self.pid, within: self.patience, threads: lines });
            }
            thread::sleep(ROUND);
        }
    }

    /// Returns the threads that may be suitable, the likeliest first. Nothing stops for that.
    fn ranked(&self, lines: &mut Vec<String>) -> Vec<(Rank, u32)> {
        let mut ranked = Vec::new();
        for id in threads(self.pid) {
            let Some(status) = Status::of_thread(self.pid, id) else { continue };
            let why = match (status.state, rank(activity(self.pid, id))) {
                _ if status.is_filtered => {
                    "has a filter of system calls (seccomp), which might end the program"
                }
                ('D', _) => "waits uninterruptibly",
                ('T' | 't', _) => "is stopped",
                ('Z' | 'X', _) => "has ended",
                (_, Some(rank)) => {
                    ranked.push((rank, id));
                    continue;
                }
                (_, None) => "is in a system call in which it may hold a lock",
            };
            lines.push(format!("{id} {why}"));
        }
        ranked.sort_unstable();
        ranked
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), InjectError> {
        self.memory.write(address, bytes).map_err(|error| self.gone(error))
    }

    fn word(&self, address: u64) -> Result<u64, InjectError> {
        self.memory.word(address).map_err(|error| self.gone(error))
    }

    fn gone(&self, error: io::Error) -> InjectError {
        match Status::of(self.pid).filter(|it| it.state != 'Z') {
            None => InjectError::NoProcess(self.pid),
            Some(_) => InjectError::System { pid: self.pid, step: "its memory can't be used", error },
        }
    }
}
