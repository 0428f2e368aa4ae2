//! The files of `/proc` about processes and threads, as far as they are read here.
//!
//! A file is read by its few fields in use. The crate `procfs` would parse all fields, and refuse
//! the whole file for one that is missing, as in sandboxes that imitate `/proc`.

use std::fs;
use std::path::Path;

/// The file `stat` of a process or a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// The id.
    pub id: u32,
    /// The name, which may hold any character but NUL.
    pub name: String,
    /// The letter of its state.
    pub state: char,
    /// The fields from the fourth on.
    rest: String,
}

impl Stat {
    /// Reads that of a process; `None` if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(format!("/proc/{pid}").as_ref())
    }

    /// Reads that of the process or the thread with this folder: `id (name) state …`.
    pub fn read(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join("stat")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let (before, after) = text.rsplit_once(')')?;
        let (id, name) = before.split_once('(')?;
        let (state, rest) = after.trim_start().split_once(' ').unwrap_or((after.trim_start(), ""));
        let (id, state) = (id.trim().parse().ok()?, state.chars().next()?);
        Some(Self { id, name: name.to_owned(), state, rest: rest.to_owned() })
    }

    /// Returns a field by its number in the manual page proc(5).
    fn field(&self, number: usize) -> Option<u64> {
        self.rest.split_whitespace().nth(number - 4)?.parse().ok()
    }

    /// Returns the id of the parent process.
    pub fn parent(&self) -> Option<u32> {
        self.field(4)?.try_into().ok()
    }

    /// Returns the clock ticks between the start of the system and that of the process. Together
    /// with the id, they tell a process from a later one that gets its id.
    pub fn start_time(&self) -> Option<u64> {
        self.field(22)
    }

    /// Returns whether the process runs. A process that has ended may stay as a zombie. If only its
    /// first thread has ended, the others run, or have children that are not below another process
    /// yet.
    pub fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.field(20).is_some_and(|threads| threads > 1)
    }

    /// Returns whether a signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// Returns a field of the file `status` of a process.
///
/// ```
/// let status = "Name:\tsh\nSeccomp:\t2\n";
/// assert_eq!(probe_cli::proc_files::status_field(status, "Seccomp"), Some("2"));
/// ```
pub fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Returns a field of the file `status` that is a mask of bits.
pub fn status_mask(status: &str, name: &str) -> u64 {
    status_field(status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}
