//! The kernel's events: perf_event_open(2).
//!
//! An event belongs to the thread that opens it, and counts that thread alone. It lives as long as
//! its descriptor or its page is there, so one of the two is enough; both stay behind in the
//! thread's process when the thread ends, where they keep what was counted. A forked child has the
//! descriptors, which count its parent's thread, and none of the pages.
//!
//! Nothing here but [`paranoid`] takes the heap, and nothing a lock: it may be called on a hit.

// Safety: relies on perf_event_open(2): structures of its own bindings, places for results, and
// pages that are unmapped once.
#![expect(unsafe_code, reason = "see above")]

mod page;
mod process;

use std::{io, ptr};

use perf_event_open_sys::bindings::{
    ID, PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED,
    PERF_FORMAT_TOTAL_TIME_RUNNING, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;

pub(crate) use page::{Page, Times};
pub(crate) use process::{Number, process};

/// What to count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wanted {
    /// `PERF_TYPE_*`, and what it numbers.
    pub(crate) of_type: u32,
    pub(crate) config: u64,
    /// Not what the kernel does for the thread.
    pub(crate) user_mode_only: bool,
}

/// An open event's descriptor. Closed by [`close`](Self::close) alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor(i32);

/// Events that a group may have.
pub(crate) const MOST: usize = 8;

/// From which number on descriptors are [kept](Descriptor::out_of_the_way), at most: the kernel's
/// table of a process's files, which each fork copies, ends with the highest.
const HIGH: u64 = 1024;

impl Descriptor {
    /// Opens an event that counts this thread from now on, in a group with the leader's.
    ///
    /// # Errors
    /// The system's error number.
    pub(crate) fn open(wanted: Wanted, leader: Option<Self>) -> Result<Self, i32> {
        const THIS_THREAD: libc::pid_t = 0;
        const ANY_PROCESSOR: libc::c_int = -1;
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
        let group = leader.map_or(-1, |leader| leader.0);
        loop {
            // SAFETY: attributes of the size that they say.
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
                // A signal came; its handler has run by now.
                libc::EINTR => (),
                error => return Err(error),
            }
        }
    }

    /// The same event under a high number, where there is one left, to be kept for long. A program
    /// that closes all descriptors, and opens others, is given the lowest numbers that are free:
    /// not this one before it has hundreds.
    pub(crate) fn out_of_the_way(self) -> Self {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a place for the result.
        let is_known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
        let from = if is_known { (limit.rlim_cur / 2).min(HIGH) } else { 0 };
        let from = i32::try_from(from).unwrap_or_default();
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

    /// The kernel's number of the event, which no other has; `None` if the descriptor is none of an
    /// event.
    pub(crate) fn id(self) -> Option<u64> {
        let mut id = 0;
        // SAFETY: a place for the result.
        let is_event = unsafe { libc::syscall(libc::SYS_ioctl, self.0, u64::from(ID), &raw mut id) } == 0;
        is_event.then_some(id)
    }

    /// Closes it, unless the program has done so, and has another file under its number.
    pub(crate) fn close(self, id: u64) {
        if self.id() == Some(id) {
            // SAFETY: a descriptor of ours.
            unsafe { libc::syscall(libc::SYS_close, self.0) };
        }
    }

    /// Maps the event's page.
    ///
    /// # Errors
    /// The system's error number: `EPERM` where the user may not have more of them.
    pub(crate) fn map(self) -> Result<Page, i32> {
        map(libc::PROT_READ, libc::MAP_SHARED, self.0).map(Page::from_number)
    }

    /// Reads the whole group of which this is the leader, `values.len()` events, in the order in
    /// which they were opened. `None` if that is not what was read, or there is nothing to be read.
    ///
    /// To ask first whose the descriptor is would be a second system call. So the program's own
    /// file, under a number that it has closed, is read once: of its data as many bytes as are
    /// asked for, or it is waited for them. More are asked for than any group has, so that a file
    /// that has more is known by its answer.
    pub(crate) fn read(self, values: &mut [u64]) -> Option<Times> {
        let mut answer = [0_u64; 3 + MOST + 1];
        let events = values.len().min(MOST);
        let (place, size) = (answer.as_mut_ptr(), size_of_val(&answer));
        // SAFETY: a place for as many bytes.
        let read = keeping_errno(|| unsafe { libc::syscall(libc::SYS_read, self.0, place, size) });
        let [count, enabled, running, rest @ ..] = answer;
        let is_whole = usize::try_from(read) == Ok((3 + events) * 8) && usize::try_from(count) == Ok(events);
        values.iter_mut().zip(rest).for_each(|(value, read)| *value = read);
        is_whole.then_some(Times { enabled, running })
    }

    /// To be kept as a number.
    pub(crate) fn number(self) -> i32 {
        self.0
    }

    /// The descriptor with that number.
    pub(crate) fn from_number(number: i32) -> Self {
        Self(number)
    }
}

/// `kernel.perf_event_paranoid`, where the system says it.
pub(crate) fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// The thread's error number stays what it was, whatever fails. (Where sites are patched, dispatch
/// keeps it around whole hits; elsewhere nobody does.)
pub(crate) fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    let kept = errno();
    let done = body();
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = kept };
    done
}

/// The number of the last error on this thread.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

/// Maps a page that is not there yet.
fn map(rights: libc::c_int, flags: libc::c_int, file: i32) -> Result<usize, i32> {
    let (rights, flags) = (i64::from(rights), i64::from(flags));
    let (place, offset) = (ptr::null::<u8>(), 0_i64);
    // SAFETY: a new mapping, which replaces none.
    let start =
        unsafe { libc::syscall(libc::SYS_mmap, place, page_size(), rights, flags, i64::from(file), offset) };
    usize::try_from(start).map_err(|_| errno())
}

fn page_size() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
