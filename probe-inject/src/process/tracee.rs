//! One thread of a process, stopped by ptrace(2).
//!
//! Life cycle: [`Tracee::seize`] ▸ [`stop`](Tracee::stop) ▸ read and write its state ▸
//! [`detach`](Tracee::detach). The kernel also detaches it when the thread here that has seized it
//! ends, for whatever reason. So a short-lived thread here stops each tracee. A signal that arrives
//! meanwhile is passed on, and a stop by job control stays one.

// Safety: relies on ptrace(2), waitpid(2) and sched_setscheduler(2) with this file's own buffers,
// whose lengths they are told.
#![expect(unsafe_code, reason = "see above")]

use std::cell::Cell;
use std::time::{Duration, Instant};
use std::{io, mem, ptr, thread};

use libc::{c_int, c_long, c_void, pid_t};

use super::seccomp::{BpfInstruction, Filters};

/// The general registers.
pub type Registers = libc::user_regs_struct;

/// The set of the general registers, and that of the extended state.
const NT_PRSTATUS: c_long = 1;
const NT_X86_XSTATE: c_long = 0x202;
/// More than any processor has: 11,008 bytes with AMX.
const MAX_XSTATE_BYTES: usize = 1 << 16;
/// Asks for the place of a thread's restartable sequence (since Linux 5.13).
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
/// Asks for a filter of system calls (since Linux 4.4).
const PTRACE_SECCOMP_GET_FILTER: libc::c_uint = 0x420c;
/// The kernel's limit for one filter, and more filters than a thread may have.
const MAX_FILTER_INSTRUCTIONS: usize = 4096;
const MAX_FILTERS: c_long = 1 << 13;
/// The time between two polls for a stop.
pub const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// The flag of a stop at a system call (`PTRACE_O_TRACESYSGOOD`).
const AT_SYSCALL: c_int = 0x80;

/// A thread that this one traces.
#[derive(Debug)]
pub struct Tracee {
    id: pid_t,
    /// The start of the present stop, or an earlier time.
    stopped_since: Cell<Option<Instant>>,
    longest_stop: Cell<Duration>,
}

/// The state in which a tracee was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceeState {
    /// It is stopped.
    Stopped,
    /// It has ended.
    Ended,
    /// Job control has stopped it, so that it would not resume.
    StoppedByJobControl,
    /// It is stopped, and has left the system call whose end was awaited.
    LeftCall,
    /// It has not stopped in time. Nobody can detach it: the thread that has seized it must end.
    StillRunning,
}

/// Gives this thread a processor as soon as it asks for one, if it has the right. Otherwise a stop
/// lasts until the program's other threads leave it one: tens of milliseconds if all are busy.
fn raise_priority() {
    // SAFETY: zeros are a parameter.
    let mut first: libc::sched_param = unsafe { mem::zeroed() };
    first.sched_priority = 1;
    // SAFETY: it reads the parameter, and changes this thread alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
}

/// Polls until something is found. Each poll gets the time of the one before.
fn poll_until(
    timeout: Duration,
    poll: impl Fn(Instant) -> io::Result<Option<TraceeState>>,
) -> io::Result<TraceeState> {
    let begun = Instant::now();
    let mut polled = begun;
    loop {
        let before = mem::replace(&mut polled, Instant::now());
        if let Some(found) = poll(before)? {
            return Ok(found);
        }
        if begun.elapsed() > timeout {
            return Ok(TraceeState::StillRunning);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

impl Tracee {
    /// Begins to trace a thread, which keeps running. The caller must be a short-lived thread: it
    /// takes precedence over others until it ends, where it has the right.
    ///
    /// # Errors
    /// The system's.
    pub fn seize(id: u32) -> io::Result<Self> {
        let id = pid_t::try_from(id).map_err(io::Error::other)?;
        raise_priority();
        let tracee = Self { id, stopped_since: Cell::default(), longest_stop: Cell::default() };
        // SAFETY: it takes numbers.
        unsafe { tracee.request(libc::PTRACE_SEIZE, 0, c_long::from(libc::PTRACE_O_TRACESYSGOOD)) }?;
        Ok(tracee)
    }

    /// Reaps a thread that this process traces, if it has ended.
    pub fn reap(id: u32) {
        let flags = libc::WEXITED | libc::WNOHANG | libc::__WALL;
        // SAFETY: zeros are such a structure, and the call writes one.
        unsafe { libc::waitid(libc::P_PID, id, &mut mem::zeroed(), flags) };
    }

    /// Asks it to stop, which it does as soon as it has a processor.
    ///
    /// # Errors
    /// The system's.
    pub fn interrupt(&self) -> io::Result<()> {
        // SAFETY: it takes no argument.
        unsafe { self.request(libc::PTRACE_INTERRUPT, 0, 0) }
    }

    /// Stops it.
    ///
    /// # Errors
    /// The system's.
    pub fn stop(&self, timeout: Duration) -> io::Result<TraceeState> {
        self.interrupt()?;
        poll_until(timeout, |before| self.poll_stop(before))
    }

    /// Returns whether it has stopped after [`interrupt`](Self::interrupt); `None` if not yet. It
    /// had not at the time of the poll `before`.
    ///
    /// # Errors
    /// The system's.
    pub fn poll_stop(&self, before: Instant) -> io::Result<Option<TraceeState>> {
        let resume = |signal| {
            self.resume(libc::PTRACE_CONT, signal)?;
            // A thread that was about to take a signal may have forgotten it.
            self.interrupt()
        };
        self.poll(before, resume, |status| status >> 16 == libc::PTRACE_EVENT_STOP)
    }

    /// Resumes it until the interrupted system call ends, which has a time limit, and stops it
    /// there.
    ///
    /// # Errors
    /// The system's.
    pub fn finish_call(&self, timeout: Duration) -> io::Result<TraceeState> {
        let resume = |signal| self.resume(libc::PTRACE_SYSCALL, signal);
        // The call begins again, which is a stop, and ends, which is another one. A handler makes
        // other calls.
        for _ in 0..2 {
            resume(0)?;
            let is_at_call = |status| libc::WSTOPSIG(status) & AT_SYSCALL != 0;
            let found = poll_until(timeout, |before| self.poll(before, resume, is_at_call))?;
            if found != TraceeState::Stopped {
                return Ok(found);
            }
            if self.registers()?.orig_rax.cast_signed() != libc::SYS_restart_syscall {
                return Ok(TraceeState::LeftCall);
            }
        }
        Ok(TraceeState::Stopped)
    }

    /// Returns its longest stop so far, the present one included.
    pub fn longest_stop(&self) -> Duration {
        let now = self.stopped_since.get().map_or(Duration::ZERO, |it| it.elapsed());
        self.longest_stop.get().max(now)
    }

    /// Ends a stop, by one of the requests that take a signal.
    fn resume(&self, request: libc::c_uint, signal: c_int) -> io::Result<()> {
        debug_assert!([libc::PTRACE_CONT, libc::PTRACE_SYSCALL, libc::PTRACE_DETACH].contains(&request));
        // SAFETY: these take a number.
        unsafe { self.request(request, 0, signal.into()) }?;
        self.longest_stop.set(self.longest_stop());
        self.stopped_since.set(None);
        Ok(())
    }

    /// Polls for a stop of the kind that `is_awaited` accepts. Passes on the signals that arrived
    /// before it.
    fn poll(
        &self,
        before: Instant,
        resume: impl Fn(c_int) -> io::Result<()>,
        is_awaited: impl Fn(c_int) -> bool,
    ) -> io::Result<Option<TraceeState>> {
        loop {
            let mut status = 0;
            // SAFETY: it writes one number.
            let found = unsafe { libc::waitpid(self.id, &raw mut status, libc::WNOHANG | libc::__WALL) };
            if found == -1 {
                let error = io::Error::last_os_error();
                let has_ended = error.raw_os_error() == Some(libc::ECHILD);
                return if has_ended { Ok(Some(TraceeState::Ended)) } else { Err(error) };
            }
            if found == 0 {
                return Ok(None);
            }
            self.stopped_since.set(Some(before));
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                return Ok(Some(TraceeState::Ended));
            } else if status >> 16 == libc::PTRACE_EVENT_STOP && libc::WSTOPSIG(status) != libc::SIGTRAP {
                return Ok(Some(TraceeState::StoppedByJobControl));
            } else if is_awaited(status) {
                return Ok(Some(TraceeState::Stopped));
            }
            // A signal, which the thread shall get, or an event.
            let is_signal = status >> 16 == 0 && libc::WSTOPSIG(status) & AT_SYSCALL == 0;
            resume(if is_signal { libc::WSTOPSIG(status) } else { 0 })?;
        }
    }

    /// Returns its general registers.
    ///
    /// # Errors
    /// The system's, and one if it is a thread of 32 bits.
    pub fn registers(&self) -> io::Result<Registers> {
        // SAFETY: zeros are registers.
        let mut registers: Registers = unsafe { mem::zeroed() };
        let size = size_of::<Registers>();
        // SAFETY: the registers have as many bytes.
        let read = unsafe { self.read_set(NT_PRSTATUS, (&raw mut registers).cast(), size) }?;
        if read == size { Ok(registers) } else { Err(io::Error::other("its registers have 32 bits")) }
    }

    /// Changes all its general registers at once.
    ///
    /// # Errors
    /// The system's. Nothing has changed then.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut registers = *registers;
        let part = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of::<Registers>() };
        let part = (&raw const part).addr().cast_signed() as c_long;
        // SAFETY: it reads a `iovec`, and as many bytes as that says: the registers'.
        unsafe { self.request(libc::PTRACE_SETREGSET, NT_PRSTATUS, part) }
    }

    /// Returns its extended state, in the processor's standard layout.
    ///
    /// # Errors
    /// The system's.
    pub fn xstate(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MAX_XSTATE_BYTES];
        // SAFETY: the vector has as many bytes.
        let read = unsafe { self.read_set(NT_X86_XSTATE, bytes.as_mut_ptr().cast(), MAX_XSTATE_BYTES) }?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Returns the mask of signals that it will block once its system call has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn mask(&self) -> io::Result<u64> {
        let mut mask = 0_u64;
        let into = (&raw mut mask).addr().cast_signed() as c_long;
        // SAFETY: it writes eight bytes, the mask's.
        unsafe { self.request(libc::PTRACE_GETSIGMASK, 8, into) }?;
        Ok(mask)
    }

    /// Changes the mask of signals that it blocks.
    ///
    /// # Errors
    /// The system's.
    pub fn set_mask(&self, mask: u64) -> io::Result<()> {
        let from = (&raw const mask).addr().cast_signed() as c_long;
        // SAFETY: it reads eight bytes, the mask's.
        unsafe { self.request(libc::PTRACE_SETSIGMASK, 8, from) }
    }

    /// Returns the address of its `struct rseq`; `None` if it has none, or if an old kernel does
    /// not tell.
    pub fn rseq(&self) -> Option<u64> {
        let mut configuration = [0_u64; 3];
        let at = configuration.as_mut_ptr().cast::<c_void>();
        // SAFETY: the array has 24 bytes.
        let read = unsafe { libc::ptrace(PTRACE_GET_RSEQ_CONFIGURATION, self.id, 24_usize, at) };
        (read > 0 && configuration[0] != 0).then_some(configuration[0])
    }

    /// Returns its filters of system calls, the newest first.
    ///
    /// # Errors
    /// The system's: only root may read them (`CAP_SYS_ADMIN`), if it has no filter itself.
    pub fn filters(&self) -> io::Result<Filters> {
        let mut filters = Vec::new();
        for index in 0..MAX_FILTERS {
            let mut filter = vec![BpfInstruction::default(); MAX_FILTER_INSTRUCTIONS];
            let into = filter.as_mut_ptr().cast::<c_void>();
            // SAFETY: it writes a filter's instructions, and the vector has room for the most.
            let read =
                unsafe { libc::ptrace(PTRACE_SECCOMP_GET_FILTER, self.id, index as *mut c_void, into) };
            let Ok(length) = usize::try_from(read) else {
                let error = io::Error::last_os_error();
                return if error.raw_os_error() == Some(libc::ENOENT) { Ok(filters) } else { Err(error) };
            };
            filter.truncate(length);
            filter.shrink_to_fit();
            filters.push(filter);
        }
        Err(io::Error::other("it has no end of filters"))
    }

    /// Detaches it. It runs on from where its registers lead.
    ///
    /// # Errors
    /// The system's: it has ended.
    pub fn detach(&self) -> io::Result<()> {
        self.resume(libc::PTRACE_DETACH, 0)
    }

    /// Makes a request.
    ///
    /// # Safety
    /// The last argument is a number, or the address of as many bytes as the request reads or
    /// writes (ptrace(2)).
    unsafe fn request(&self, request: libc::c_uint, first: c_long, second: c_long) -> io::Result<()> {
        let (first, second) = (first as *mut c_void, second as *mut c_void);
        // SAFETY: the caller passes what the request takes.
        let done = unsafe { libc::ptrace(request, self.id, first, second) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads a set of registers. Returns its number of bytes.
    ///
    /// # Safety
    /// `into` has as many bytes.
    unsafe fn read_set(&self, set: c_long, into: *mut c_void, bytes: usize) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: into, iov_len: bytes };
        let part = ptr::from_mut(&mut part);
        // SAFETY: it writes as many bytes as the caller has, and the number to the `iovec`.
        unsafe { self.request(libc::PTRACE_GETREGSET, set, part.addr().cast_signed() as c_long) }?;
        // SAFETY: the variable is alive; the kernel has written to it.
        Ok(unsafe { ptr::read_volatile(part) }.iov_len)
    }
}

/// Registers of zeros.
#[cfg(test)]
pub fn zeroed_registers() -> Registers {
    // SAFETY: zeros are registers.
    unsafe { mem::zeroed() }
}
