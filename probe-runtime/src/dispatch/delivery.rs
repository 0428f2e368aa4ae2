//! What a hit does whose probe has more to do than to count once: the function that its hook names.
//!
//! | members | function |
//! |---|---|
//! | one, whose consumer is called | [`deliver`], made for that consumer's type, so that its `hit` is part of it |
//! | others | [`each`], member by member, through `dyn Listener`; once for all where all only count |
//! | none was looked at: the thread is new, or inside of a hit | [`dispatch`](super::dispatch), behind [`UNMARKED`] |
//!
//! The way in of the x86-64 backend has marked the slot, and clears the mark when the function
//! returns. Its parameters are in registers: the definition, the frame, nothing, whose consumer is
//! called if it is one alone, the slot, the hook.
//! Cost: [`deliver`] adds ten instructions to the consumer's own.

// Safety: relies on the way in, which hands over what the hook names, and on `control`, which frees
// a hook, and what it names, only when `limbo` gives it out, and drops a consumer only when no
// thread is marked as in it.
#![expect(unsafe_code, reason = "see above")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::event::Place;
use super::hook::{Action, Hook};
use super::{Event, Listener, Slot, Subscription};
use crate::abi::{Definition, Value};

/// What [`Hook`] names.
pub(super) type Deliver = unsafe extern "C" fn(
    &'static Definition,
    *const Value<'static>,
    usize,
    *const Subscription,
    *const Slot,
    *const Hook,
);

/// Tells one consumer, of this type.
///
/// # Safety
/// As the module says: the way in calls it, for a subscription of a consumer of this type.
pub(super) unsafe extern "C" fn deliver<L: Listener>(
    definition: &'static Definition,
    frame: *const Value<'static>,
    _: usize,
    subscription: *const Subscription,
    slot: *const Slot,
    hook: *const Hook,
) {
    // SAFETY: the hook is not freed while the slot is marked, nor is the subscription that it
    // names; slots never are. The consumer is of this type, as the subscription that named this
    // function was made for it.
    let (slot, hook, subscription) = unsafe { (&*slot, &*hook, &*subscription) };
    slot.presence().begin_call(subscription.mark());
    if subscription.is_silent() {
        return;
    }
    // SAFETY: see above; and it is there, as it was not closed after the mark.
    let consumer = unsafe { subscription.consumer_as::<L>() };
    let errno = slot.errno();
    let at = Place { frame, slot, generation: subscription.generation() };
    let event = Event::new(definition, hook.probe(), at);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| consumer.hit(&event))) {
        subscription.fail(definition, payload);
    }
    errno.restore();
}

/// Whatever there is to do, one after the other.
///
/// # Safety
/// As the module says: the way in calls it.
pub(super) unsafe extern "C" fn each(
    definition: &'static Definition,
    frame: *const Value<'static>,
    _: usize,
    _: *const Subscription,
    slot: *const Slot,
    hook: *const Hook,
) {
    // SAFETY: the hook is not freed while the slot is marked; slots never are.
    let (slot, hook) = unsafe { (&*slot, &*hook) };
    tell(definition, frame, slot, hook, false);
}

/// Tells all members of a hook. Where a hit comes from inside a consumer, calls are counted as
/// suppressed.
#[inline(always)]
pub(super) fn tell(
    definition: &'static Definition,
    frame: *const Value<'_>,
    slot: &'static Slot,
    hook: &Hook,
    is_suppressing: bool,
) {
    if let Some(at) = hook.joint_tally() {
        slot.tally(at);
        return;
    }
    let mut has_called = false;
    for member in hook.members() {
        // Who is silent then was taken away while this thread was in the consumer before.
        if has_called && member.subscription().is_silent() {
            continue;
        }
        match member.action() {
            Action::Tally(at) => slot.tally(at),
            Action::Wrap => (),
            Action::Call { suppressed, .. } if is_suppressing => slot.tally(suppressed),
            Action::Call { .. } => {
                call(member.subscription(), definition, hook, frame, slot);
                slot.presence().end_call();
                has_called = true;
            }
        }
    }
}

/// What stands for the hook of a hit whose thread's slot is not marked.
#[cfg(probe_backend = "x86_64")]
#[repr(C)]
pub(crate) struct Unmarked {
    sole_tally: usize,
    deliver: Deliver,
    sole: usize,
}

#[cfg(probe_backend = "x86_64")]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Unmarked, deliver) == offset_of!(Hook, deliver));
    assert!(offset_of!(Unmarked, sole) == offset_of!(Hook, sole));
};

/// The one that there is.
#[cfg(probe_backend = "x86_64")]
pub(crate) static UNMARKED: Unmarked = Unmarked { sole_tally: 0, deliver: unmarked, sole: 0 };

#[cfg(probe_backend = "x86_64")]
unsafe extern "C" fn unmarked(
    definition: &'static Definition,
    frame: *const Value<'static>,
    _: usize,
    _: *const Subscription,
    _: *const Slot,
    _: *const Hook,
) {
    super::dispatch(definition, frame);
}

/// Calls a consumer; its thread's mark says so from here on.
fn call(
    subscription: &Subscription,
    definition: &'static Definition,
    hook: &Hook,
    frame: *const Value<'_>,
    slot: &'static Slot,
) {
    slot.presence().begin_call(subscription.mark());
    let errno = slot.errno();
    let at = Place { frame: frame.cast(), slot, generation: subscription.generation() };
    subscription.call(&Event::new(definition, hook.probe(), at));
    errno.restore();
}
