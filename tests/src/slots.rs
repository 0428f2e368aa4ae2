//! How many slots this process has, as the kernel sees them: each thread that hits a probe has its
//! own 32 MiB.

use std::fs;

/// Bytes of a slot.
const SPAN: usize = 32 << 20;

/// Counts this process's slots. Neighbours are one mapping to the kernel; nothing else is mapped by
/// this many bytes.
///
/// # Panics
/// Without `/proc`.
#[must_use]
pub fn count() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let lengths = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16));
        // Private, writable, of no file.
        let is_memory = rest.split_whitespace().count() == 4 && rest.starts_with("rw-p");
        is_memory.then_some(end.ok()? - start.ok()?)
    });
    lengths.filter(|len| len % SPAN == 0).map(|len| len / SPAN).sum()
}

/// Waits until the kernel has no thread with this id, which is some time after the thread was
/// joined.
///
/// # Panics
/// If the thread does not end.
pub fn wait_until_gone(thread: libc::pid_t) {
    // SAFETY: signal 0 is only checked.
    let is_there = || unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) } == 0;
    while is_there() {
        std::thread::yield_now();
    }
}
