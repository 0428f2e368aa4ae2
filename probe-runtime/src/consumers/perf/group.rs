//! The events of one thread, opened at its first hit.
//!
//! ```text
//! first hit ▶ opens each event, maps its page
//!   ▸ all pages are readable ▶ keeps no descriptor; a hit reads the pages
//!   ▸ otherwise ▶ keeps the leader's, under a high number; a hit makes one read(2) for all
//!   ▸ refused ▶ counts the thread, and none of its calls
//! the kernel withdraws reading in user space ▶ the next hit opens the events anew, and reads them
//!                                              by a system call
//! thread ends ▶ the next thread's first hit, the next report, or the end of the consumer closes all
//! fork ▶ the child's thread opens its own events, and closes those that it inherited
//! ```
//! Several threads may try to close the same events: the next owner of the memory, and threads
//! that look for ended ones. One exchange of the owner's number decides which of them does; thread
//! numbers are never reused.

// Safety: relies on zeroes being a thread without events, and on pages being read only by the
// thread that has mapped them, in the process that has.
#![expect(unsafe_code, reason = "see above")]

use std::array;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize};

use super::event::{CountSource, PerfEvent, Plan};
use crate::engine::calls::add_single_writer;
use crate::engine::os::perf::{Descriptor, EventTimes, MAX_GROUP_EVENTS, Page, preserve_errno};
use crate::engine::per_thread::Zeroed;

/// The number of events that can be counted at once.
pub(super) const EVENTS: usize = MAX_GROUP_EVENTS;
const _: () = assert!(PerfEvent::ALL.len() <= EVENTS);

/// The numbers of a reading: the events in the plan's order, then [`BREAKS`].
pub(super) const NUMBERS: usize = EVENTS + 1;
pub(super) type Numbers = [u64; NUMBERS];

/// The index of the number of breaks: how often the thread's counts restarted or could not be read.
/// If it has changed between two readings, their difference is meaningless.
pub(super) const BREAKS: usize = EVENTS;

/// How a thread's events are read. Fresh memory is 0, which stands for no state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum GroupState {
    Pages = 1,
    Descriptor = 2,
    Refused = 3,
}

/// The resources that keep one event open; 0 for a resource that is not used.
#[derive(Default)]
#[repr(C)]
struct EventResources {
    page: AtomicUsize,
    /// The descriptor plus one.
    descriptor: AtomicI32,
    id: AtomicU64,
}

/// A thread's events.
#[derive(Default)]
#[repr(C)]
pub struct Group {
    /// The number of the thread whose events are counted; 0 if there are none.
    owner: AtomicU64,
    /// The number of the process that opened the events.
    process: AtomicU64,
    state: AtomicU32,
    breaks: AtomicU64,
    resources: [EventResources; EVENTS],
    /// How long events were enabled, and how long they were counted: on this thread, and on earlier
    /// threads with the same memory.
    times: [AtomicU64; 2],
    times_before: [AtomicU64; 2],
    /// Threads that could not get events, and the error of the last one.
    refused: AtomicU64,
    error: AtomicI32,
    by_pages: AtomicU64,
    by_system_call: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Group {}

/// Open events that are about to be closed.
struct OpenEvents {
    process: u64,
    resources: [(usize, i32, u64); EVENTS],
}

const NO_RESOURCES: [(usize, i32, u64); EVENTS] = [(0, 0, 0); EVENTS];

/// The outcome for all threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Threads {
    /// Threads whose events were read in user space, and threads that made system calls.
    pub(super) by_pages: u64,
    pub(super) by_system_call: u64,
    /// Threads without events, and the error of the last one.
    pub(super) refused: u64,
    pub(super) error: i32,
    pub(super) times: EventTimes,
}

impl Group {
    /// Reads the counts of this thread, which has this number and owns the group. Calls `opened` if
    /// it has to open events first.
    #[inline]
    pub(super) fn read(&self, thread: u64, plan: &Plan, opened: impl FnOnce()) -> Numbers {
        let mut numbers = [0; NUMBERS];
        let times = match plan.source {
            CountSource::Kernel(process) => {
                if self.owner.load(Relaxed) != thread || self.process.load(Relaxed) != process.known() {
                    preserve_errno(|| {
                        self.open(thread, process.get(), plan);
                        opened();
                    });
                }
                let mut times = self.read_own(plan, &mut numbers);
                if times.is_none() && self.state.load(Relaxed) == GroupState::Pages as u32 {
                    // The kernel may have withdrawn reading in user space. Opening the events again
                    // finds out.
                    preserve_errno(|| self.open(thread, process.get(), plan));
                    times = self.read_own(plan, &mut numbers);
                }
                times
            }
            CountSource::Given(count) => {
                let mut is_whole = true;
                for (number, counted) in numbers.iter_mut().zip(&plan.counted) {
                    let found = count(counted.event);
                    is_whole &= found.is_ok();
                    *number = found.unwrap_or_default();
                }
                is_whole.then(EventTimes::default)
            }
        };
        if let Some(EventTimes { enabled, running }) = times {
            self.times[0].store(enabled, Relaxed);
            self.times[1].store(running, Relaxed);
            numbers[BREAKS] = self.breaks.load(Relaxed);
        } else {
            // This reading must not be compared with an earlier or a later one.
            numbers = [0; NUMBERS];
            numbers[BREAKS] = self.breaks.load(Relaxed) + 1;
            add_single_writer(&self.breaks, 2);
        }
        numbers
    }

    #[inline]
    fn read_own(&self, plan: &Plan, numbers: &mut Numbers) -> Option<EventTimes> {
        let state = self.state.load(Relaxed);
        if state == GroupState::Pages as u32 {
            for ((number, counted), resources) in numbers.iter_mut().zip(&plan.counted).zip(&self.resources) {
                let page = Page(resources.page.load(Relaxed));
                // SAFETY: this thread has mapped it, in this process.
                *number = unsafe { value(page, counted.event) }?;
            }
            let leader = Page(self.resources[0].page.load(Relaxed));
            // SAFETY: as above.
            return Some(unsafe { leader.times() });
        }
        if state != GroupState::Descriptor as u32 {
            return None;
        }
        let leader = Descriptor(self.resources[0].descriptor.load(Relaxed) - 1);
        let Some(times) = leader.read(&mut numbers[..plan.counted.len()]) else {
            const EBADF: i32 = 9;
            // The program has closed it. Its number may belong to another file now, which must not
            // be read.
            self.refuse(EBADF);
            return None;
        };
        // The event itself loses time when threads are switched, unless it leads its group (seen on
        // Linux 6.18). The time for which the kernel enabled the group does not: it runs while the
        // thread is on a processor.
        if let Some(at) = plan.counted.iter().position(|counted| counted.event == PerfEvent::TaskClock) {
            numbers[at] = times.enabled;
        }
        Some(times)
    }

    #[cold]
    #[inline(never)]
    fn open(&self, thread: u64, process: u64, plan: &Plan) {
        if let Some(left) = self.take_if(|| true) {
            left.close_all(process);
        }
        for (before, time) in self.times_before.iter().zip(&self.times) {
            add_single_writer(before, time.load(Relaxed));
            time.store(0, Relaxed);
        }
        // Earlier readings must not be compared with readings from now on.
        add_single_writer(&self.breaks, 1);
        let mut resources = NO_RESOURCES;
        match OpenEvents::new(process, plan) {
            Ok((opened, state)) => {
                resources = opened.resources;
                self.state.store(state as u32, Relaxed);
                add_single_writer(
                    if state == GroupState::Pages { &self.by_pages } else { &self.by_system_call },
                    1,
                );
            }
            Err(error) => self.refuse(error),
        }
        for (place, (page, descriptor, id)) in self.resources.iter().zip(resources) {
            place.page.store(page, Relaxed);
            place.descriptor.store(descriptor, Relaxed);
            place.id.store(id, Relaxed);
        }
        self.process.store(process, Relaxed);
        self.owner.store(thread, Release);
    }

    #[cold]
    fn refuse(&self, error: i32) {
        add_single_writer(&self.refused, 1);
        self.error.store(error, Relaxed);
        self.state.store(GroupState::Refused as u32, Relaxed);
    }

    /// Closes the events of a thread that has ended or makes no more hits. `is_over` is called
    /// after the owner was read.
    pub(super) fn close(&self, plan: &Plan, is_over: impl FnOnce() -> bool) {
        let CountSource::Kernel(process) = plan.source else { return };
        if self.owner.load(Relaxed) != 0
            && let Some(left) = self.take_if(is_over)
        {
            left.close_all(process.get());
        }
    }

    /// Takes the open events out. If several threads try, one of them gets the events.
    fn take_if(&self, is_over: impl FnOnce() -> bool) -> Option<OpenEvents> {
        let owner = self.owner.load(Acquire);
        if owner == 0 || !is_over() {
            return None;
        }
        let left = OpenEvents {
            process: self.process.load(Relaxed),
            resources: array::from_fn(|at| {
                let EventResources { page, descriptor, id } = &self.resources[at];
                (page.load(Relaxed), descriptor.load(Relaxed), id.load(Relaxed))
            }),
        };
        // If the owner has not changed, the values read above belong together.
        self.owner.compare_exchange(owner, 0, AcqRel, Relaxed).is_ok().then_some(left)
    }

    /// Returns the outcome for the threads that had this memory.
    pub(super) fn threads(&self) -> Threads {
        let time = |at: usize| self.times[at].load(Relaxed) + self.times_before[at].load(Relaxed);
        Threads {
            by_pages: self.by_pages.load(Relaxed),
            by_system_call: self.by_system_call.load(Relaxed),
            refused: self.refused.load(Relaxed),
            error: self.error.load(Relaxed),
            times: EventTimes { enabled: time(0), running: time(1) },
        }
    }
}

/// # Safety
/// This thread has mapped the page, in this process.
#[inline]
unsafe fn value(page: Page, event: PerfEvent) -> Option<u64> {
    // SAFETY: guaranteed by the caller.
    if event == PerfEvent::TaskClock { unsafe { page.time() } } else { unsafe { page.count() } }
}

impl OpenEvents {
    /// Opens the plan's events on this thread.
    fn new(process: u64, plan: &Plan) -> Result<(Self, GroupState), i32> {
        let mut opened = Self { process, resources: NO_RESOURCES };
        let mut is_readable = true;
        for (at, counted) in plan.counted.iter().enumerate().take(EVENTS) {
            let leader = (at != 0).then(|| Descriptor(opened.resources[0].1 - 1));
            let wanted = counted.event.wanted(counted.user_mode_only);
            let descriptor = Descriptor::open(wanted, leader).inspect_err(|_| opened.close_all(process))?;
            let id = descriptor.id().unwrap_or_default();
            opened.resources[at] = (0, descriptor.0 + 1, id);
            // The page keeps the event open. If the user may map no more pages, the descriptor
            // keeps it open.
            let Ok(page) = descriptor.map() else {
                is_readable = false;
                continue;
            };
            opened.resources[at].0 = page.0;
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
        // The remaining descriptors stay open under other numbers. The event and its id remain the
        // same.
        for (_, descriptor, _) in opened.resources.iter_mut().filter(|(_, descriptor, _)| *descriptor != 0) {
            *descriptor = Descriptor(*descriptor - 1).move_to_high_number().0 + 1;
        }
        Ok((opened, if is_readable { GroupState::Pages } else { GroupState::Descriptor }))
    }

    fn close(&mut self, at: usize) {
        let (_, descriptor, id) = &mut self.resources[at];
        if *descriptor != 0 {
            Descriptor(*descriptor - 1).close(*id);
            *descriptor = 0;
        }
    }

    /// Closes everything, in the process with this number.
    fn close_all(&self, process: u64) {
        // Siblings first.
        for (page, descriptor, id) in self.resources.iter().rev() {
            // A child does not inherit its parent's pages: other memory is mapped at these
            // addresses.
            if *page != 0 && self.process == process {
                Page(*page).unmap();
            }
            if *descriptor != 0 {
                Descriptor(*descriptor - 1).close(*id);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
/// Tests reading, giving back and forking, on pages that the tests map.
mod tests {
    use std::ffi::CStr;
    use std::{fs, ptr, thread};

    use perf_event_open_sys::bindings::perf_event_mmap_page as Layout;

    use super::*;
    use crate::consumers::perf::event::Counted;
    use crate::engine::os::perf::{ProcessNumber, process};

    const THREAD: u64 = 7;
    const PAGE: usize = 4096;
    const NAME: &CStr = c"page of an event";
    const MAY_COUNT_AND_TIME: u64 = 1 << 2 | 1 << 3;

    fn plan(process: ProcessNumber) -> Plan {
        plan_of([PerfEvent::Instructions, PerfEvent::TaskClock], process)
    }

    fn plan_of(events: [PerfEvent; 2], process: ProcessNumber) -> Plan {
        let counted = events.map(|event| Counted { event, user_mode_only: true });
        Plan { source: CountSource::Kernel(process), counted: counted.to_vec(), missing: Vec::new() }
    }

    /// Maps a page like the kernel's, of an event that is on no processor now.
    fn page() -> *mut Layout {
        let (rights, size) = (libc::PROT_READ | libc::PROT_WRITE, PAGE.try_into().unwrap());
        // SAFETY: maps a new memory file, which is zeroed, and all fields are numbers. The mapping
        // keeps the file.
        unsafe {
            let file = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, size), 0);
            let page = libc::mmap(ptr::null_mut(), PAGE, rights, libc::MAP_SHARED, file, 0);
            assert_ne!(page, libc::MAP_FAILED);
            libc::close(file);
            let page: *mut Layout = page.cast();
            (*page).__bindgen_anon_1.capabilities = MAY_COUNT_AND_TIME;
            page
        }
    }

    fn group(process: u64, pages: [*mut Layout; 2]) -> Group {
        let group = Group::default();
        for (resources, page) in group.resources.iter().zip(pages) {
            resources.page.store(page.expose_provenance(), Relaxed);
        }
        group.state.store(GroupState::Pages as u32, Relaxed);
        group.process.store(process, Relaxed);
        group.owner.store(THREAD, Relaxed);
        group
    }

    /// Looks for the page by its name: another test may map memory at the same address as soon as
    /// it is free.
    fn is_mapped(page: *mut Layout) -> bool {
        let (start, name) = (format!("{:x}-", page.addr()), NAME.to_str().unwrap());
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.starts_with(&start) && line.contains(name))
    }

    fn never() {
        panic!("it is open");
    }

    #[test]
    fn pages_are_read_and_given_back() {
        let process = process().unwrap();
        let (plan, pages) = (plan(process), [page(), page()]);
        let group = group(process.get(), pages);
        // SAFETY: these are this test's pages.
        unsafe {
            (*pages[0]).offset = 1_000;
            ((*pages[0]).time_enabled, (*pages[0]).time_running) = (100, 50);
            (*pages[1]).time_enabled = 5_000;
        }
        assert_eq!(group.read(THREAD, &plan, never), [1_000, 5_000, 0, 0, 0, 0, 0, 0, 0]);
        // SAFETY: as above.
        unsafe { (*pages[0]).offset = 1_003 };
        assert_eq!(group.read(THREAD, &plan, never)[..2], [1_003, 5_000]);
        assert_eq!(group.threads().times, EventTimes { enabled: 100, running: 50 });
        group.close(&plan, || false);
        assert!(pages.into_iter().all(is_mapped), "it is not over");
        group.close(&plan, || true);
        assert!(!pages.into_iter().any(is_mapped));
        group.close(&plan, || panic!("it is closed"));
    }

    /// The kernel withdraws the permission to read time in user space, as it does when the time
    /// stamps of processors turn out to differ.
    #[test]
    fn events_withdrawn_from_user_space_are_read_by_a_system_call() {
        let process = process().unwrap();
        // The kernel counts page faults, so no page has them.
        let plan = plan_of([PerfEvent::PageFaults, PerfEvent::TaskClock], process);
        let pages = [page(), page()];
        let group = group(process.get(), pages);
        let before = group.read(THREAD, &plan, never);
        assert_eq!((before[BREAKS], group.threads()), (0, Threads::default()));
        // SAFETY: this is this test's page.
        unsafe { (*pages[1]).__bindgen_anon_1.capabilities = 0 };
        let after = group.read(THREAD, &plan, never);
        assert_ne!(after[BREAKS], before[BREAKS], "what spans that says nothing");
        let Threads { by_pages, by_system_call, refused, .. } = group.threads();
        assert_eq!((by_pages, by_system_call + refused), (0, 1), "the report says so");
        let last = group.read(THREAD, &plan, never);
        if refused == 0 {
            assert!(last[BREAKS] == after[BREAKS] && last[1] > after[1] && last[0] >= after[0], "{last:?}");
        }
        assert_eq!(group.threads().refused, refused);
        group.close(&plan, || true);
    }

    #[test]
    fn a_child_leaves_its_parents_pages_alone() {
        let process = process().unwrap();
        let (plan, pages) = (plan(process), [page(), page()]);
        // The child has other memory at these addresses.
        let group = group(process.get() + 1, pages);
        let mut is_opened = false;
        let numbers = group.read(THREAD, &plan, || is_opened = true);
        assert!(is_opened && pages.into_iter().all(is_mapped));
        assert_ne!(numbers[BREAKS], 0, "it began anew");
        let Threads { by_pages, by_system_call, refused, .. } = group.threads();
        assert_eq!(by_pages + by_system_call + refused, 1);
        group.close(&plan, || true);
        assert!(pages.into_iter().all(is_mapped));
        // SAFETY: these are this test's pages.
        pages.into_iter().for_each(|page| _ = unsafe { libc::munmap(page.cast(), PAGE) });
    }

    #[test]
    fn one_of_several_threads_gives_back() {
        for _ in 0..1_000 {
            let group = group(1, [ptr::null_mut(); 2]);
            let taken: usize = thread::scope(|scope| {
                let takers = [(); 3].map(|()| scope.spawn(|| usize::from(group.take_if(|| true).is_some())));
                takers.map(|taker| taker.join().unwrap()).into_iter().sum()
            });
            assert_eq!(taken, 1);
        }
    }

    fn errno() -> i32 {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    }

    #[test]
    fn errno_is_preserved() {
        const OWN: i32 = 77;
        const NONE: i32 = i32::MAX - 1;
        // SAFETY: `errno` belongs to the thread.
        let set = || unsafe { *libc::__errno_location() = OWN };
        let process = process().unwrap();
        let plan = plan(process);
        let group = group(process.get(), [ptr::null_mut(); 2]);
        group.resources[0].descriptor.store(NONE, Relaxed);
        group.state.store(GroupState::Descriptor as u32, Relaxed);
        set();
        assert_eq!(group.read(THREAD, &plan, never)[BREAKS], 1, "there is nothing to be read");
        assert_eq!((errno(), group.threads().refused, group.threads().error), (OWN, 1, libc::EBADF));
        // Another thread's first hit closes the events that it finds, and so does a check for ended
        // threads. Then it opens its own, or fails to.
        group.read(THREAD + 1, &plan, || assert_eq!(Descriptor(NONE).id(), None));
        assert_eq!(errno(), OWN);
        group.close(&plan, || true);
    }
}
