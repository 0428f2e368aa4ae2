//! Who stands between the processor and this program's handlers: a debugger, or valgrind.

// Safety: relies on an instruction sequence that does nothing where it is not valgrind that
// executes it.
#![expect(unsafe_code, reason = "see above")]

use std::fs;

/// The process that traces this thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracer {
    pub process: u32,
    /// Empty where the system does not say.
    pub name: String,
}

/// Who traces this thread, as far as `/proc` tells: not a tracer in another namespace of processes.
pub fn tracer() -> Option<Tracer> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let process = tracer_of(&status)?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(Tracer { process, name: name.trim_end_matches('\n').to_owned() })
}

/// The tracer in a `status` file, see `proc_pid_status(5)`. Pure.
fn tracer_of(status: &str) -> Option<u32> {
    let process = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    process.trim().parse().ok().filter(|process| *process != 0)
}

/// Whether valgrind executes this program: its `RUNNING_ON_VALGRIND`, see `valgrind.h`.
pub fn is_valgrind() -> bool {
    const RUNNING: u64 = 0x1001;
    let request = [RUNNING, 0, 0, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: turns a register by 128 bits in all, and exchanges another with itself. Valgrind
    // reads the request, and writes the answer.
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
