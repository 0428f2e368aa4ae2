//! The way into dispatch of a flag and a branch: for all targets that are not patched, and for
//! tests with `--cfg probe_portable`.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use probe_core::abi::{Definition, Value};

use crate::engine::dispatch::{self, ThreadSlot};

type Entry = extern "C" fn(&'static Definition, *const Value<'_>);

std::thread_local! {
    static SLOT: AtomicPtr<ThreadSlot> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// Returns the slot of this thread; null before its first hit.
pub(crate) fn slot() -> *mut ThreadSlot {
    SLOT.with(|own| own.load(Ordering::Relaxed))
}

pub(crate) fn set_slot(slot: *mut ThreadSlot) {
    SLOT.with(|own| own.store(slot, Ordering::Relaxed));
}

/// Sets the slot of this thread if it has none and returns null; otherwise returns the slot that it
/// has. Atomic: a signal handler's hit comes before it, or finds the slot.
pub(crate) fn claim_slot(slot: *mut ThreadSlot) -> *mut ThreadSlot {
    SLOT.with(|own| {
        own.compare_exchange(ptr::null_mut(), slot, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_else(|it| it)
    })
}

/// The size of a thread's slot, in bytes: few programs have many probes and many threads here.
#[cfg(not(miri))]
pub(crate) const SLOT_SIZE: usize = 1 << 20;
/// Miri looks at all of a slot whenever a reference to it is passed.
#[cfg(miri)]
pub(crate) const SLOT_SIZE: usize = 8 << 10;

/// Whether hits bring their stack pointer.
pub(crate) const HAS_STACK_POINTER: bool = false;

/// Returns the address of the values of a hit, which the site has passed.
///
/// # Safety
/// None.
#[expect(unsafe_code, reason = "the same as where the address has to be read")]
pub(crate) unsafe fn values(values: *const Value<'_>, _count: usize) -> *const Value<'_> {
    values
}

/// A static, since a function may have several addresses, for example under Miri.
static ENTRY: Entry = dispatch;

/// Returns the `entry` of definitions that this runtime owns.
pub(crate) fn entry(_definition: &Definition) -> *mut () {
    (ENTRY as *const ()).cast_mut()
}

extern "C" fn dispatch(definition: &'static Definition, values: *const Value<'_>) {
    dispatch::dispatch(definition, values);
}

/// Orders the slot's mark before the read of the hook; pairs with `os::heavy_barrier`.
pub(crate) fn light_barrier() {
    fence(Ordering::SeqCst);
}

/// Adds one, atomically: a signal handler may run in between.
pub(crate) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A function that is called to measure its hits; it has definitions, but no sites.
pub(crate) mod calibration {
    use std::ptr;

    use probe_core::abi::Definition;

    pub(crate) static CALL: [Definition; 2] = Definition::entry_and_exit("rehearsed", "", "", 0, 0);

    /// Delivers an entry and an exit, as a call of the function would if its sites were active.
    pub(crate) fn call() {
        CALL.iter().for_each(|definition| crate::engine::dispatch::dispatch(definition, ptr::null()));
    }

    /// The same as `call`: this backend has no counting blocks.
    pub(crate) fn count_in_place() {
        call();
    }
}
