//! When this thread was taken off its processor, and put back, and when it ended: the kernel's
//! records ([perf_event_open(2)], `PERF_RECORD_SWITCH`, `PERF_RECORD_EXIT`), which need no rights
//! for a program's own threads.
//!
//! The kernel writes a record when it switches the thread off or on, while it does so. So at any
//! moment at which the thread executes, its memory has all records, and the last one says that it
//! was put on a processor. The thread reads them without a system call. The memory is mapped for
//! reading alone: the kernel goes around, and overwrites records that were not read in time. A
//! switch has 24 bytes, the end of the thread and the begin of another one twice as many. So places
//! of records are multiples of 24 also after that.
//!
//! [perf_event_open(2)]: https://man7.org/linux/man-pages/man2/perf_event_open.2.html

// Safety: relies on the kernel's page and the records behind it staying mapped until they are
// unmapped here, and on loads of aligned words that the kernel writes whole.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_MISC_SWITCH_OUT,
    PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, PERF_RECORD_SWITCH, PERF_SAMPLE_CPU, PERF_SAMPLE_TIME,
    PERF_TYPE_SOFTWARE, perf_event_attr, perf_event_mmap_page,
};

use super::{Descriptor, map};
use crate::engine::os::process::page_size;

/// Bytes for records, at least: some seven hundred waits between two readings.
const LEAST_ROOM: usize = 32 << 10;
/// Bytes of a switch's record: its header, its time, its processor.
const RECORD: u64 = 24;
/// Bytes of a record of a thread's begin or end: its header, the threads, the time, and what a
/// switch's record has behind its header.
const LONG_RECORD: u64 = 2 * RECORD;

/// The address of the records of one thread. Only [`unmap`](Self::unmap) unmaps them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SwitchBuffer(pub(crate) usize);

/// The kernel's latest step with a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It has put the thread on a processor.
    On,
    /// It has taken the thread off, which waits.
    Blocked,
    /// It has taken the thread off, which could have continued: others had their turn.
    Ready,
    /// The thread has ended, on a processor.
    Ended,
}

/// The kernel has taken the thread off a processor, or put it on one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Switch {
    pub(crate) turn: Turn,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub(crate) time: u64,
    pub(crate) processor: u32,
}

impl SwitchBuffer {
    /// Lets the kernel write records of this thread from now on. Keeps no descriptor.
    ///
    /// # Errors
    /// The system's error number if the kernel does not permit it; negated if it does not let the
    /// records be mapped, as beyond a limit on locked memory.
    pub(crate) fn open() -> Result<Self, i32> {
        let mut attributes = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or_default(),
            config: PERF_COUNT_SW_DUMMY.into(),
            sample_type: (PERF_SAMPLE_TIME | PERF_SAMPLE_CPU).into(),
            clockid: libc::CLOCK_MONOTONIC,
            ..perf_event_attr::default()
        };
        attributes.set_context_switch(1);
        attributes.set_task(1);
        attributes.set_sample_id_all(1);
        attributes.set_use_clockid(1);
        // The event itself counts nothing; without this, the kernel asks for rights.
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        let event = Descriptor::open_with(attributes, None)?;
        let buffer = map(libc::PROT_READ, libc::MAP_SHARED, event.0, Self::bytes());
        // SAFETY: a descriptor of ours, opened just now. The mapping keeps the event.
        unsafe { libc::syscall(libc::SYS_close, event.0) };
        buffer.map(Self).map_err(i32::wrapping_neg)
    }

    /// Unmaps the records. No thread may read them any more.
    pub(crate) fn unmap(self) {
        // SAFETY: a mapping of ours.
        unsafe { libc::syscall(libc::SYS_munmap, self.0, Self::bytes()) };
    }

    fn bytes() -> usize {
        page_size() + room()
    }

    /// Returns the place behind the last record.
    ///
    /// # Safety
    /// The records are mapped.
    #[inline(always)]
    pub(crate) unsafe fn end(self) -> u64 {
        let page: *const perf_event_mmap_page = ptr::with_exposed_provenance(self.0);
        // SAFETY: the kernel's page, which it writes by whole words.
        unsafe { AtomicU64::from_ptr((&raw const (*page).data_head).cast_mut()) }.load(Ordering::Acquire)
    }

    /// Passes on the records from `from` up to the last one, in order; `None` where records were
    /// overwritten. Returns the place behind the last one.
    ///
    /// # Safety
    /// The records are mapped.
    pub(crate) unsafe fn read(self, from: u64, mut each: impl FnMut(Option<Switch>)) -> u64 {
        let (first, room) = (self.0 + page_size(), room());
        let mut at = from;
        loop {
            // SAFETY: as the caller says.
            let end = unsafe { self.end() };
            if at >= end {
                return at;
            }
            let words = [0, 8, 16, 32, 40].map(|next| {
                let offset = usize::try_from((at + next) % room as u64).unwrap_or_default();
                let word: *const u64 = ptr::with_exposed_provenance(first + offset);
                // SAFETY: in the mapping; records begin at multiples of 8.
                unsafe { ptr::read_volatile(word) }
            });
            fence(Ordering::Acquire);
            // The kernel may have come around meanwhile; while it writes, it is ahead of the end.
            // SAFETY: as above.
            let newest = unsafe { self.end() } + LONG_RECORD;
            let oldest = newest.saturating_sub(room as u64).next_multiple_of(RECORD);
            if at < oldest {
                each(None);
                at = oldest;
                continue;
            }
            let (switch, bytes) = switch(words);
            if switch.is_some() {
                each(switch);
            }
            at += bytes;
        }
    }
}

/// Returns the bytes for records: whole pages.
fn room() -> usize {
    LEAST_ROOM.max(page_size())
}

/// Returns the switch that a record tells, and the record's length. The words are its header; the
/// time and the processor of a short record; the same of a long one. A long one may have lost its
/// first half. The second half begins with a time, and tells no switch.
fn switch([header, time, processor, long_time, long_processor]: [u64; 5]) -> (Option<Switch>, u64) {
    #[expect(clippy::cast_possible_truncation, reason = "fields of a header")]
    let (kind, misc, bytes) = (header as u32, (header >> 32) as u16, header >> 48);
    let has = |flag: u32| u32::from(misc) & flag != 0;
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let of = |turn, time, processor: u64| Some(Switch { turn, time, processor: processor as u32 });
    match (kind, bytes) {
        (PERF_RECORD_SWITCH, _) => {
            let turn = match () {
                () if has(PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) => Turn::Ready,
                () if has(PERF_RECORD_MISC_SWITCH_OUT) => Turn::Blocked,
                () => Turn::On,
            };
            (of(turn, time, processor), RECORD)
        }
        (PERF_RECORD_EXIT, LONG_RECORD) => (of(Turn::Ended, long_time, long_processor), LONG_RECORD),
        (PERF_RECORD_FORK, LONG_RECORD) => (None, LONG_RECORD),
        _ => (None, RECORD),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::engine::os::time;

    /// The records of this thread from now on; `None` if the kernel does not permit it.
    fn open() -> Option<SwitchBuffer> {
        let opened = SwitchBuffer::open();
        opened.inspect_err(|error| eprintln!("not permitted: {error}")).ok()
    }

    fn is_off(switch: Switch) -> bool {
        matches!(switch.turn, Turn::Blocked | Turn::Ready)
    }

    /// Returns the switches from a place on, the end, and whether some were lost.
    fn read(buffer: SwitchBuffer, from: u64) -> (Vec<Switch>, u64, bool) {
        let (mut switches, mut are_lost) = (Vec::new(), false);
        // SAFETY: it is mapped.
        let end = unsafe {
            buffer.read(from, |switch| match switch {
                Some(switch) => switches.push(switch),
                None => are_lost = true,
            })
        };
        (switches, end, are_lost)
    }

    #[test]
    fn a_thread_that_sleeps_is_taken_off_and_put_back() {
        let Some(buffer) = open() else { return };
        let before = time::monotonic();
        thread::sleep(Duration::from_millis(2));
        let after = time::monotonic();
        let (switches, end, are_lost) = read(buffer, 0);
        assert!(!are_lost && end >= switches.len() as u64 * RECORD, "{switches:?}");
        // Each leaves the processor before it comes back, whatever else interrupts the thread.
        assert!(switches.chunks(2).all(|it| is_off(it[0]) && it[1].turn == Turn::On), "{switches:?}");
        assert!(switches.is_sorted_by_key(|it| it.time), "{switches:?}");
        let is_asleep =
            |it: &&[Switch]| it[0].turn == Turn::Blocked && before <= it[0].time && it[1].time <= after;
        assert_eq!(switches.chunks(2).filter(is_asleep).count(), 1, "{switches:?}");
        buffer.unmap();
    }

    #[test]
    fn records_that_were_overwritten_are_missed() {
        let Some(buffer) = open() else { return };
        let room = room() as u64;
        let mut sleeps = 0;
        // SAFETY: it is mapped.
        while unsafe { buffer.end() } < 2 * room {
            thread::sleep(Duration::from_nanos(1));
            sleeps += 1;
        }
        let (switches, _, are_lost) = read(buffer, 0);
        let fits = room / RECORD;
        assert!(are_lost && sleeps > fits / 2 && switches.len() as u64 <= fits);
        assert!(switches.is_sorted_by_key(|it| it.time) && switches.last().unwrap().turn == Turn::On);
        buffer.unmap();
    }

    #[test]
    fn a_thread_that_ends_says_when_and_where() {
        let (before, buffer) = thread::spawn(|| {
            let buffer = open()?;
            // Their beginnings have records here, too.
            (0..3).for_each(|_| thread::spawn(|| ()).join().unwrap());
            Some((time::monotonic(), buffer))
        })
        .join()
        .unwrap()
        .unzip();
        let (Some(before), Some(buffer)) = (before, buffer) else { return };
        // Another thread learns of the end shortly before the kernel has written it.
        let (switches, after) = loop {
            let (switches, _, are_lost) = read(buffer, 0);
            assert!(!are_lost);
            if switches.last().is_some_and(|it| it.turn == Turn::Ended) {
                break (switches, time::monotonic());
            }
            thread::yield_now();
        };
        let (end, earlier) = switches.split_last().unwrap();
        assert!(before <= end.time && end.time <= after, "{before} {switches:?} {after}");
        assert!(earlier.chunks(2).all(|it| is_off(it[0]) && it[1].turn == Turn::On), "{switches:?}");
        assert!(earlier.last().is_none_or(|on| on.processor == end.processor), "{switches:?}");
        buffer.unmap();
    }

    #[test]
    fn records_are_told_apart() {
        let header = |kind: u64, misc: u64, bytes: u64| kind | misc << 32 | bytes << 48;
        let of = |header| switch([header, 7, 0xffff_ffff_0000_0003, 8, 0xffff_ffff_0000_0004]);
        let told = |turn| (Some(Switch { turn, time: 7, processor: 3 }), RECORD);
        assert_eq!(of(header(14, 0, 24)), told(Turn::On));
        assert_eq!(of(header(14, 1 << 13, 24)), told(Turn::Blocked));
        assert_eq!(of(header(14, 3 << 13, 24)), told(Turn::Ready));
        let end = Switch { turn: Turn::Ended, time: 8, processor: 4 };
        assert_eq!(of(header(4, 0, 48)), (Some(end), 48));
        assert_eq!(of(header(7, 0, 48)), (None, 48));
        // The second half of a longer record, whose first word is a time.
        assert_eq!(of(header(2, 0, 48)), (None, RECORD));
        assert_eq!(of(4), (None, RECORD));
    }
}
