//! Finds a debugger, which may keep signals from this program's handlers.

use std::fs;

/// The process that traces this thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracer {
    pub process: u32,
    /// The process's name; empty if the system does not tell.
    pub name: String,
}

/// Returns the process that traces this thread, as `/proc` tells. A tracer in another namespace of
/// processes is not found.
pub fn tracer() -> Option<Tracer> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let process = tracer_of(&status)?;
    Some(Tracer { process, name: comm(&process.to_string()) })
}

/// Returns the name of a process or a thread, by its folder in `/proc`.
pub(super) fn comm(folder: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{folder}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}

/// Returns the tracer in a `status` file, see `proc_pid_status(5)`. Pure.
fn tracer_of(status: &str) -> Option<u32> {
    status_field(status, "TracerPid:")?.parse().ok().filter(|process| *process != 0)
}

/// Returns a field of a `status` file. Pure.
pub(super) fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns the set of blocked signals in a `status` file. Pure.
pub(super) fn blocked_signals(status: &str) -> Option<u64> {
    u64::from_str_radix(status_field(status, "SigBlk:")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_who_traces() {
        assert_eq!(tracer_of("Name:\tx\nTracerPid:\t42\n"), Some(42));
        assert_eq!(tracer_of("Name:\tx\nTracerPid:\t0\n"), None);
        assert_eq!((tracer_of("TracerPid:\t?\n"), tracer_of("")), (None, None));
    }
}
