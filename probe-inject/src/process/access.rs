//! Whether a process can be traced at all, and the reason if not; beginning to trace a thread.

// Safety: relies on kcmp(2), which reads numbers only.
#![expect(unsafe_code, reason = "see above")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;
use std::{fmt, thread};

use super::proc::{Memory, TaskStatus, threads};
use super::tracee::Tracee;
use crate::error::InjectError;

/// Checks that something can be called in a process, and opens its memory.
///
/// # Errors
/// [`InjectError`], which gives the reason why not.
pub fn check_access(pid: u32) -> Result<Memory, InjectError> {
    let status = TaskStatus::of(pid).filter(|_| pid != 0).ok_or(InjectError::NoProcess(pid))?;
    let unable = |problem: &str| Err(InjectError::Unable { pid, problem: problem.to_owned() });
    if status.process != pid {
        let problem = format!("is a thread of process {}; name that one", status.process);
        return Err(InjectError::Unable { pid, problem });
    }
    if matches!(status.state, 'Z' | 'X') {
        if threads(pid).len() > 1 {
            return unable(
                "goes on in other threads, but its first one has ended, so nobody may see its memory",
            );
        }
        return unable("has ended, and its parent has not noticed yet");
    }
    if !status.has_memory {
        return unable("is a thread of the kernel");
    }
    if pid == std::process::id() {
        return unable("is this one");
    }
    if status.tracer != 0 {
        let name = TaskStatus::of(status.tracer).unwrap_or_default().name;
        return Err(InjectError::Traced { pid, tracer: status.tracer, name });
    }
    let memory = open_memory(pid).map_err(|error| explain_refusal(pid, &status, error))?;
    if has_32_bits(pid) {
        return unable("has 32 bits, and calls are made in programs of 64 bits only");
    }
    if status.has_shadow_stack {
        return unable(
            "has a shadow stack, which nobody may change from outside; start it without \
             (GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)",
        );
    }
    if status.state == 'T' {
        return unable("is stopped by a signal; let it go on first (kill -CONT)");
    }
    if shares_memory(pid, status.parent) {
        return unable("uses its parent's memory until it becomes another program (vfork); try again");
    }
    Ok(memory)
}

/// Opens a process's memory. A process that becomes another program (execve) has none for a moment.
fn open_memory(pid: u32) -> io::Result<Memory> {
    const MAX_ATTEMPTS: usize = 100;
    let mut attempts = 0;
    loop {
        match Memory::open(pid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && attempts < MAX_ATTEMPTS => {
                attempts += 1;
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

/// Finds the likely reason why the system does not let this process trace that one.
pub fn explain_refusal(pid: u32, status: &TaskStatus, error: io::Error) -> InjectError {
    if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
        return InjectError::System { pid, step: "its memory can't be opened", error };
    }
    let user = rustix::process::geteuid().as_raw();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.ok().and_then(|it| it.trim().parse::<u32>().ok()).unwrap_or(0);
    let reason = match (user, scope) {
        (_, 3) => "kernel.yama.ptrace_scope is 3, so nobody may trace until the next boot"
            .to_owned(),
        (0, _) => "this process is root without CAP_SYS_PTRACE, or a security module forbids it (in a container: \
                   --cap-add=SYS_PTRACE)"
            .to_owned(),
        _ if user != status.user => format!("it belongs to user {}; run this as that user or as root", status.user),
        (_, 1) => "kernel.yama.ptrace_scope is 1, so a process may trace its children only; run this as root, or \
                   `sysctl kernel.yama.ptrace_scope=0`"
            .to_owned(),
        (_, 2) => "kernel.yama.ptrace_scope is 2, so root alone may trace; run this as root"
            .to_owned(),
        _ => "it has more rights than its caller, or hides its memory (prctl PR_SET_DUMPABLE); run this as root"
            .to_owned(),
    };
    InjectError::NotAllowed { pid, reason }
}

/// Returns whether a process's file is a program of 32 bits. `false` if the file can't be read: the
/// registers tell later.
fn has_32_bits(pid: u32) -> bool {
    let mut head = [0; 5];
    let read = File::open(format!("/proc/{pid}/exe")).and_then(|mut it| it.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fELF\x01"
}

/// Returns whether two processes share their memory. `false` if the system does not tell, since
/// only a process that has just started does.
fn shares_memory(one: u32, other: u32) -> bool {
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: it compares, and reads no memory of this process.
    other != 0 && unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) } == 0
}

/// The most attempts. The reason for an error may be gone by the time it is looked for: a tracer
/// has detached the thread, or the thread has ended and one that becomes another program has its
/// id.
const MAX_ATTEMPTS: usize = 3;

/// Why a thread is left alone at this moment. Its text is the rest of a sentence about the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// It has ended.
    Ended,
    /// It waits uninterruptibly, which may last.
    Uninterruptible,
    /// Another reason.
    Other(&'static str),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl SkipReason {
    /// Other work keeps the thread from stopping.
    pub const NO_PROCESSOR: &str = "does not stop: it gets no processor";

    /// Returns its text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ended => "has ended",
            Self::Uninterruptible => "does not stop: it waits uninterruptibly",
            Self::Other(why) => why,
        }
    }

    /// Returns the reason why a thread still runs after it was asked to stop.
    pub fn still_running(pid: u32, id: u32) -> Self {
        match TaskStatus::of_thread(pid, id).map(|it| it.state) {
            Some('D') => Self::Uninterruptible,
            _ => Self::Other(Self::NO_PROCESSOR),
        }
    }
}

/// Begins to trace a thread, which keeps running. The inner error holds for this moment only.
///
/// # Errors
/// If nobody here can trace threads of the process.
pub fn seize(pid: u32, id: u32) -> Result<Result<Tracee, SkipReason>, InjectError> {
    let mut attempts = 0;
    loop {
        let error = match Tracee::seize(id) {
            Ok(tracee) => return Ok(Ok(tracee)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Err(SkipReason::Ended)),
            Err(error) => error,
        };
        attempts += 1;
        // The system gives the same error for a thread that is about to end.
        let status = TaskStatus::of_thread(pid, id).filter(|it| !matches!(it.state, 'Z' | 'X'));
        let Some(status) = status else { return Ok(Err(SkipReason::Ended)) };
        if status.tracer == 0 {
            if attempts < MAX_ATTEMPTS {
                continue;
            }
            return Err(explain_refusal(pid, &status, error));
        }
        if Path::new(&format!("/proc/self/task/{}", status.tracer)).exists() {
            return Ok(Err(SkipReason::Other("is about to be let go")));
        }
        let name = TaskStatus::of(status.tracer).unwrap_or_default().name;
        return Err(InjectError::Traced { pid, tracer: status.tracer, name });
    }
}

/// Seizes a thread on a short-lived thread of this process, and runs `work` with it. Returns the
/// longest stop and the work's result. The inner error holds for this moment only.
///
/// # Errors
/// As those of [`seize`], and those of the work.
pub fn with_seized<R: Send>(
    pid: u32,
    id: u32,
    work: impl FnOnce(&Tracee) -> Result<Result<R, SkipReason>, InjectError> + Send,
) -> Result<(Duration, Result<R, SkipReason>), InjectError> {
    let attempt = move || match seize(pid, id)? {
        Ok(tracee) => work(&tracee).map(|done| (tracee.longest_stop(), done)),
        Err(why) => Ok((Duration::ZERO, Err(why))),
    };
    // The kernel also detaches the tracee when the thread ends that has seized it.
    let attempted = thread::scope(|scope| scope.spawn(attempt).join());
    attempted.unwrap_or_else(|panic| resume_unwind(panic))
}
