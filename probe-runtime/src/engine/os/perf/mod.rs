//! The kernel's events: perf_event_open(2).
//!
//! An event belongs to the thread that opens it, and counts that thread alone. Either its
//! descriptor or its page keeps it alive. Both stay in the process when the thread ends, and keep
//! the count. A forked child has the descriptors, which count its parent's thread, but not the
//! pages.
//!
//! Only [`paranoid`] uses the heap, and nothing takes a lock, so hits may call the other functions.

// Safety: relies on perf_event_open(2): structures of its own bindings, places for results, and
// pages that are unmapped once, or never.
#![expect(unsafe_code, reason = "see above")]

mod page;
mod switches;
mod task;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, ptr};

use perf_event_open_sys::bindings::{
    ID, PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED,
    PERF_FORMAT_TOTAL_TIME_RUNNING, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;

use super::guarded_file::high;
use super::process::page_size;

pub(crate) use page::{EventTimes, Page};
pub(crate) use switches::{Switch, SwitchBuffer, Turn};
pub(crate) use task::{SystemCall, system_call, tells_calls, turns};

/// The event to count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EventConfig {
    /// One of `PERF_TYPE_*`, which gives `config` its meaning.
    pub(crate) of_type: u32,
    pub(crate) config: u64,
    /// Whether to leave out the kernel's work for the thread.
    pub(crate) user_mode_only: bool,
}

/// The number of an open event's descriptor. Only [`close`](Self::close) closes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor(pub(crate) i32);

/// The greatest number of events in a group.
pub(crate) const MAX_GROUP_EVENTS: usize = 8;

impl Descriptor {
    /// Opens an event that counts this thread from now on, in the leader's group if one is given.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn open(wanted: EventConfig, leader: Option<Self>) -> Result<Self, i32> {
        let mut attributes = perf_event_attr {
            type_: wanted.of_type,
            size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or_default(),
            config: wanted.config,
            read_format: (PERF_FORMAT_GROUP
                | PERF_FORMAT_TOTAL_TIME_ENABLED
                | PERF_FORMAT_TOTAL_TIME_RUNNING)
                .into(),
            ..perf_event_attr::default()
        };
        attributes.set_exclude_kernel(wanted.user_mode_only.into());
        attributes.set_exclude_hv(wanted.user_mode_only.into());
        Self::open_with(attributes, leader)
    }

    /// Opens an event with these attributes, of the size that they state.
    fn open_with(mut attributes: perf_event_attr, leader: Option<Self>) -> Result<Self, i32> {
        const THIS_THREAD: libc::pid_t = 0;
        const ANY_PROCESSOR: libc::c_int = -1;
        let group = leader.map_or(-1, |leader| leader.0);
        loop {
            // SAFETY: attributes of the size that they state.
            let opened = unsafe {
                perf_event_open(
                    &raw mut attributes,
                    THIS_THREAD,
                    ANY_PROCESSOR,
                    group,
                    PERF_FLAG_FD_CLOEXEC.into(),
                )
            };
            match errno() {
                _ if opened >= 0 => return Ok(Self(opened)),
                // A signal interrupted the call; its handler has run by now.
                libc::EINTR => (),
                error => return Err(error),
            }
        }
    }

    /// Moves the event to a high number, if one is free, to be kept for long. A program that closes
    /// all descriptors and opens others gets the lowest free numbers, so it gets this one only
    /// after hundreds of others.
    pub(crate) fn move_to_high_number(self) -> Self {
        let from = high();
        if self.0 >= from {
            return self;
        }
        // SAFETY: no pointers.
        let moved = unsafe {
            libc::syscall(libc::SYS_fcntl, self.0, i64::from(libc::F_DUPFD_CLOEXEC), i64::from(from))
        };
        match i32::try_from(moved) {
            Ok(moved) if moved >= 0 => {
                // SAFETY: a descriptor of ours, opened just now.
                unsafe { libc::syscall(libc::SYS_close, self.0) };
                Self(moved)
            }
            _ => self,
        }
    }

    /// Returns the kernel's number of the event, which no other event has; `None` if the descriptor
    /// is not a perf event.
    pub(crate) fn id(self) -> Option<u64> {
        let mut id = 0;
        // SAFETY: a place for the result.
        let is_event = unsafe { libc::syscall(libc::SYS_ioctl, self.0, u64::from(ID), &raw mut id) } == 0;
        is_event.then_some(id)
    }

    /// Closes the descriptor, unless the program has closed it and has another file under its
    /// number.
    pub(crate) fn close(self, id: u64) {
        if self.id() == Some(id) {
            // SAFETY: a descriptor of ours.
            unsafe { libc::syscall(libc::SYS_close, self.0) };
        }
    }

    /// Maps the event's page.
    ///
    /// # Errors
    /// The system's error number: `EPERM` if the user may not have more pages.
    pub(crate) fn map(self) -> Result<Page, i32> {
        map(libc::PROT_READ, libc::MAP_SHARED, self.0, page_size()).map(Page)
    }

    /// Reads the whole group of which this is the leader: `values.len()` events, in the order in
    /// which they were opened. Returns `None` if the read fails, or its answer is not that of the
    /// group.
    ///
    /// This does not first ask whose file the descriptor is, since that costs a second system call.
    /// If the program has closed the number and opened its own file under it, this reads from that
    /// file once: it takes some of the file's data, or waits for data. The buffer is larger than
    /// any group's answer, so a longer answer shows that the file is not the group.
    pub(crate) fn read(self, values: &mut [u64]) -> Option<EventTimes> {
        let mut answer = [0_u64; 3 + MAX_GROUP_EVENTS + 1];
        let events = values.len().min(MAX_GROUP_EVENTS);
        let (place, size) = (answer.as_mut_ptr(), size_of_val(&answer));
        // SAFETY: a buffer of `size` bytes.
        let read = preserve_errno(|| unsafe { libc::syscall(libc::SYS_read, self.0, place, size) });
        let [count, enabled, running, rest @ ..] = answer;
        let is_whole = usize::try_from(read) == Ok((3 + events) * 8) && usize::try_from(count) == Ok(events);
        values.iter_mut().zip(rest).for_each(|(value, read)| *value = read);
        is_whole.then_some(EventTimes { enabled, running })
    }
}

/// Returns `kernel.perf_event_paranoid`, if the system reports it.
pub(crate) fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Runs `body`, and restores the thread's error number. (If sites are patched, dispatch restores it
/// around whole hits; otherwise only this function does.)
pub(crate) fn preserve_errno<T>(body: impl FnOnce() -> T) -> T {
    let kept = errno();
    let done = body();
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = kept };
    done
}

/// Returns the number of this thread's last error.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

/// Maps new memory.
fn map(rights: libc::c_int, flags: libc::c_int, file: i32, bytes: usize) -> Result<usize, i32> {
    let (rights, flags) = (i64::from(rights), i64::from(flags));
    let (place, offset) = (ptr::null::<u8>(), 0_i64);
    // SAFETY: a new mapping, which replaces none.
    let start =
        unsafe { libc::syscall(libc::SYS_mmap, place, bytes, rights, flags, i64::from(file), offset) };
    usize::try_from(start).map_err(|_| errno())
}

/// The last number that this process or one of its ancestors has given out.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// The place of this process's number. The number differs from those of its ancestors, and is 0 in
/// a child that has not [asked](ProcessNumber::get) yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessNumber(&'static AtomicU64);

/// Returns the place of this process's number; `None` if the kernel does not wipe memory in
/// children (before Linux 4.14).
pub(crate) fn process() -> Option<ProcessNumber> {
    static PAGE: OnceLock<Option<ProcessNumber>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = map(rights, flags, -1, page_size()).ok()?;
        // SAFETY: the new mapping.
        let wiped =
            unsafe { libc::syscall(libc::SYS_madvise, start, page_size(), i64::from(libc::MADV_WIPEONFORK)) };
        if wiped != 0 {
            // SAFETY: the new mapping, which no other code knows.
            unsafe { libc::syscall(libc::SYS_munmap, start, page_size()) };
            return None;
        }
        // SAFETY: zeroed memory, aligned to a page, which stays mapped.
        let number = ProcessNumber(unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(start) });
        number.get();
        Some(number)
    })
}

impl ProcessNumber {
    /// Returns the number in memory; 0 in a child that has not asked yet.
    #[inline(always)]
    pub(crate) fn known(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the number; never 0.
    pub(crate) fn get(self) -> u64 {
        let known = self.known();
        if known != 0 {
            return known;
        }
        let new = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
        // Another thread of the child may have been faster.
        match self.0.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(known) => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_another_process() {
        let number = process().unwrap();
        let own = number.get();
        assert_eq!((own, number.known()), (number.get(), own));
        // SAFETY: the child reads and writes a word.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = number.known() == 0 && number.get() == own + 1 && number.known() == own + 1;
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: a place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((status, number.get()), (0, own));
    }
}
