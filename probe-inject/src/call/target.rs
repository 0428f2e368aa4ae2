//! A process in which something is called.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::call_lock::CallLock;
use super::hijack::{Ending, Gadgets, hijack};
use super::remote_call::{CallResult, RemoteCall};
use super::restart::{Rank, rank};
use super::safe_point::{
    CriticalCode, IN_TIMED_CALL, IN_UNKNOWN_CALL, Inspector, is_momentary, is_permanent, prepare_detach, stop,
};
use super::scratch::{
    NAME, PAGE_BYTES, PATH, REGION_BYTES, Region, Regions, TEXT, TEXT_BYTES, WORDS, call_words,
    choose_address, stub_code,
};
use crate::error::InjectError;
use crate::process::{
    Filters, Mapping, Memory, Registers, SkipReason, TaskStatus, TraceeState, activity, check_access, maps,
    none_ever_kills, threads, with_seized,
};

/// The default time to look for a suitable thread, and for a call to end.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for other callers to end. Each may take ten seconds for a thread, and ten for a call.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for a thread to be detached whose tracer ends, and for a program to become another one.
const ACCESS_TIMEOUT: Duration = Duration::from_millis(100);
/// The time between two polls for the end of a call.
pub(super) const POLL_INTERVAL: Duration = Duration::from_micros(200);
/// The time between two rounds over all threads.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// The time for which threads in timed system calls are left alone, since others may be suitable.
const UNTIMED_ONLY_PERIOD: Duration = Duration::from_millis(200);
/// The time for a timed system call to end. It doubles with each round, up to six times.
const FINISH_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_DOUBLINGS: u32 = 6;
/// Protections of memory, and `MAP_PRIVATE`, `MAP_ANONYMOUS` and `MAP_FIXED_NOREPLACE`.
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;
const MAP_FLAGS: u64 = 0x2 | 0x20 | 0x10_0000;
/// The most threads in an error.
const MAX_LINES: usize = 8;

/// Threads, and why they are not suitable.
type Reasons = Vec<(u32, &'static str)>;

/// A process in which functions can be called.
///
/// ```no_run
/// use probe_inject::{CriticalCode, Process, RemoteCall};
///
/// let mut process = Process::open(4711)?;
/// // int getpid(void), whose address there its C library's file and `process.maps()` tell.
/// let call = RemoteCall { function: 0x7f12_3456_7890, ..RemoteCall::default() };
/// let result = process.call(&call, &CriticalCode::default())?;
/// println!("{}, and a thread was stopped for {:?}", result.value, process.longest_stop());
/// # Ok::<(), probe_inject::InjectError>(())
/// ```
#[derive(Debug)]
pub struct Process {
    pub(crate) pid: u32,
    pub(crate) memory: Arc<Memory>,
    pub(crate) timeout: Duration,
    pub(crate) longest_stop: Duration,
    pub(crate) stops: u32,
    /// Filters of system calls that are known to kill a thread for no call.
    pub(super) harmless_filters: Vec<Filters>,
    /// The gadgets, once they are found.
    gadgets: Option<Gadgets>,
    /// Nobody else calls anything there while this is open.
    _lock: CallLock,
}

impl Process {
    /// Opens a process. Waits until no other caller has it open, for 30 seconds at most, and until
    /// no call is under way. So a library that others load is there as a whole when the process is
    /// read then.
    ///
    /// # Errors
    /// [`InjectError`] if nothing can be called there.
    pub fn open(pid: u32) -> Result<Self, InjectError> {
        let lock = CallLock::acquire(pid, LOCK_TIMEOUT)?;
        let begun = Instant::now();
        let memory = loop {
            match check_access(pid) {
                // A caller that was killed may have released its lock, but not yet its thread. The
                // first thread of a program that becomes another one has ended for a moment.
                Err(InjectError::Traced { .. } | InjectError::Unable { .. })
                    if begun.elapsed() < ACCESS_TIMEOUT =>
                {
                    thread::sleep(POLL_INTERVAL);
                }
                checked => break Arc::new(checked?),
            }
        };
        let process = Self {
            pid,
            memory,
            timeout: DEFAULT_TIMEOUT,
            longest_stop: Duration::ZERO,
            stops: 0,
            harmless_filters: Vec::new(),
            gadgets: None,
            _lock: lock,
        };
        process.wait_for_orphan()?;
        Ok(process)
    }

    /// Sets the time to look for a suitable thread, and the time for a call to end; ten seconds by
    /// default.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
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

    /// Returns the longest stop of a thread.
    pub fn longest_stop(&self) -> Duration {
        self.longest_stop
    }

    /// Returns how often a thread was stopped.
    pub fn stops(&self) -> u32 {
        self.stops
    }

    /// Calls a function on a thread of the process, on a stack of its own. `critical` is the code
    /// in which no thread is hijacked.
    ///
    /// # Errors
    /// [`InjectError`]. After [`TimedOut`](InjectError::TimedOut), and
    /// [`System`](InjectError::System) once a thread is hijacked, the thread may still make the
    /// call.
    pub fn call(
        &mut self,
        call: &RemoteCall<'_>,
        critical: &CriticalCode,
    ) -> Result<CallResult, InjectError> {
        let name = self.file_name(call.file)?;
        let region = self.region(critical)?;
        let base = region.base;
        let mut arguments = call.arguments;
        if call.file.is_some() {
            arguments[0] = base + PATH;
        }
        if call.takes_text {
            arguments[..2].copy_from_slice(&[base + TEXT, TEXT_BYTES as u64]);
        }
        self.write(base + WORDS, &call_words(call, arguments))?;
        self.write(base + NAME, &name)?;
        self.write(base + TEXT, &[0])?;
        let set_call = |registers: &mut Registers| {
            registers.rip = region.stub();
            registers.rdi = base + WORDS;
        };
        let (ending, busy) = (Ending::at(region.restorer()), Some(base + WORDS));
        let thread = self.hijack_any(ending, critical, &[region.range()], None, busy, &set_call)?;
        self.wait(base, thread, call.file)
    }

    /// Maps zeroed memory at a free address, until [`unmap`](Self::unmap). The process can write to
    /// data, but not to code. [`Memory::write`](crate::Memory::write) can write to both.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn map(&mut self, at: u64, length: u64, is_code: bool) -> Result<(), InjectError> {
        let protection = if is_code { READ_EXECUTE } else { READ_WRITE };
        let is_new = |it: &Mapping| {
            it.start <= at && at + length <= it.end && it.is_executable == is_code && it.is_anonymous()
        };
        let arguments = [at, length, protection, MAP_FLAGS, u64::MAX, 0];
        // The call itself takes no lock.
        let critical = CriticalCode::default();
        self.syscall(libc::SYS_mmap, arguments, &critical, |maps| maps.iter().any(is_new))
    }

    /// Unmaps memory that [`map`](Self::map) has mapped, and that nothing uses any more.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn unmap(&mut self, at: u64, length: u64) -> Result<(), InjectError> {
        let is_gone = |maps: &[Mapping]| !maps.iter().any(|it| it.start < at + length && at < it.end);
        self.syscall(libc::SYS_munmap, [at, length, 0, 0, 0, 0], &CriticalCode::default(), is_gone)
    }

    /// Checks that no thread has a filter of system calls (seccomp) that may end the program for
    /// any call. A library that a call loads may make new calls on any thread. A filter that
    /// refuses calls with an error does not end the program. Each thread that has a filter stops
    /// for 0.1 ms.
    ///
    /// # Errors
    /// [`InjectError::Unable`] if there is such a filter, or if this process may not read filters:
    /// only root may (`CAP_SYS_ADMIN`).
    pub fn check_filters(&mut self) -> Result<(), InjectError> {
        for id in threads(self.pid) {
            if !TaskStatus::of_thread(self.pid, id).is_some_and(|it| it.is_filtered) {
                continue;
            }
            let pid = self.pid;
            let unable = |why: &str| InjectError::Unable {
                pid,
                problem: format!("has a filter of system calls (seccomp) on thread {id}, {why}"),
            };
            let Some(read) = self.read_filters(id)? else { continue };
            let filters = read.map_err(|why| unable(&why))?;
            if !self.harmless_filters.contains(&filters) {
                if !none_ever_kills(&filters) {
                    return Err(unable(
                        "which might end the program when that makes a call it did not make before",
                    ));
                }
                self.harmless_filters.push(filters);
            }
        }
        Ok(())
    }

    /// Returns the memory for calls, which the first one maps.
    fn region(&mut self, critical: &CriticalCode) -> Result<Region, InjectError> {
        self.wait_for_orphan()?;
        let maps = self.maps()?;
        let regions = Regions::find(&self.memory, &maps);
        if let Some(it) = regions.free.filter(|it| it.is_executable) {
            return Ok(it);
        }
        let pid = self.pid;
        let unable = |problem: &str| InjectError::Unable { pid, problem: problem.to_owned() };
        if !regions.has_room {
            return Err(unable("has several calls under way that don't end"));
        }
        let base = if let Some(it) = regions.free {
            it.base
        } else {
            let base = choose_address(&maps).ok_or_else(|| unable("has no room for memory of a call"))?;
            let arguments = [base, REGION_BYTES, READ_WRITE, MAP_FLAGS, u64::MAX, 0];
            let is_mapped = |maps: &[Mapping]| maps.iter().any(|it| it.start == base && it.is_writable);
            self.syscall(libc::SYS_mmap, arguments, critical, is_mapped)?;
            self.write(base, stub_code())?;
            base
        };
        let is_executable = |maps: &[Mapping]| maps.iter().any(|it| it.start == base && it.is_executable);
        let arguments = [base, PAGE_BYTES, READ_EXECUTE, 0, 0, 0];
        self.syscall(libc::SYS_mprotect, arguments, critical, is_executable)?;
        Ok(Region { base, is_executable: true })
    }

    /// Makes a system call there, and waits until the mappings show its effect.
    fn syscall(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        critical: &CriticalCode,
        is_done: impl Fn(&[Mapping]) -> bool,
    ) -> Result<(), InjectError> {
        /// A thread that gets a processor makes the call within microseconds.
        const EFFECT_TIMEOUT: Duration = Duration::from_secs(3);
        let maps = self.maps()?;
        self.gadgets = self.gadgets.or_else(|| Gadgets::find(&self.memory, &maps));
        let gadgets = self.gadgets.ok_or_else(|| InjectError::Unable {
            pid: self.pid,
            problem: "has no code that makes a system call and returns, or none by which a call could end; \
                      C libraries have both, and all but the smallest programs"
                .to_owned(),
        })?;
        let set_call = |registers: &mut Registers| {
            registers.rip = gadgets.syscall;
            registers.rax = number.cast_unsigned();
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] =
                arguments;
        };
        let scratch = Regions::find(&self.memory, &maps).all;
        let number = u32::try_from(number).ok();
        self.hijack_any(gadgets.ending, critical, &scratch, number, None, &set_call)?;
        let begun = Instant::now();
        while !is_done(&self.maps()?) {
            if begun.elapsed() > EFFECT_TIMEOUT {
                let problem = "neither gives nor takes memory: its limits (ulimit -v), its filter of system calls \
                     (seccomp), or a security module, may forbid it";
                return Err(InjectError::Unable { pid: self.pid, problem: problem.to_owned() });
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Hijacks the first suitable thread, and returns it. See [`hijack`].
    fn hijack_any(
        &mut self,
        ending: Ending,
        critical: &CriticalCode,
        scratch: &[Range<u64>],
        syscall: Option<u32>,
        busy: Option<u64>,
        set_call: &(dyn Fn(&mut Registers) + Sync),
    ) -> Result<u32, InjectError> {
        let begun = Instant::now();
        let mut timed_rounds = 0;
        let mut reasons: BTreeMap<u32, &'static str> = BTreeMap::new();
        loop {
            let (ranked, mut unsuitable) = self.ranked_threads();
            // There may be no other thread to wait for.
            let is_only = ranked.len() == 1;
            let takes_timed = is_only || begun.elapsed() > UNTIMED_ONLY_PERIOD.min(self.timeout / 2);
            let finish_timeout = match takes_timed {
                true if is_only => self.timeout,
                true => FINISH_TIMEOUT * (1 << timed_rounds.min(MAX_DOUBLINGS)),
                false => Duration::ZERO,
            };
            timed_rounds += u32::from(takes_timed);
            for (rank, id) in ranked {
                if rank == Rank::Limited && !takes_timed {
                    unsuitable.push((id, IN_TIMED_CALL));
                    continue;
                }
                let finish_timeout = finish_timeout.min(self.timeout.saturating_sub(begun.elapsed()));
                let (pid, memory, harmless) = (self.pid, &*self.memory, &self.harmless_filters[..]);
                let inspector =
                    Inspector { pid, id, memory, critical, scratch, syscall, harmless, finish_timeout };
                let (longest, hijacked) = with_seized(pid, id, |tracee| {
                    Ok(hijack(&inspector, tracee, ending, busy, set_call)?.map_err(SkipReason::Other))
                })?;
                self.longest_stop = self.longest_stop.max(longest);
                self.stops += 1;
                match hijacked {
                    Ok(()) => return Ok(id),
                    Err(why) => unsuitable.push((id, why.text())),
                }
            }
            if unsuitable.is_empty() && TaskStatus::of(self.pid).is_none() {
                return Err(InjectError::NoProcess(self.pid));
            }
            let line = |(id, why): (&u32, &&str)| format!("{id} {why}");
            if !unsuitable.is_empty() && unsuitable.iter().all(|(_, why)| is_permanent(why)) {
                let threads = unsuitable.iter().take(MAX_LINES).map(|(id, why)| line((id, why))).collect();
                return Err(InjectError::Refused { pid: self.pid, threads });
            }
            // The last reason may hold for a moment only, and does not tell why a call was never
            // possible.
            reasons.retain(|id, why| {
                let now = unsuitable.iter().find(|it| it.0 == *id);
                now.is_some_and(|(_, now)| is_momentary(now) && !is_momentary(why))
            });
            unsuitable.into_iter().for_each(|(id, why)| _ = reasons.entry(id).or_insert(why));
            if begun.elapsed() > self.timeout {
                let threads = reasons.iter().take(MAX_LINES).map(line).collect();
                return Err(InjectError::NoSafePoint { pid: self.pid, within: self.timeout, threads });
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Returns the threads that may be suitable, the likeliest first, and the reasons why others
    /// are not. Stops no thread.
    fn ranked_threads(&self) -> (Vec<(Rank, u32)>, Reasons) {
        let (mut ranked, mut unsuitable) = (Vec::new(), Vec::new());
        for id in threads(self.pid) {
            let Some(status) = TaskStatus::of_thread(self.pid, id) else { continue };
            let why = match (status.state, rank(activity(self.pid, id))) {
                ('D', _) => "waits uninterruptibly",
                ('T' | 't', _) => "is stopped",
                ('Z' | 'X', _) => "has ended",
                (_, Some(rank)) => {
                    ranked.push((rank, id));
                    continue;
                }
                (_, None) => IN_UNKNOWN_CALL,
            };
            unsuitable.push((id, why));
        }
        ranked.sort_unstable();
        (ranked, unsuitable)
    }

    /// Reads the filters of a thread; `None` if it has ended. Retries while the thread gets no
    /// processor.
    fn read_filters(&mut self, id: u32) -> Result<Option<Result<Filters, String>>, InjectError> {
        let pid = self.pid;
        let begun = Instant::now();
        loop {
            let (longest, read) = with_seized(pid, id, |tracee| {
                Ok(match stop(pid, id, tracee) {
                    Ok(TraceeState::Ended) | Err(_) => Err(SkipReason::Ended),
                    Ok(TraceeState::StillRunning) => Err(SkipReason::still_running(pid, id)),
                    Ok(_) => {
                        let read = tracee.filters();
                        prepare_detach(pid, id, tracee);
                        // It fails for a thread that was killed.
                        let _ = tracee.detach();
                        Ok(read)
                    }
                })
            })?;
            self.longest_stop = self.longest_stop.max(longest);
            self.stops += 1;
            match read {
                Ok(read) => {
                    return Ok(Some(read.map_err(|error| {
                        format!("which can't be read ({error}); that needs root without a filter")
                    })));
                }
                Err(SkipReason::Ended) => return Ok(None),
                Err(why) if why == SkipReason::Uninterruptible || begun.elapsed() > self.timeout => {
                    return Ok(Some(Err(format!("and {why}"))));
                }
                Err(_) => thread::sleep(RETRY_INTERVAL),
            }
        }
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), InjectError> {
        self.memory.write(address, bytes).map_err(|error| self.memory_error(error))
    }

    pub(super) fn word(&self, address: u64) -> Result<u64, InjectError> {
        self.memory.word(address).map_err(|error| self.memory_error(error))
    }

    pub(super) fn memory_error(&self, error: io::Error) -> InjectError {
        match TaskStatus::of(self.pid).filter(|it| it.state != 'Z') {
            None => InjectError::NoProcess(self.pid),
            Some(_) => InjectError::System { pid: self.pid, step: "its memory can't be used", error },
        }
    }
}
