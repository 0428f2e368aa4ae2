//! The offsets at which a patched backend's way in reads this room's types, with the assertions
//! that its assembly relies on, and the value that it finds in place of a hook.

// Safety: relies on the way in, as `delivery` does.
#![expect(unsafe_code, reason = "see above")]

use std::mem::offset_of;

use super::delivery::Deliver;
use super::hook::Hook;
use super::{Subscription, ThreadSlot, dispatch};
use probe_core::abi::{Definition, Value};

/// Offset of the probe's number in a hook.
pub(crate) const PROBE: usize = offset_of!(Hook, probe);
/// Offset of the quick function's address in a subscription.
pub(crate) const QUICK: usize = offset_of!(Subscription, quick);
/// Offset of the thread's number, in bytes from the start of a slot.
pub(crate) const THREAD: usize = offset_of!(ThreadSlot, thread);
/// Offsets of two counters that no report reads, for calibrations.
pub(crate) const SCRATCH: [usize; 2] = [super::thread_slot::SCRATCH, offset_of!(ThreadSlot, reserved)];

// The numbers in the assembly. The model checker's types are larger.
#[cfg(not(all(test, loom)))]
const _: () = {
    use super::hit_state::HitState;
    use super::hook::Member;
    assert!(offset_of!(ThreadSlot, hit_state) == 0);
    assert!(offset_of!(HitState, mark) == 0);
    assert!(offset_of!(HitState, sequence) == 8);
    assert!(offset_of!(HitState, calls) == 16);
    assert!(offset_of!(Hook, dispatch_word) == 0);
    assert!(offset_of!(Hook, deliver) == 8 && offset_of!(Unmarked, deliver) == 8);
    assert!(offset_of!(Hook, sole) == 16 && offset_of!(Unmarked, sole) == 16);
    assert!(offset_of!(Member, subscription) == 0);
    assert!(size_of::<Hook>() == 64);
    assert!(offset_of!(Subscription, generation) == 0);
    assert!(offset_of!(Subscription, blocked) == 4);
};

/// Takes the place of a hook in hits whose thread's slot is not marked.
#[repr(C)]
pub(crate) struct Unmarked {
    dispatch_word: usize,
    deliver: Deliver,
    sole: usize,
}

/// The value of this type for sites of Rust.
pub(crate) static UNMARKED: Unmarked = Unmarked { dispatch_word: 0, deliver: unmarked, sole: 0 };

/// The same for sites of C, whose values may be asked for.
#[cfg(probe_values)]
pub(crate) static UNMARKED_OF_C: Unmarked = Unmarked {
    dispatch_word: 0,
    deliver: crate::engine::entry::backend::registers::capture_unmarked,
    sole: 0,
};
#[cfg(not(probe_values))]
pub(crate) use UNMARKED as UNMARKED_OF_C;

unsafe extern "C" fn unmarked(
    definition: &Definition,
    frame: *const Value<'static>,
    _: usize,
    _: *const Subscription,
    _: *const ThreadSlot,
    _: *const Hook,
) {
    dispatch(definition, frame);
}
