//! A process and its threads, as `/proc` describes them. No thread stops for that.
//!
//! The crate `procfs` (0.18) can't take the place of these readers. It reports an error for a
//! process that has mapped a file, or has a name, that is not UTF-8. It cuts a name at `: `, and
//! has no field for `x86_Thread_features`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::tracee::Registers;

/// The memory of a process, through `/proc/PID/mem`.
///
/// Cost: one system call for each access. The file belongs to the program that runs when it is
/// opened: once the process becomes another program, each access fails.
///
/// ```
/// let answer = 42_u64;
/// let memory = probe_inject::Memory::open(std::process::id())?;
/// assert_eq!(memory.word(&raw const answer as u64)?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Opens the memory of a process.
    ///
    /// # Errors
    /// The system's: without the right to trace the process, there is no right to its memory.
    pub fn open(pid: u32) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills the slice with the bytes from an address on.
    ///
    /// # Errors
    /// The system's: an address that is not mapped, a process that is gone.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, address)
    }

    /// Reads one word.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a number of bytes.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn bytes(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes bytes. The kernel makes a private copy of a page of code for that. Most kernels let a
    /// tracer write memory that the process itself may not write (`proc_mem.force_override`).
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

/// A part of a process's addresses.
///
/// ```
/// let own = probe_inject::maps(std::process::id())?;
/// assert!(own.iter().any(|it| it.name == "[stack]" && it.is_writable));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last one.
    pub end: u64,
    /// Whether the process may write it.
    pub is_writable: bool,
    /// Whether the process may execute it.
    pub is_executable: bool,
    /// The offset of its first byte in its file.
    pub offset: u64,
    /// The device and the number of its file; the number is 0 if it has none.
    pub file: (String, u64),
    /// The file's path, as the process knows it, or a name such as `[stack]`; empty for memory of
    /// no file.
    pub name: String,
}

impl Mapping {
    /// Returns whether it holds an address.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Returns whether it is memory without a file or a name.
    pub fn is_anonymous(&self) -> bool {
        self.file.1 == 0 && self.name.is_empty()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim_start();
            word
        };
        let (range, rights, offset, device, number) = (word(), word(), word(), word(), word());
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            is_writable: rights.contains('w'),
            is_executable: rights.contains('x'),
            offset: hex(offset)?,
            file: (device.to_owned(), number.parse().ok()?),
            name: rest.to_owned(),
        })
    }
}

/// Returns the mappings of a process, in the order of their addresses.
///
/// # Errors
/// The system's.
///
/// ```
/// assert!(!probe_inject::maps(std::process::id())?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn maps(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut bytes = fs::read(format!("/proc/{pid}/maps"))?;
    if bytes.is_empty() {
        // The first thread has ended, but others have not.
        let mut others = threads(pid).into_iter().filter(|it| *it != pid);
        let other = others.find_map(|it| fs::read(format!("/proc/{pid}/task/{it}/maps")).ok());
        bytes = other.unwrap_or_default();
    }
    // A path need not be UTF-8.
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(Mapping::parse).collect())
}

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
    pub number: i64,
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
        let number = r.orig_rax.cast_signed();
        if number < 0 {
            return Self::Runs;
        }
        Self::InSyscall(Syscall { number, arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Runs);
        }
        let number = first.parse().ok().filter(|it| *it >= 0)?;
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
    fn lines_have_five_words_and_a_name_that_may_have_more() {
        let read = Mapping::parse("7f00-7f10 r-xp 00001000 fe:00 42                 /a b (deleted)").unwrap();
        assert_eq!((read.start, read.end, read.offset), (0x7f00, 0x7f10, 0x1000));
        assert_eq!((read.is_writable, read.is_executable), (false, true));
        assert_eq!((read.file, read.name), (("fe:00".to_owned(), 42), "/a b (deleted)".to_owned()));
        let read = Mapping::parse("7f00-7f10 rw-p 00000000 00:00 0 ").unwrap();
        assert!(read.is_anonymous() && read.is_writable && read.holds(0x7f0f) && !read.holds(0x7f10));
        assert_eq!(Mapping::parse("no mapping"), None);
    }

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
