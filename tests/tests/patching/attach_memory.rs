//! Detaching takes no memory for each probe: as many allocations, and bytes, for 200 probes as for
//! two. A process of its own: the allocator is the whole program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Consumer, Count, Event, probe, select};

/// The system's allocator, which counts the requests of this thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ASKED: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: forwards to the system's allocator; `realloc` is the default, which uses these functions.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (allocations, bytes) = ASKED.get();
        ASKED.set((allocations + 1, bytes + layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

macro_rules! functions {
    ($($module:ident)*) => {
        $(mod $module { functions!(@ f0 f1 f2 f3 f4 f5 f6 f7 f8 f9); })*
        fn call_all() {
            $($module::call_all();)*
        }
    };
    (@ $($name:ident)*) => {
        $(#[super::probe]
        #[inline(never)]
        fn $name() {})*
        pub fn call_all() {
            $($name();)*
        }
    };
}

functions!(m0 m1 m2 m3 m4 m5 m6 m7 m8 m9);

/// Returns the memory that dropping an attachment to these probes allocates.
fn detaching(selector: &str, probes: usize, consumer: impl Consumer) -> (u64, usize) {
    let set = select(selector).unwrap().text_policy(TextPolicy::Open);
    assert_eq!(set.len(), probes);
    let attached = set.attach(consumer).unwrap();
    call_all();
    let before = ASKED.get();
    drop(attached);
    let after = ASKED.get();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn detaching_takes_no_memory_for_each_probe() {
    let nothing = || |_: &Event<'_>| ();
    // The memory that the first operation allocates stays.
    detaching("patching::attach_memory::**", 200, Count::new());
    let few = detaching("patching::attach_memory::m3::f4", 2, Count::new());
    assert_eq!(detaching("patching::attach_memory::**", 200, Count::new()), few);
    let few = detaching("patching::attach_memory::m3::f4", 2, nothing());
    assert_eq!(detaching("patching::attach_memory::**", 200, nothing()), few);
}
