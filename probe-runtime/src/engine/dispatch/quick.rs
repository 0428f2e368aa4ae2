//! Quick functions: the part of a consumer that handles most hits. It changes few registers, so the
//! way in need not keep all of them in C code.
//!
//! ```text
//!  the way in, of a site that keeps vector registers
//!  1. mark = entered, read the hook
//!  2. keep few registers, call the quick function:
//!       mark = the consumer's; unless it is silent, handle the hit
//!       if that is not done: calls + 1, mark = entered
//!  3. done: sequence + 1, mark = idle
//!  4. else: read the hook again, keep everything, and call the hook's function
//! ```
//! Marks change as in any call of a consumer (`hit_state`). The hook's function does all that takes
//! code of other libraries: it maps memory, begins a generation, looks for a call.
//! `tests/tests/patching/quick` follows the machine code of each quick function, and finds no other
//! library's code and no wider register.

// Safety: relies on the way in, as `delivery` does, and on the makers of quick functions.
#![expect(unsafe_code, reason = "see above")]

use super::event::HitPlace;
use super::hook::Hook;
use super::{Event, Quick, Subscription, ThreadSlot};
use probe_core::abi::{Definition, Value};

/// Handles most hits quickly.
pub(crate) trait Quicker: Send + Sync + 'static {
    /// Handles the hit, or changes nothing and returns `false`. It must not panic.
    fn hit_quickly(&self, event: &Event<'_>) -> bool;
}

/// Creates a consumer's quick function.
///
/// # Safety
/// The quicker must be alive while the consumer whose subscription gets this may be called. Its
/// method must call no code of other libraries.
#[cfg_attr(
    not(any(feature = "latency", feature = "call-tree", feature = "profiler")),
    expect(dead_code, reason = "no consumer has one")
)]
pub(crate) unsafe fn quick<Q: Quicker>(quicker: &Q) -> Quick {
    Quick { run: run::<Q> as *const (), quicker: std::ptr::from_ref(quicker).cast() }
}

/// As a function that a hook names, but returns whether it has handled the hit.
unsafe extern "C" fn run<Q: Quicker>(
    definition: &'static Definition,
    frame: *const Value<'static>,
    _: usize,
    subscription: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) -> bool {
    // SAFETY: as in `delivery::deliver`.
    let (slot, hook, subscription) = unsafe { (&*slot, &*hook, &*subscription) };
    slot.hit_state().begin_call(subscription.mark());
    let is_done = !subscription.is_silent() && {
        // SAFETY: the maker of the quick function has promised that it lives as long as the
        // consumer, which was not closed after the mark.
        let quicker = unsafe { &*subscription.quicker().cast::<Q>() };
        let at = HitPlace { frame, slot, generation: subscription.generation() };
        quicker.hit_quickly(&Event::new(definition, hook.probe(), at))
    };
    if !is_done {
        slot.hit_state().end_call();
    }
    is_done
}
