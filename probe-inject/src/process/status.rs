//! The kernel's view of a process or a thread: `/proc/…/status`, `/proc/…/syscall`, `/proc/…/task`.

use std::fs;
use std::path::Path;

use super::tracee::Registers;

/// The state of a process or a thread.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TaskStatus {
    /// Its name.
    pub name: String,
    /// `R` running, `S` waiting, `D` waiting uninterruptibly, `T` and `t` stopped, `Z` and `X`
    /// ended.
    pub state: char,
    /// The process.
    pub process: u32,
    /// The process that has started it.
    pub parent: u32,
    /// The process that traces it; 0 for none.
    pub tracer: u32,
    /// Its effective user.
    pub user: u32,
    /// Whether it has memory. A thread of the kernel has none.
    pub has_memory: bool,
    /// Whether seccomp restricts its system calls.
    pub is_filtered: bool,
    /// Whether the processor checks its return addresses against a shadow stack.
    pub has_shadow_stack: bool,
    /// The mask of signals that are pending and that it does not block.
    pub pending_signals: u64,
}

impl TaskStatus {
    /// Reads the state of a process: that of its first thread.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(format!("/proc/{pid}").as_ref())
    }

    /// Reads the state of a thread of a process.
    pub fn of_thread(pid: u32, thread: u32) -> Option<Self> {
        Self::read(format!("/proc/{pid}/task/{thread}").as_ref())
    }

    fn read(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join("status")).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim()
        };
        let number = |name| value(name).split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let mask = |name| u64::from_str_radix(value(name), 16).unwrap_or(0);
        Self {
            name: value("Name").to_owned(),
            state: value("State").chars().next().unwrap_or('X'),
            process: number("Tgid"),
            parent: number("PPid"),
            tracer: number("TracerPid"),
            user: value("Uid").split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0),
            has_memory: !value("VmSize").is_empty(),
            is_filtered: number("Seccomp") != 0,
            has_shadow_stack: value("x86_Thread_features").split_whitespace().any(|it| it == "shstk"),
            pending_signals: (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk"),
        }
    }
}

/// A system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syscall {
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The activity of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// It runs code in user space.
    Runs,
    /// It is in a system call.
    InSyscall(Syscall),
    /// The kernel does not tell, or the thread waits elsewhere: for a page of memory.
    Unknown,
}

impl Activity {
    /// Returns the activity of a thread that was stopped with these registers.
    pub fn at_stop(registers: &Registers) -> Self {
        let r = registers;
        if r.orig_rax.cast_signed() < 0 {
            return Self::Runs;
        }
        Self::InSyscall(Syscall { number: r.orig_rax, arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Runs);
        }
        let number = first.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
        }
        Some(Self::InSyscall(Syscall { number, arguments }))
    }
}

/// Returns the activity of a thread, without a stop.
pub fn activity(pid: u32, thread: u32) -> Activity {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).unwrap_or_default();
    Activity::parse(&text).unwrap_or(Activity::Unknown)
}

/// Returns the threads of a process; an empty list if it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

/// Returns whether a thread is the kernel's worker of an `io_uring`, which runs no code of the
/// program's.
pub fn is_io_worker(pid: u32, thread: u32) -> bool {
    const PF_IO_WORKER: u64 = 0x10;
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
    // The name may have any characters. The flags are the seventh word behind it.
    let flags = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|it| it & PF_IO_WORKER != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_lines_with_names() {
        let text = "Name:\ta b\nState:\tt (tracing stop)\nTgid:\t7\nPPid:\t3\nTracerPid:\t12\n\
            Uid:\t1\t2\t3\t4\nVmSize:\t8 kB\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000006\n\
            SigBlk:\t0000000000000002\nSeccomp:\t2\nx86_Thread_features:\tshstk wrss\n";
        let expected = TaskStatus {
            name: "a b".to_owned(),
            state: 't',
            process: 7,
            parent: 3,
            tracer: 12,
            user: 2,
            has_memory: true,
            is_filtered: true,
            has_shadow_stack: true,
            pending_signals: 5,
        };
        assert_eq!(TaskStatus::parse(text), expected);
        assert_eq!(TaskStatus::parse(""), TaskStatus { state: 'X', ..TaskStatus::default() });
    }

    #[test]
    fn a_thread_waits_in_a_call_or_runs() {
        assert_eq!(Activity::parse("running\n"), Some(Activity::Runs));
        let call = Activity::InSyscall(Syscall { number: 7, arguments: [1, 2, 3, 4, 5, 0xff] });
        assert_eq!(Activity::parse("7 0x1 0x2 0x3 0x4 0x5 0xff 0x7ffc 0x7f00\n"), Some(call));
        assert_eq!(Activity::parse("-1 0x7ffc 0x7f00\n"), None);
        assert_eq!(Activity::parse(""), None);
    }
}
