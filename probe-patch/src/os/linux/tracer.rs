//! Finds a debugger or valgrind, which may keep signals from this program's handlers.

// Safety: relies on an instruction sequence that has an effect only under valgrind.
#![expect(unsafe_code, reason = "see above")]

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
    let process = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    process.trim().parse().ok().filter(|process| *process != 0)
}

/// Returns whether valgrind executes this program: its `RUNNING_ON_VALGRIND`, see `valgrind.h`.
pub fn is_valgrind() -> bool {
    const RUNNING: u64 = 0x1001;
    let request = [RUNNING, 0, 0, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: rotates a register by 128 bits in all, and exchanges another one with itself.
    // Valgrind reads the request, and writes the answer.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer != 0
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

    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn it_is_asked_for_nothing_but_an_answer() {
        assert_eq!(is_valgrind(), is_valgrind());
    }
}
