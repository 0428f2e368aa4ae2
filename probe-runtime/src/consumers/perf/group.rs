//! The events of one thread, opened at its first hit.
//!
//! ```text
//! first hit ▶ opened: each event, its page ▶ readable there? ─ yes ▶ no descriptor is kept; a hit reads pages
//!                                                            └ no  ▶ the leader's is kept, under a high number; a hit makes one read(2) for all
//!           ▶ refused: counted; the thread's calls are not
//! the kernel withdraws reading in user space ▶ the next hit opens them anew, and reads them by a system call
//! thread ends ▶ given back by the next thread's first hit, or the next report, or the end of the consumer
//! fork ▶ the child's thread opens its own; what it inherited is closed
//! ```
//! Who gives back is decided by one exchange of the owner's number, which no other thread ever has:
//! the next owner of the memory, and whoever looks for threads that have ended, may be at it at
//! once.

// Safety: relies on zeroes being a thread without events, and on pages being read by the thread
// that has mapped them, in the process that has.
#![expect(unsafe_code, reason = "see above")]

use std::array;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize};

use super::event::PerfEvent;
use super::plan::{Plan, Source};
use crate::calls::add;
use crate::os::perf::{Descriptor, MOST, Page, Times, keeping_errno};
use crate::per_thread::Zeroed;

/// Events that can be counted at once.
pub(super) const EVENTS: usize = MOST;
const _: () = assert!(PerfEvent::ALL.len() <= EVENTS);

/// What is read: the events in the plan's order, then [`BREAKS`].
pub(super) const NUMBERS: usize = EVENTS + 1;
pub(super) type Numbers = [u64; NUMBERS];

/// How often the thread's counts began anew, or could not be read: if that has changed between two
/// readings, their difference says nothing.
pub(super) const BREAKS: usize = EVENTS;

/// How a thread's events are read; 0, as memory begins, is none of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum State {
    Pages = 1,
    Descriptor = 2,
    Refused = 3,
}

/// One event's means: numbers of what keeps it alive, 0 where that is none.
#[derive(Default)]
#[repr(C)]
struct Kept {
    page: AtomicUsize,
    /// One more than the descriptor.
    descriptor: AtomicI32,
    id: AtomicU64,
}

/// A thread's events.
#[derive(Default)]
#[repr(C)]
pub struct Group {
    /// The thread that they count, by its number; 0 if there are none.
    owner: AtomicU64,
    /// The process that has opened them.
    process: AtomicU64,
    state: AtomicU32,
    breaks: AtomicU64,
    kept: [Kept; EVENTS],
    /// Of this thread, and of those that had the memory before: for how long events were to count,
    /// and did.
    times: [AtomicU64; 2],
    times_before: [AtomicU64; 2],
    /// Threads that could get no events, and the last one's error.
    refused: AtomicU64,
    error: AtomicI32,
    by_pages: AtomicU64,
    by_system_call: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Group {}

/// What has been opened, for whoever is to give it back.
struct Opened {
    process: u64,
    kept: [(usize, i32, u64); EVENTS],
}

const NOTHING: [(usize, i32, u64); EVENTS] = [(0, 0, 0); EVENTS];

/// What became of threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Threads {
    /// Read in user space, and by a system call each time.
    pub(super) by_pages: u64,
    pub(super) by_system_call: u64,
    /// Without events, and the last one's error.
    pub(super) refused: u64,
    pub(super) error: i32,
    pub(super) times: Times,
}

impl Group {
    /// The counts as they are now, on the thread with this number, whose group it is. `opened` is
    /// called if it is opened for that.
    #[inline]
    pub(super) fn read(&self, thread: u64, plan: &Plan, opened: impl FnOnce()) -> Numbers {
        let mut numbers = [0; NUMBERS];
        let times = match plan.source {
            Source::Kernel(process) => {
                if self.owner.load(Relaxed) != thread || self.process.load(Relaxed) != process.known() {
                    keeping_errno(|| {
                        self.open(thread, process.get(), plan);
                        opened();
                    });
                }
                let mut times = self.read_own(plan, &mut numbers);
                if times.is_none() && self.state.load(Relaxed) == State::Pages as u32 {
                    // Processors' counters or their time may no longer be read in user space. It is
                    // found out anew what may.
                    keeping_errno(|| self.open(thread, process.get(), plan));
                    times = self.read_own(plan, &mut numbers);
                }
                times
            }
            Source::Given(count) => {
                let mut is_whole = true;
                for (number, counted) in numbers.iter_mut().zip(&plan.counted) {
                    let found = count(counted.event);
                    is_whole &= found.is_ok();
                    *number = found.unwrap_or_default();
                }
                is_whole.then(Times::default)
            }
        };
        if let Some(Times { enabled, running }) = times {
            self.times[0].store(enabled, Relaxed);
            self.times[1].store(running, Relaxed);
            numbers[BREAKS] = self.breaks.load(Relaxed);
        } else {
            // Neither what was read before nor what will be is to be compared with this.
            numbers = [0; NUMBERS];
            numbers[BREAKS] = self.breaks.load(Relaxed) + 1;
            add(&self.breaks, 2);
        }
        numbers
    }

    #[inline]
    fn read_own(&self, plan: &Plan, numbers: &mut Numbers) -> Option<Times> {
        let state = self.state.load(Relaxed);
        if state == State::Pages as u32 {
            for ((number, counted), kept) in numbers.iter_mut().zip(&plan.counted).zip(&self.kept) {
                let page = Page::from_number(kept.page.load(Relaxed));
                // SAFETY: this thread has mapped it, in this process.
                *number = unsafe { value(page, counted.event) }?;
            }
            let leader = Page::from_number(self.kept[0].page.load(Relaxed));
            // SAFETY: as above.
            return Some(unsafe { leader.times() });
        }
        if state != State::Descriptor as u32 {
            return None;
        }
        let leader = Descriptor::from_number(self.kept[0].descriptor.load(Relaxed) - 1);
        let Some(times) = leader.read(&mut numbers[..plan.counted.len()]) else {
            const EBADF: i32 = 9;
            // The program has closed it: what may have its number now is not to be read again.
            self.refuse(EBADF);
            return None;
        };
        // The event itself loses time when threads are switched, unless it leads its group (seen on
        // Linux 6.18). What the kernel says of the group does not: it goes on while the thread is
        // on a processor.
        if let Some(at) = plan.counted.iter().position(|counted| counted.event == PerfEvent::TaskClock) {
            numbers[at] = times.enabled;
        }
        Some(times)
    }

    #[cold]
    #[inline(never)]
    fn open(&self, thread: u64, process: u64, plan: &Plan) {
        if let Some(left) = self.take() {
            left.give_back(process);
        }
        for (before, time) in self.times_before.iter().zip(&self.times) {
            add(before, time.load(Relaxed));
            time.store(0, Relaxed);
        }
        // What began before is not to be compared with what is read from now on.
        add(&self.breaks, 1);
        let mut kept = NOTHING;
        match Opened::new(process, plan) {
            Ok((opened, state)) => {
                kept = opened.kept;
                self.state.store(state as u32, Relaxed);
                add(if state == State::Pages { &self.by_pages } else { &self.by_system_call }, 1);
            }
            Err(error) => self.refuse(error),
        }
        for (place, (page, descriptor, id)) in self.kept.iter().zip(kept) {
            place.page.store(page, Relaxed);
            place.descriptor.store(descriptor, Relaxed);
            place.id.store(id, Relaxed);
        }
        self.process.store(process, Relaxed);
        self.owner.store(thread, Release);
    }

    #[cold]
    fn refuse(&self, error: i32) {
        add(&self.refused, 1);
        self.error.store(error, Relaxed);
        self.state.store(State::Refused as u32, Relaxed);
    }

    /// Closes what is open, of a thread that is over, or of one that makes no hit any more.
    /// `is_over` is asked after it was looked whose it is.
    pub(super) fn close(&self, plan: &Plan, is_over: impl FnOnce() -> bool) {
        let Source::Kernel(process) = plan.source else { return };
        if self.owner.load(Relaxed) != 0
            && let Some(left) = self.take_if(is_over)
        {
            left.give_back(process.get());
        }
    }

    fn take(&self) -> Option<Opened> {
        self.take_if(|| true)
    }

    /// Takes out what is open: one of those who try has it.
    fn take_if(&self, is_over: impl FnOnce() -> bool) -> Option<Opened> {
        let owner = self.owner.load(Acquire);
        if owner == 0 || !is_over() {
            return None;
        }
        let left = Opened {
            process: self.process.load(Relaxed),
            kept: array::from_fn(|at| {
                let Kept { page, descriptor, id } = &self.kept[at];
                (page.load(Relaxed), descriptor.load(Relaxed), id.load(Relaxed))
            }),
        };
        // If the owner is still the same, so is all that was read.
        self.owner.compare_exchange(owner, 0, AcqRel, Relaxed).is_ok().then_some(left)
    }

    /// What became of the threads that had this memory.
    pub(super) fn threads(&self) -> Threads {
        let time = |at: usize| self.times[at].load(Relaxed) + self.times_before[at].load(Relaxed);
        Threads {
            by_pages: self.by_pages.load(Relaxed),
            by_system_call: self.by_system_call.load(Relaxed),
            refused: self.refused.load(Relaxed),
            error: self.error.load(Relaxed),
            times: Times { enabled: time(0), running: time(1) },
        }
    }
}

/// # Safety
/// This thread has mapped the page, in this process.
#[inline]
unsafe fn value(page: Page, event: PerfEvent) -> Option<u64> {
    // SAFETY: the caller's.
    if event == PerfEvent::TaskClock { unsafe { page.time() } } else { unsafe { page.count() } }
}

impl Opened {
    /// Opens the plan's events on this thread.
    fn new(process: u64, plan: &Plan) -> Result<(Self, State), i32> {
        let mut opened = Self { process, kept: NOTHING };
        let mut is_readable = true;
        for (at, counted) in plan.counted.iter().enumerate().take(EVENTS) {
            let leader = (at != 0).then(|| Descriptor::from_number(opened.kept[0].1 - 1));
            let wanted = counted.event.wanted(counted.user_mode_only);
            let descriptor = Descriptor::open(wanted, leader).inspect_err(|_| opened.give_back(process))?;
            let id = descriptor.id().unwrap_or_default();
            opened.kept[at] = (0, descriptor.number() + 1, id);
            // The page keeps the event alive. Where the user may have no more of them, the
            // descriptor does.
            let Ok(page) = descriptor.map() else {
                is_readable = false;
                continue;
            };
            opened.kept[at].0 = page.number();
            // SAFETY: this thread has just mapped it.
            is_readable &= unsafe {
                if counted.event == PerfEvent::TaskClock { page.time().is_some() } else { page.is_counting() }
            };
            if at != 0 {
                opened.close(at);
            }
        }
        if is_readable {
            opened.close(0);
        }
        // What is still open stays so. Its event is the same, and so is its id.
        for (_, descriptor, _) in opened.kept.iter_mut().filter(|(_, descriptor, _)| *descriptor != 0) {
            *descriptor = Descriptor::from_number(*descriptor - 1).out_of_the_way().number() + 1;
        }
        Ok((opened, if is_readable { State::Pages } else { State::Descriptor }))
    }

    fn close(&mut self, at: usize) {
        let (_, descriptor, id) = &mut self.kept[at];
        if *descriptor != 0 {
            Descriptor::from_number(*descriptor - 1).close(*id);
            *descriptor = 0;
        }
    }

    /// Closes all, in the process with this number.
    fn give_back(&self, process: u64) {
        // Siblings first.
        for (page, descriptor, id) in self.kept.iter().rev() {
            // A child has none of its parent's pages: what is mapped there is something else.
            if *page != 0 && self.process == process {
                Page::from_number(*page).unmap();
            }
            if *descriptor != 0 {
                Descriptor::from_number(*descriptor - 1).close(*id);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests;
