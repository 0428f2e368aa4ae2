//! Tests reading, giving back and forking, on pages that the tests map.

use std::ffi::CStr;
use std::{fs, ptr, thread};

use perf_event_open_sys::bindings::perf_event_mmap_page as Layout;

use super::*;
use crate::consumers::perf::plan::Counted;
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
    for (kept, page) in group.kept.iter().zip(pages) {
        kept.page.store(page.expose_provenance(), Relaxed);
    }
    group.state.store(GroupState::Pages as u32, Relaxed);
    group.process.store(process, Relaxed);
    group.owner.store(THREAD, Relaxed);
    group
}

/// Looks for the page by its name: another test may map memory at the same address as soon as it is
/// free.
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

/// The kernel withdraws the permission to read time in user space, as it does when the time stamps
/// of processors turn out to differ.
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
    group.kept[0].descriptor.store(NONE, Relaxed);
    group.state.store(GroupState::Descriptor as u32, Relaxed);
    set();
    assert_eq!(group.read(THREAD, &plan, never)[BREAKS], 1, "there is nothing to be read");
    assert_eq!((errno(), group.threads().refused, group.threads().error), (OWN, 1, libc::EBADF));
    // Another thread's first hit closes the events that it finds, and so does a check for ended
    // threads. Then it opens its own, or fails to.
    group.read(THREAD + 1, &plan, || assert_eq!(Descriptor::from_number(NONE).id(), None));
    assert_eq!(errno(), OWN);
    group.close(&plan, || true);
}
