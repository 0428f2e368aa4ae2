//! Probes inside the global allocator, and a consumer that opens text there: the lock of open
//! pages, under which memory is allocated, is not asked for again by the thread that holds it.
//! Each scenario is a process of its own: the allocator is the whole program's, and a failure is a
//! thread that waits for itself for ever.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::{fs, thread};

use probe_runtime::patch::{OpenText, TextPolicy};
use probe_runtime::{Attachment, Consumer, Event, point, select};
use probe_tests::pages::{Pages, RX};
use probe_tests::scenario;

/// The system's, with a probe. A thread may be told to stay in it for a while.
struct Probed;

#[global_allocator]
static ALLOCATOR: Probed = Probed;

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Probed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        point!("allocating");
        if STAYS.replace(false) {
            stay();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

thread_local! {
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// Opens text inside its hit.
struct Opens {
    text: Range<usize>,
    calls: AtomicU64,
}

impl Consumer for Opens {
    fn hit(&self, _event: &Event<'_>) {
        open(&self.text);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

fn open(text: &Range<usize>) {
    OpenText::new(text.clone()).unwrap().close().unwrap();
}

fn attach(text: &Range<usize>, policy: TextPolicy) -> Attachment<Opens> {
    let opens = Opens { text: text.clone(), calls: AtomicU64::new(0) };
    select("allocator_text::allocating").unwrap().text_policy(policy).attach(opens).unwrap()
}

/// The consumer is called for this thread's allocations, but for those under the lock.
fn assert_opens(opens: &Attachment<Opens>, text: &Range<usize>) {
    let calls = opens.calls.load(Ordering::Relaxed);
    for x in 0..100 {
        drop(black_box(Box::new(x)));
    }
    assert!(opens.calls.load(Ordering::Relaxed) >= calls + 100);
    let suppressed = opens.suppressed();
    for _ in 0..100 {
        open(text);
    }
    assert!(opens.suppressed() >= suppressed + 100, "opening text allocates");
    assert_eq!(opens.failure(), None);
}

#[test]
fn a_consumer_opens_text_where_text_is_opened() {
    scenario::pass("opens", &[]);
}

#[test]
fn a_thread_that_opens_text_is_waited_for_before_consumers_can_be_called() {
    scenario::pass("opens while another attaches first", &[]);
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match scenario::to_play().as_str() {
        "opens" => opens(),
        "opens while another attaches first" => opens_while_another_attaches_first(),
        asked => panic!("{asked}?"),
    }
}

fn opens() {
    let pages = Pages::new(&[RX]);
    let opens = attach(&pages.0, TextPolicy::Sealed);
    assert_opens(&opens, &pages.0);
}

static IS_INSIDE: AtomicBool = AtomicBool::new(false);
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
static ATTACHES: AtomicI32 = AtomicI32::new(0);

/// Until the other thread has attached, or waits.
fn stay() {
    IS_INSIDE.store(true, Ordering::SeqCst);
    while !IS_ATTACHED.load(Ordering::SeqCst) && !is_waiting(ATTACHES.load(Ordering::SeqCst)) {
        thread::yield_now();
    }
}

/// Whether this thread sleeps. It never does before it attaches.
fn is_waiting(thread: i32) -> bool {
    thread != 0
        && fs::read_to_string(format!("/proc/self/task/{thread}/stat")).is_ok_and(|it| it.contains(") S "))
}

/// Text that is written through the kernel needs no open pages: to attach, nobody would have to
/// wait for this thread.
fn opens_while_another_attaches_first() {
    let pages = Pages::new(&[RX]);
    // Set up everything that the first use allocates, before a thread stays.
    open(&pages.0);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !IS_INSIDE.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            // SAFETY: no arguments, no effect.
            ATTACHES.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            let opens = attach(&pages.0, TextPolicy::Alias);
            IS_ATTACHED.store(true, Ordering::SeqCst);
            opens
        });
        STAYS.set(true);
        open(&pages.0);
        assert!(!STAYS.get() && IS_INSIDE.load(Ordering::SeqCst), "opening text allocates");
        let opens = other.join().unwrap();
        assert_opens(&opens, &pages.0);
    });
}
