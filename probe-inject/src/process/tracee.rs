//! One thread of a process, stopped for a moment.
//!
//! Life cycle: [`Thread::seize`] ▸ [`stop`](Thread::stop) ▸ reading and writing its state ▸
//! [`let_go`](Thread::let_go). The kernel lets it go, too, when the thread here that has seized it
//! ends, however that happens; so each thread is stopped by a short-lived thread here. A signal
//! that arrives meanwhile is passed on, and a stop by job control stays one.

// Safety: relies on ptrace(2), waitpid(2) and sched_setscheduler(2) with this file's own buffers,
// whose lengths they are told.
#![expect(unsafe_code, reason = "see above")]

use std::cell::Cell;
use std::io;
use std::mem;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, pid_t};

use super::seccomp::{Filters, Instruction};

/// The general registers.
pub type Registers = libc::user_regs_struct;

/// The registers' set: the general ones, and all of the extended state.
const GENERAL: c_long = 1;
const EXTENDED: c_long = 0x202;
/// More than any processor has: 11,008 bytes with AMX.
const MOST_EXTENDED: usize = 1 << 16;
/// Asks for the place of a thread's restartable sequence (since Linux 5.13).
const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
/// Asks for a filter of system calls (since Linux 4.4).
const GET_FILTER: libc::c_uint = 0x420c;
/// The most instructions of a filter, and more filters than a thread may have.
const MOST_OF_FILTER: usize = 4096;
const MOST_FILTERS: c_long = 1 << 13;
/// The time between two looks.
pub const LOOK: Duration = Duration::from_micros(20);
/// The flag of a stop after a system call.
const AT_CALL: c_int = 0x80;

/// A thread that this one traces.
#[derive(Debug)]
pub struct Thread {
    id: pid_t,
    /// The moment since which it is stopped, or an earlier one.
    since: Cell<Option<Instant>>,
    longest: Cell<Duration>,
}

/// How a thread was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// It is stopped.
    Here,
    /// It has ended.
    Ended,
    /// Job control has stopped it, so that it would not go on.
    ByJobControl,
    /// It is stopped, and no longer in the system call whose end was waited for.
    Elsewhere,
    /// It has not stopped in time: it waits. It can't be let go: the thread that has seized it must
    /// end.
    NotYet,
}

/// Lets this thread have a processor as soon as it asks for one, if it has the right. Otherwise a
/// stop lasts until the program's other threads leave it one: tens of milliseconds if all are busy.
fn take_priority() {
    // SAFETY: zeros are a parameter.
    let mut first: libc::sched_param = unsafe { mem::zeroed() };
    first.sched_priority = 1;
    // SAFETY: it reads the parameter, and changes this thread alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
}

/// Looks until there is something to see. A look gets the moment of the one before.
fn wait(within: Duration, look: impl Fn(Instant) -> io::Result<Option<Stopped>>) -> io::Result<Stopped> {
    let begun = Instant::now();
    let mut looked = begun;
    loop {
        let before = mem::replace(&mut looked, Instant::now());
        if let Some(found) = look(before)? {
            return Ok(found);
        }
        if begun.elapsed() > within {
            return Ok(Stopped::NotYet);
        }
        thread::sleep(LOOK);
    }
}

impl Thread {
    /// Begins to trace a thread, which goes on. This thread here must be a short-lived one: it goes
    /// before others until it ends, where it has the right.
    ///
    /// # Errors
    /// The system's.
    pub fn seize(id: u32) -> io::Result<Self> {
        let id = pid_t::try_from(id).map_err(io::Error::other)?;
        take_priority();
        let thread = Self { id, since: Cell::default(), longest: Cell::default() };
        // SAFETY: it takes numbers.
        unsafe { thread.request(libc::PTRACE_SEIZE, 0, c_long::from(libc::PTRACE_O_TRACESYSGOOD)) }?;
        Ok(thread)
    }

    /// Notices the end of a thread that this process traces, if it has ended.
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
    pub fn stop(&self, within: Duration) -> io::Result<Stopped> {
        self.interrupt()?;
        wait(within, |before| self.is_stopped(before))
    }

    /// Returns whether it has stopped, after [`interrupt`](Self::interrupt); `None` if not yet. It
    /// was not at an earlier look.
    ///
    /// # Errors
    /// The system's.
    pub fn is_stopped(&self, before: Instant) -> io::Result<Option<Stopped>> {
        let go_on = |signal| {
            self.go_on(libc::PTRACE_CONT, signal)?;
            // A thread that was about to take a signal may have forgotten it.
            self.interrupt()
        };
        self.look(before, go_on, |status| status >> 16 == libc::PTRACE_EVENT_STOP)
    }

    /// Lets it go on until the interrupted system call ends in which it is, which has a limit in
    /// time, and stops it there.
    ///
    /// # Errors
    /// The system's.
    pub fn finish_call(&self, within: Duration) -> io::Result<Stopped> {
        let go_on = |signal| self.go_on(libc::PTRACE_SYSCALL, signal);
        // It begins again, which is a stop, and ends, which is another one. A handler's calls are
        // others.
        for _ in 0..2 {
            go_on(0)?;
            let is_it = |status| libc::WSTOPSIG(status) & AT_CALL != 0;
            let found = wait(within, |before| self.look(before, go_on, is_it))?;
            if found != Stopped::Here {
                return Ok(found);
            }
            if self.registers()?.orig_rax.cast_signed() != libc::SYS_restart_syscall {
                return Ok(Stopped::Elsewhere);
            }
        }
        Ok(Stopped::Here)
    }

    /// Returns the longest time for which it was stopped, up to now.
    pub fn longest_stop(&self) -> Duration {
        let now = self.since.get().map_or(Duration::ZERO, |it| it.elapsed());
        self.longest.get().max(now)
    }

    /// Ends a stop, by one of the requests that take a signal.
    fn go_on(&self, request: libc::c_uint, signal: c_int) -> io::Result<()> {
        debug_assert!([libc::PTRACE_CONT, libc::PTRACE_SYSCALL, libc::PTRACE_DETACH].contains(&request));
        // SAFETY: these take a number.
        unsafe { self.request(request, 0, signal.into()) }?;
        self.longest.set(self.longest_stop());
        self.since.set(None);
        Ok(())
    }

    /// Looks for a stop. Passes on the signals that arrived before.
    fn look(
        &self,
        before: Instant,
        go_on: impl Fn(c_int) -> io::Result<()>,
        is_it: impl Fn(c_int) -> bool,
    ) -> io::Result<Option<Stopped>> {
        loop {
            let mut status = 0;
            // SAFETY: it writes one number.
            let found = unsafe { libc::waitpid(self.id, &raw mut status, libc::WNOHANG | libc::__WALL) };
            if found == -1 {
                let error = io::Error::last_os_error();
                return if error.raw_os_error() == Some(libc::ECHILD) {
                    Ok(Some(Stopped::Ended))
                } else {
                    Err(error)
                };
            }
            if found == 0 {
                return Ok(None);
            }
            self.since.set(Some(before));
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                return Ok(Some(Stopped::Ended));
            } else if status >> 16 == libc::PTRACE_EVENT_STOP && libc::WSTOPSIG(status) != libc::SIGTRAP {
                return Ok(Some(Stopped::ByJobControl));
            } else if is_it(status) {
                return Ok(Some(Stopped::Here));
            }
            // A signal, which it shall get, or an event.
            let is_signal = status >> 16 == 0 && libc::WSTOPSIG(status) & AT_CALL == 0;
            go_on(if is_signal { libc::WSTOPSIG(status) } else { 0 })?;
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
        // SAFETY: as many bytes are there.
        let read = unsafe { self.get(GENERAL, (&raw mut registers).cast(), size) }?;
        if read == size { Ok(registers) } else { Err(io::Error::other("its registers have 32 bits")) }
    }

    /// Changes its general registers, all at once.
    ///
    /// # Errors
    /// The system's. Nothing has changed then.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut registers = *registers;
        let part = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of::<Registers>() };
        let part = (&raw const part).addr().cast_signed() as c_long;
        // SAFETY: it reads a `iovec`, and as many bytes as that says: the registers'.
        unsafe { self.request(libc::PTRACE_SETREGSET, GENERAL, part) }
    }

    /// Returns its extended state, in the processor's standard layout.
    ///
    /// # Errors
    /// The system's.
    pub fn extended(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MOST_EXTENDED];
        // SAFETY: as many bytes are there.
        let read = unsafe { self.get(EXTENDED, bytes.as_mut_ptr().cast(), MOST_EXTENDED) }?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Returns the signals that it blocks: those that it will block once its system call has ended.
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

    /// Changes the signals that it blocks.
    ///
    /// # Errors
    /// The system's.
    pub fn set_mask(&self, mask: u64) -> io::Result<()> {
        let from = (&raw const mask).addr().cast_signed() as c_long;
        // SAFETY: it reads eight bytes, the mask's.
        unsafe { self.request(libc::PTRACE_SETSIGMASK, 8, from) }
    }

    /// Returns the address of its `struct rseq`; `None` if it has none, or an old kernel does not
    /// tell.
    pub fn restartable(&self) -> Option<u64> {
        let mut configuration = [0_u64; 3];
        let at = configuration.as_mut_ptr().cast::<c_void>();
        // SAFETY: 24 bytes are there.
        let read = unsafe { libc::ptrace(GET_RSEQ_CONFIGURATION, self.id, 24_usize, at) };
        (read > 0 && configuration[0] != 0).then_some(configuration[0])
    }

    /// Returns its filters of system calls, the newest first.
    ///
    /// # Errors
    /// The system's: only root may read them (`CAP_SYS_ADMIN`), if it has no filter itself.
    pub fn filters(&self) -> io::Result<Filters> {
        let mut filters = Vec::new();
        for index in 0..MOST_FILTERS {
            let mut filter = vec![Instruction::default(); MOST_OF_FILTER];
            let into = filter.as_mut_ptr().cast::<c_void>();
            // SAFETY: it writes a filter's instructions, of which there are no more than room.
            let read = unsafe { libc::ptrace(GET_FILTER, self.id, index as *mut c_void, into) };
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

    /// Lets it go. It goes on where its registers lead.
    ///
    /// # Errors
    /// The system's: it has ended.
    pub fn let_go(&self) -> io::Result<()> {
        self.go_on(libc::PTRACE_DETACH, 0)
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
    /// There are as many bytes.
    unsafe fn get(&self, set: c_long, into: *mut c_void, bytes: usize) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: into, iov_len: bytes };
        let part = ptr::from_mut(&mut part);
        // SAFETY: it writes as many bytes as the caller has, and the number to the `iovec`.
        unsafe { self.request(libc::PTRACE_GETREGSET, set, part.addr().cast_signed() as c_long) }?;
        // SAFETY: the variable is alive; the kernel has written to it.
        Ok(unsafe { ptr::read_volatile(part) }.iov_len)
    }
}
