//! Addresses at which threads were, each time their CPU time had advanced by a period: the kernel's
//! clock of the processor, sampled ([perf_event_open(2)], `PERF_COUNT_SW_CPU_CLOCK`). No signal is
//! sent, and the sampled thread runs no code of ours.
//!
//! The kernel writes samples to memory that is mapped for reading alone. So it goes around, and
//! overwrites samples that were not read in time. The mapping keeps the event alive. Its descriptor
//! is closed at once: a program that closes descriptors can't give its number to another file.
//!
//! [perf_event_open(2)]: https://man7.org/linux/man-pages/man2/perf_event_open.2.html

// Safety: relies on perf_event_open(2): attributes of its own layout, and a mapping of its own that
// is unmapped once.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};
use std::{io, ptr};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_RECORD_SAMPLE, PERF_SAMPLE_IP, PERF_TYPE_SOFTWARE,
    perf_event_attr, perf_event_mmap_page,
};
use perf_event_open_sys::perf_event_open;

use crate::engine::os::fork::process;
use crate::engine::os::thread;

/// The memory for samples of a thread, behind the kernel's own page. A sample takes 16 bytes.
const BUFFER_SIZE: usize = 64 << 10;
/// The length of the kernel's page.
const PAGE: usize = 4096;

/// The samples of one thread.
pub(crate) struct CpuSamples {
    start: usize,
    read: u64,
    /// The process that has the mapping: a forked child does not.
    process: u64,
}

/// Returns whether the kernel may be asked for samples: no filter of system calls is installed for
/// this thread, as far as is known. A filter may end the process.
pub(crate) fn is_unfiltered() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|it| it.trim() == "0"))
}

/// Measures how long a sample interrupts a thread: the median of some that interrupt this one, in
/// nanoseconds. `None` if the kernel permits none. Takes half a millisecond.
pub(crate) fn sample_cost() -> Option<f64> {
    const PERIOD: u64 = 50_000;
    /// A longer time between two readings of the clock is an interruption, in nanoseconds.
    const LONG: u128 = 1_000;
    let samples = CpuSamples::begin(thread::id(), PERIOD).ok()?;
    let begin = Instant::now();
    let (mut last, mut gaps) = (begin, Vec::new());
    while begin.elapsed() < Duration::from_micros(500) {
        let now = Instant::now();
        let gap = now.duration_since(last).as_nanos();
        if gap >= LONG {
            gaps.push(gap as f64);
        }
        last = now;
    }
    drop(samples);
    crate::engine::order::sort_by(&mut gaps, f64::total_cmp);
    Some(gaps.get(gaps.len() / 2).copied().unwrap_or(LONG as f64))
}

impl CpuSamples {
    /// Begins to sample a thread of this process each time it has used another `period`
    /// nanoseconds, in user mode.
    ///
    /// # Errors
    /// The system's error: the kernel, or a limit on locked memory, does not permit it, or the
    /// thread has ended.
    pub(crate) fn begin(thread: u32, period: u64) -> io::Result<Self> {
        let mut attributes = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or_default(),
            config: PERF_COUNT_SW_CPU_CLOCK.into(),
            sample_type: PERF_SAMPLE_IP.into(),
            ..perf_event_attr::default()
        };
        attributes.__bindgen_anon_1.sample_period = period;
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
        // SAFETY: attributes of the size that they state.
        let opened =
            unsafe { perf_event_open(&raw mut attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC.into()) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, which replaces none.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), PAGE + BUFFER_SIZE, libc::PROT_READ, libc::MAP_SHARED, opened, 0)
        };
        let error = io::Error::last_os_error();
        // SAFETY: a descriptor of ours, opened just now.
        unsafe { libc::close(opened) };
        if start == libc::MAP_FAILED {
            return Err(error);
        }
        Ok(Self { start: start.expose_provenance(), read: 0, process: process() })
    }

    /// Calls `each` with the address of each new sample, in order. Returns the number of bytes that
    /// were overwritten before they were read.
    pub(crate) fn read(&mut self, mut each: impl FnMut(usize)) -> u64 {
        if self.process != process() {
            return 0;
        }
        let head = self.head();
        let size = BUFFER_SIZE as u64;
        let lost = head.saturating_sub(self.read).saturating_sub(size);
        if lost != 0 {
            // The beginning of the oldest of the others is not known.
            self.read = head;
            return lost;
        }
        while self.read < head {
            let (header, address) = (self.word(self.read), self.word(self.read + 8));
            let len = header >> 48;
            if len < 8 || len % 8 != 0 {
                break;
            }
            // The kernel may have come around meanwhile.
            if self.head() - self.read > size {
                break;
            }
            #[expect(clippy::cast_possible_truncation, reason = "the lower half; an address")]
            if header as u32 == PERF_RECORD_SAMPLE {
                each(address as usize);
            }
            self.read += len;
        }
        let left = head - self.read;
        self.read = head;
        left
    }

    fn head(&self) -> u64 {
        let page: *const perf_event_mmap_page = ptr::with_exposed_provenance(self.start);
        // SAFETY: the kernel's page, which it writes by whole words.
        let head = unsafe { AtomicU64::from_ptr((&raw const (*page).data_head).cast_mut()) };
        let head = head.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        head
    }

    fn word(&self, at: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "less than the room")]
        let place = self.start + PAGE + (at % BUFFER_SIZE as u64) as usize;
        let word: *const u64 = ptr::with_exposed_provenance(place);
        // SAFETY: in the mapping; samples begin at multiples of 8.
        unsafe { ptr::read_volatile(word) }
    }
}

impl Drop for CpuSamples {
    fn drop(&mut self) {
        // A forked child may have something else there.
        if self.process == process() {
            let start: *mut libc::c_void = ptr::with_exposed_provenance_mut(self.start);
            // SAFETY: a mapping of ours, which nothing refers to any more.
            unsafe { libc::munmap(start, PAGE + BUFFER_SIZE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::time;

    #[inline(never)]
    fn spin(until: u64) -> u64 {
        let mut rounds = 0;
        while time::thread_cpu() < until {
            (0..1000).for_each(|n| _ = std::hint::black_box(n));
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn a_busy_thread_is_sampled_as_often_as_its_time_says() {
        let Ok(mut own) = CpuSamples::begin(thread::id(), 100_000) else {
            return eprintln!("the kernel does not permit it");
        };
        let begin = time::thread_cpu();
        assert!(spin(begin + 50_000_000) > 0);
        let used = time::thread_cpu() - begin;
        let (mut samples, mut in_text) = (0, 0);
        let lost = own.read(|address| {
            samples += 1;
            in_text += u64::from(address != 0);
        });
        // The kernel's own work is left out.
        assert!(lost == 0 && samples > 0 && samples <= used / 100_000 + 2, "{samples} in {used} ns");
        assert_eq!(in_text, samples);
    }

    #[test]
    fn a_sample_takes_time() {
        if let Some(cost) = sample_cost() {
            assert!((1e3..1e6).contains(&cost), "{cost}");
        }
    }

    #[test]
    fn no_thread_of_another_process_is_sampled() {
        // Greater than any thread id (proc(5), `pid_max`).
        assert!(CpuSamples::begin((1 << 22) + 1, 1_000_000).is_err());
    }
}
