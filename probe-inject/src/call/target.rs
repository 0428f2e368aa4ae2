//! A process in which something is called.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::call_lock::Turn;
use super::gadgets::Code;
use super::hijack::lead;
use super::map::{FLAGS, READ_EXECUTE, READ_WRITE};
use super::remote_call::{Call, Returned};
use super::restart::{Rank, rank};
use super::safe_point::{BUSY, LIMITED, Look, Places, is_lasting, is_passing};
use super::scratch::{Regions, Scratch, place};
use super::stub::{NAME, PAGE, PATH, SIZE, TEXT, TEXT_LENGTH, WORDS, Words, code as code_of_calls};
use crate::error::InjectError;
use crate::memory::Memory;
use crate::process::{Filters, Mapping, Reason, Registers, Status, activity, briefly, check, maps, threads};

/// The time to look for a suitable thread, and the time for a call to end, as long as nobody sets
/// another one.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for other callers to end. Each may take ten seconds for a thread, and ten for a call.
const OTHERS: Duration = Duration::from_secs(30);
/// The time for a thread to be let go whose tracer ends, and for a program to become another one.
const LET_GO: Duration = Duration::from_millis(100);
/// The time between two looks at the end of a call.
pub(super) const LOOK: Duration = Duration::from_micros(200);
/// The time between two looks at all threads.
pub(super) const ROUND: Duration = Duration::from_millis(2);
/// The time after which threads are taken whose calls have limits in time.
const PREFERENCE: Duration = Duration::from_millis(200);
/// The time for the end of a system call with a limit. It doubles with each round, up to this power
/// of two.
const LATER: Duration = Duration::from_millis(100);
const MOST_LATER: u32 = 6;
/// The most threads that an error shows.
const SHOWN: usize = 8;

/// Threads, and why they are not suitable.
type Reasons = Vec<(u32, &'static str)>;

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
    pub(crate) pid: u32,
    pub(crate) memory: Arc<Memory>,
    pub(crate) patience: Duration,
    pub(crate) longest: Duration,
    pub(crate) stops: u32,
    /// Filters of system calls that let a thread live whatever call it makes.
    pub(crate) judged: Vec<Filters>,
    /// The code by which calls are made, once it is found.
    code: Option<Code>,
    /// Nobody else calls anything there while this is open.
    _turn: Turn,
}

impl Process {
    /// Opens a process, and waits until no other caller has it open, and no call is under way. So a
    /// library that others load is there, whole, when the process is read then. Another caller is
    /// waited for as long as 30 seconds.
    ///
    /// # Errors
    /// [`InjectError`] if nothing can be called there.
    pub fn open(pid: u32) -> Result<Self, InjectError> {
        let turn = Turn::take(pid, OTHERS)?;
        let begun = Instant::now();
        let memory = loop {
            match check(pid) {
                // A caller that was killed may have given back its turn, and not yet its thread.
                // The first thread of a program that becomes another one has ended for a moment.
                Err(InjectError::Traced { .. } | InjectError::Unable { .. }) if begun.elapsed() < LET_GO => {
                    thread::sleep(LOOK);
                }
                checked => break Arc::new(checked?),
            }
        };
        let (longest, stops) = (Duration::ZERO, 0);
        let (judged, code) = (Vec::new(), None);
        let process = Self { pid, memory, patience: PATIENCE, longest, stops, judged, code, _turn: turn };
        process.settle()?;
        Ok(process)
    }

    /// Sets how long to look for a suitable thread, and how long to wait for the end of a call; ten
    /// seconds by default.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Returns the process's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the process's memory.
    pub fn memory(&self) -> &Arc<Memory> {
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
    /// [`InjectError`]. With [`TimedOut`](InjectError::TimedOut), and with
    /// [`System`](InjectError::System) after a thread was told, the call may still be made.
    pub fn call(&mut self, call: &Call<'_>, places: &Places) -> Result<Returned, InjectError> {
        let name = self.name(call.file)?;
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
        self.write(base + NAME, &name)?;
        self.write(base + TEXT, &[0])?;
        let entries = scratch.entries();
        let code = Code { restorer: entries.restorer, call: entries.call };
        let told = |registers: &mut Registers| {
            registers.rip = entries.stub;
            registers.rdi = base + WORDS;
        };
        let thread = self.tell(code, places, &[scratch.range()], None, Some(base + WORDS), &told)?;
        self.finish(base, thread, call.file)
    }

    /// Returns the memory of calls there, which the first one maps.
    fn scratch(&mut self, places: &Places) -> Result<Scratch, InjectError> {
        self.settle()?;
        let maps = self.maps()?;
        let regions = Regions::find(&self.memory, &maps);
        if let Some(it) = regions.free.filter(|it| it.is_ready) {
            return Ok(it);
        }
        let pid = self.pid;
        let unable = |problem: &str| InjectError::Unable { pid, problem: problem.to_owned() };
        if !regions.has_room {
            return Err(unable("has several calls under way that don't end"));
        }
        let code = self.code(&maps)?;
        let base = if let Some(it) = regions.free {
            it.base
        } else {
            let base = place(&maps).ok_or_else(|| unable("has no room for memory of a call"))?;
            let arguments = [base, SIZE, READ_WRITE, FLAGS, u64::MAX, 0];
            let is_there = |maps: &[Mapping]| maps.iter().any(|it| it.start == base && it.is_writable);
            self.system(libc::SYS_mmap, arguments, code, places, &regions.all, is_there)?;
            self.write(base, code_of_calls().0)?;
            base
        };
        let is_there = |maps: &[Mapping]| maps.iter().any(|it| it.start == base && it.is_executable);
        let arguments = [base, PAGE, READ_EXECUTE, 0, 0, 0];
        self.system(libc::SYS_mprotect, arguments, code, places, &regions.all, is_there)?;
        Ok(Scratch { base, is_ready: true })
    }

    /// Returns the code by which calls are made.
    pub(super) fn code(&mut self, maps: &[Mapping]) -> Result<Code, InjectError> {
        if self.code.is_none() {
            self.code = Code::find(&self.memory, maps);
        }
        self.code.ok_or_else(|| InjectError::Unable {
            pid: self.pid,
            problem:
                "has no code that makes a system call, or that returns from a signal's handler, by which a \
                      call could end; C libraries have both"
                    .to_owned(),
        })
    }

    /// Makes a system call there, and waits until its mappings show it.
    pub(super) fn system(
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
        self.tell(code, places, scratch, u32::try_from(number).ok(), None, &told)?;
        let begun = Instant::now();
        while !is_done(&self.maps()?) {
            if begun.elapsed() > REFUSED {
                let problem = "neither gives nor takes memory: its limits (ulimit -v), its filter of system calls \
                     (seccomp), or a security module, may forbid it";
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
        makes: Option<u32>,
        busy: Option<u64>,
        told: &(dyn Fn(&mut Registers) + Sync),
    ) -> Result<u32, InjectError> {
        let begun = Instant::now();
        let mut late_rounds = 0;
        let mut reasons: BTreeMap<u32, &'static str> = BTreeMap::new();
        loop {
            let (ranked, mut others) = self.ranked();
            // There may be no other thread to wait for.
            let is_only = ranked.len() == 1;
            let is_late = is_only || begun.elapsed() > PREFERENCE.min(self.patience / 2);
            let longer = match is_late {
                true if is_only => self.patience,
                true => LATER * (1 << late_rounds.min(MOST_LATER)),
                false => Duration::ZERO,
            };
            late_rounds += u32::from(is_late);
            for (rank, id) in ranked {
                if rank == Rank::Limited && !is_late {
                    others.push((id, LIMITED));
                    continue;
                }
                let later = longer.min(self.patience.saturating_sub(begun.elapsed()));
                let (pid, memory) = (self.pid, &*self.memory);
                let judged = &self.judged[..];
                let look = Look { pid, id, memory, places, scratch, makes, judged, later };
                let (stopped, led) = briefly(pid, id, |thread| {
                    Ok(lead(&look, thread, code, busy, told)?.map_err(Reason::Other))
                })?;
                self.longest = self.longest.max(stopped);
                self.stops += 1;
                match led {
                    Ok(()) => return Ok(id),
                    Err(why) => others.push((id, why.text())),
                }
            }
            if others.is_empty() && Status::of(self.pid).is_none() {
                return Err(InjectError::NoProcess(self.pid));
            }
            if !others.is_empty() && others.iter().all(|(_, why)| is_lasting(why)) {
                let threads = others.iter().take(SHOWN).map(|(id, why)| format!("{id} {why}")).collect();
                return Err(InjectError::Refused { pid: self.pid, threads });
            }
            // The last reason may hold for a moment only, and does not tell why a call never was
            // possible.
            reasons.retain(|id, why| {
                let now = others.iter().find(|it| it.0 == *id);
                now.is_some_and(|(_, now)| is_passing(now) && !is_passing(why))
            });
            others.into_iter().for_each(|(id, why)| _ = reasons.entry(id).or_insert(why));
            if begun.elapsed() > self.patience {
                let threads = reasons.iter().take(SHOWN).map(|(id, why)| format!("{id} {why}")).collect();
                return Err(InjectError::NoMoment { pid: self.pid, within: self.patience, threads });
            }
            thread::sleep(ROUND);
        }
    }

    /// Returns the threads that may be suitable, the likeliest first, and the reasons why others
    /// are not. Nothing stops for that.
    fn ranked(&self) -> (Vec<(Rank, u32)>, Reasons) {
        let (mut ranked, mut others) = (Vec::new(), Vec::new());
        for id in threads(self.pid) {
            let Some(status) = Status::of_thread(self.pid, id) else { continue };
            let why = match (status.state, rank(activity(self.pid, id))) {
                ('D', _) => "waits uninterruptibly",
                ('T' | 't', _) => "is stopped",
                ('Z' | 'X', _) => "has ended",
                (_, Some(rank)) => {
                    ranked.push((rank, id));
                    continue;
                }
                (_, None) => BUSY,
            };
            others.push((id, why));
        }
        ranked.sort_unstable();
        (ranked, others)
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), InjectError> {
        self.memory.write(address, bytes).map_err(|error| self.gone(error))
    }

    pub(super) fn word(&self, address: u64) -> Result<u64, InjectError> {
        self.memory.word(address).map_err(|error| self.gone(error))
    }

    pub(super) fn gone(&self, error: io::Error) -> InjectError {
        match Status::of(self.pid).filter(|it| it.state != 'Z') {
            None => InjectError::NoProcess(self.pid),
            Some(_) => InjectError::System { pid: self.pid, step: "its memory can't be used", error },
        }
    }
}
