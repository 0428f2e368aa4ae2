//! Filters of system calls (seccomp) that a program has set since its start.
//!
//! A consumer's first hit on a thread takes memory, and may ask the system for more. A filter may
//! end the program for that. A program with an agent of its own knows what its filters allow. One
//! that `probectl run` gave an agent does not know of it, so nothing is attached there any more.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of filters at the start; none is too many before it is known.
static AT_START: AtomicU64 = AtomicU64::new(u64::MAX);

/// Lets no client attach anything once a thread has more filters than this one has now.
pub(crate) fn heed() {
    let now = fs::read_to_string("/proc/thread-self/status").ok().and_then(|status| filters(&status));
    AT_START.store(now.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Returns why nothing may be attached, if there is a reason.
pub(super) fn refusal() -> Option<String> {
    let at_start = AT_START.load(Ordering::Relaxed);
    if at_start == u64::MAX {
        return None;
    }
    let threads = fs::read_dir("/proc/self/task").ok()?.filter_map(Result::ok);
    let id = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        (filters(&status)? > at_start).then(|| thread.file_name().to_string_lossy().into_owned())
    });
    let id = { id }.next()?;
    Some(format!(
        "this program has set a filter of system calls (seccomp) on thread {id}, which might end the program when a \
         hit makes a call it did not make before; start it with PROBES, before it does"
    ))
}

/// Returns the number of a thread's filters, or before Linux 5.9 the mode.
fn filters(status: &str) -> Option<u64> {
    let number = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value?.trim().parse().ok()
    };
    number("Seccomp_filters").or_else(|| number("Seccomp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(filters("NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\nSpeculation:\tx\n"), Some(3));
        assert_eq!(filters("Seccomp:\t2\n"), Some(2));
        assert_eq!(filters("Name:\tSeccomp\n"), None);
        assert_eq!(refusal(), None, "nobody has asked");
    }
}
