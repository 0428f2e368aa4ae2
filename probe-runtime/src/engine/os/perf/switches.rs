//! When this thread was taken off its processor, and put back: the kernel's records of switches
//! ([perf_event_open(2)], `PERF_RECORD_SWITCH`), which need no rights for a program's own threads.
//!
//! The kernel writes a record when it switches the thread off or on, while it does so. So at any
//! moment at which the thread executes, its memory has all records, and the last one says that it
//! was put on a processor. The thread reads them without a system call. The memory is mapped for
//! reading alone: the kernel goes around, and overwrites records that were not read in time. All
//! records have one length, so places of records are multiples of it also after that.
//!
//! [perf_event_open(2)]: https://man7.org/linux/man-pages/man2/perf_event_open.2.html

// Safety: relies on the kernel's page and the records behind it staying mapped until they are
// unmapped here, and on loads of aligned words that the kernel writes whole.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
    PERF_RECORD_SWITCH, PERF_SAMPLE_CPU, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
    perf_event_mmap_page,
};

use super::{Descriptor, map};
use crate::engine::os::process::page_size;

/// Bytes for records, at least: some seven hundred waits between two readings.
const LEAST_ROOM: usize = 32 << 10;
/// Bytes of a record: its header, its time, its processor.
const RECORD: u64 = 24;

/// The address of the records of one thread. Only [`unmap`](Self::unmap) unmaps them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SwitchBuffer(pub(crate) usize);

/// The kernel has taken the thread off a processor, or put it on one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Switch {
    pub(crate) is_off: bool,
    /// Whether the thread taken off could have continued: others had their turn.
    pub(crate) is_ready: bool,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub(crate) time: u64,
    pub(crate) processor: u32,
}

impl SwitchBuffer {
    /// Lets the kernel write records of this thread from now on. Keeps no descriptor.
    ///
    /// # Errors
    /// The system's error number: the kernel, or a limit on locked memory, does not permit it.
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
        attributes.set_sample_id_all(1);
        attributes.set_use_clockid(1);
        // The event itself counts nothing; without this, the kernel asks for rights.
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        let event = Descriptor::open_with(attributes, None)?;
        let buffer = map(libc::PROT_READ, libc::MAP_SHARED, event.0, Self::bytes()).map(Self);
        // SAFETY: a descriptor of ours, opened just now. The mapping keeps the event.
        unsafe { libc::syscall(libc::SYS_close, event.0) };
        buffer
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
            let words = [0, 8, 16].map(|next| {
                let offset = usize::try_from((at + next) % room as u64).unwrap_or_default();
                let word: *const u64 = ptr::with_exposed_provenance(first + offset);
                // SAFETY: in the mapping; records begin at multiples of 8.
                unsafe { ptr::read_volatile(word) }
            });
            fence(Ordering::Acquire);
            // The kernel may have come around meanwhile; while it writes, it is ahead of the end.
            // SAFETY: as above.
            let newest = unsafe { self.end() } + RECORD;
            let oldest = newest.saturating_sub(room as u64).next_multiple_of(RECORD);
            if at < oldest {
                each(None);
                at = oldest;
                continue;
            }
            if let Some(switch) = switch(words) {
                each(Some(switch));
            }
            at += RECORD;
        }
    }
}

/// Returns the bytes for records: whole pages.
fn room() -> usize {
    LEAST_ROOM.max(page_size())
}

/// Returns the switch that a record tells: its header, its time, its processor.
fn switch([header, time, processor]: [u64; 3]) -> Option<Switch> {
    #[expect(clippy::cast_possible_truncation, reason = "fields of a header")]
    let (kind, misc) = (header as u32, (header >> 32) as u16);
    let has = |flag: u32| u32::from(misc) & flag != 0;
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let processor = processor as u32;
    (kind == PERF_RECORD_SWITCH).then(|| Switch {
        is_off: has(PERF_RECORD_MISC_SWITCH_OUT),
        is_ready: has(PERF_RECORD_MISC_SWITCH_OUT_PREEMPT),
        time,
        processor,
    })
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
        assert!(switches.chunks(2).all(|it| it[0].is_off && !it[1].is_off), "{switches:?}");
        assert!(switches.is_sorted_by_key(|it| it.time), "{switches:?}");
        let is_asleep = |it: &&[Switch]| !it[0].is_ready && before <= it[0].time && it[1].time <= after;
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
        assert!(switches.is_sorted_by_key(|it| it.time) && !switches.last().unwrap().is_off);
        buffer.unmap();
    }

    #[test]
    fn other_records_are_no_switches() {
        let header = |kind: u64, misc: u64| kind | misc << 32 | RECORD << 48;
        let of = |header| switch([header, 7, 0xffff_ffff_0000_0003]);
        let put_back = Switch { is_off: false, is_ready: false, time: 7, processor: 3 };
        assert_eq!(of(header(14, 0)), Some(put_back));
        assert_eq!(of(header(14, 1 << 13)), Some(Switch { is_off: true, ..put_back }));
        assert_eq!(of(header(14, 3 << 13)), Some(Switch { is_off: true, is_ready: true, ..put_back }));
        assert_eq!(of(header(2, 0)), None);
    }
}
