//! A flag and a branch per site: for all other targets, and for tests with `--cfg probe_portable`.

// Safety: relies on `entry` of a hooked definition being this backend's dispatch function.
#![cfg_attr(probe_backend = "portable", expect(unsafe_code, reason = "see above"))]

#[cfg(probe_backend = "portable")]
pub mod site;

#[cfg(feature = "profiler")]
pub(crate) mod rehearsal;

#[cfg(probe_backend = "portable")]
use core::sync::atomic::Ordering;

#[cfg(any(probe_backend = "portable", feature = "std"))]
use crate::abi::{Definition, Value};

#[cfg(any(probe_backend = "portable", feature = "std"))]
type Entry = extern "C" fn(&'static Definition, *const Value<'_>);

/// Returns whether the probe is active; the first step of each site.
#[cfg(probe_backend = "portable")]
#[inline(always)]
pub fn is_active(definition: &'static Definition) -> bool {
    #[cfg(all(feature = "std", probe_definitions = "seen"))]
    crate::registry::see(definition);
    definition.is_hooked()
}

/// The values of a hit in which a field panicked, as many as a probe may have.
#[cfg(probe_backend = "portable")]
pub const FAILED: &[Value<'static>; 32] = &[Value::FAILED; 32];

/// Delivers a hit of an active site.
#[cfg(probe_backend = "portable")]
#[cold]
pub fn hit(definition: &'static Definition, values: &[Value<'_>]) {
    let entry = definition.entry().load(Ordering::Acquire);
    if !entry.is_null() {
        // SAFETY: for a definition with a site, `control::members::claim` alone stores there, and
        // it stores `backend::entry`: a function of this type, in each runtime of this process
        // whose definitions have this backend's layout.
        let entry = unsafe { core::mem::transmute::<*mut (), Entry>(entry) };
        entry(definition, values.as_ptr());
    }
}

#[cfg(feature = "std")]
mod thread {
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

    use crate::abi::{Definition, Value};
    use crate::dispatch::{self, ThreadSlot};

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

    /// Sets the slot of this thread if it has none and returns null; otherwise returns the slot
    /// that it has. Atomic: a signal handler's hit comes before it, or finds the slot.
    pub(crate) fn claim_slot(slot: *mut ThreadSlot) -> *mut ThreadSlot {
        SLOT.with(|own| {
            own.compare_exchange(ptr::null_mut(), slot, Ordering::Relaxed, Ordering::Relaxed)
                .unwrap_or_else(|it| it)
        })
    }

    /// A static, since a function may have several addresses, for example under Miri.
    static ENTRY: super::Entry = dispatch;

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
    pub(crate) fn bump(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(feature = "std")]
pub(crate) use thread::{bump, claim_slot, entry, light_barrier, set_slot, slot};
