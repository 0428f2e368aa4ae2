//! The functions that a hook names for hits that do more than count once.
//!
//! | members | function |
//! |---|---|
//! | one, with a consumer to call | [`deliver`], instantiated for that consumer's type, so that its `hit` is inlined |
//! | others | [`deliver_each`], member by member, through `dyn Listener`; once for all members if all only count |
//! | unknown, since the thread is new or inside of a hit | [`dispatch`](super::dispatch), behind `layout::UNMARKED` |
//!
//! The way in of the x86-64 backend has marked the slot, and clears the mark when the function
//! returns. The parameters are in registers: the definition, the frame, an unused word, the
//! subscription of a hook with one member, the slot, the hook.
//!
//! Cost: [`deliver`] adds ten instructions to the consumer's own.

// Safety: relies on the way in, which passes the hook's own data, and on `control`, which frees a
// hook and its data only when `reclaimer` gives it out, and drops a consumer only when no thread is
// marked as in it. A hit's definition lies in the object of its site, or in one that this object
// was linked to. The hit returns into the site's code, so a program that unloads the object before
// has unloaded code that a thread executes. A discovered definition lies in memory that is never
// unmapped, and the mark keeps its place from being given to another.
#![expect(unsafe_code, reason = "see above")]

#[cfg(probe_values)]
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::event::HitPlace;
use super::hook::{Action, Hook};
#[cfg(probe_values)]
use super::site_values::GivenValues;
use super::{Event, Listener, Subscription, ThreadSlot};
#[cfg(probe_values)]
use crate::engine::entry::backend::registers::{Captured, after_site};
use probe_core::abi::{Definition, Value};

/// The registers at a hit's site, for members that read values from them.
#[derive(Clone, Copy)]
pub(super) enum Registers {
    /// No member reads any.
    Unread,
    /// Those that the way in has stored, or all. A member before may have changed what the hit
    /// returns to, which tells the site.
    #[cfg(probe_values)]
    At { site: usize, captured: *const Captured },
}

#[cfg(probe_values)]
impl Registers {
    /// # Safety
    /// As for [`StoredRegister::read`](crate::engine::entry::backend::registers::StoredRegister).
    #[inline(always)]
    unsafe fn at(frame: *const Value<'_>, captured: *const Captured) -> Self {
        // SAFETY: the caller's promise.
        Self::At { site: unsafe { after_site(frame) }, captured }
    }
}

/// Handles all members of a hook, with the registers at the site.
///
/// # Safety
/// As for [`deliver_each`]; only `capture` may call it.
#[cfg(probe_values)]
pub(crate) unsafe extern "C" fn deliver_captured(
    definition: &Definition,
    frame: *const Value<'static>,
    captured: *const Captured,
    _: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) {
    // SAFETY: as in `deliver_each`; `capture` has passed the registers of this hit.
    let (slot, hook, registers) = unsafe { (&*slot, &*hook, Registers::at(frame, captured)) };
    deliver_to_members(definition, frame, registers, slot, hook, false);
}

/// The long way of a hit, with the registers at the site.
///
/// # Safety
/// Only `capture_unmarked` may call it.
#[cfg(probe_values)]
pub(crate) unsafe extern "C" fn dispatch_captured(
    definition: &Definition,
    frame: *const Value<'static>,
    captured: *const Captured,
) {
    // SAFETY: the way in and `capture_unmarked` have passed both, for this hit.
    dispatch_with(definition, frame, unsafe { Registers::at(frame, captured) });
}

/// A function that a [`Hook`] names.
pub(super) type Deliver = unsafe extern "C" fn(
    &Definition,
    *const Value<'static>,
    usize,
    *const Subscription,
    *const ThreadSlot,
    *const Hook,
);

/// Calls the one consumer, which has type `L`.
///
/// # Safety
/// Only the way in may call it, as the module says, with the calling thread's slot and with a
/// subscription of a consumer of type `L`.
pub(super) unsafe extern "C" fn deliver<L: Listener>(
    definition: &Definition,
    frame: *const Value<'static>,
    _: usize,
    subscription: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) {
    // SAFETY: the caller's promise.
    unsafe { deliver_to_sole::<L>(definition, frame, Registers::Unread, subscription, slot, hook) };
}

/// The same, with the registers at the site.
///
/// # Safety
/// As for [`deliver`]; only `capture_for` may call it.
#[cfg(probe_values)]
pub(crate) unsafe extern "C" fn deliver_captured_to<L: Listener>(
    definition: &Definition,
    frame: *const Value<'static>,
    captured: *const Captured,
    subscription: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let registers = Registers::at(frame, captured);
        deliver_to_sole::<L>(definition, frame, registers, subscription, slot, hook);
    }
}

/// The same, for values that are all in registers that the way in has stored, or on the stack.
///
/// # Safety
/// As for [`deliver`].
#[cfg(probe_values)]
pub(super) unsafe extern "C" fn deliver_of_frame<L: Listener>(
    definition: &Definition,
    frame: *const Value<'static>,
    _: usize,
    subscription: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let registers = Registers::at(frame, std::ptr::null());
        deliver_to_sole::<L>(definition, frame, registers, subscription, slot, hook);
    }
}

/// # Safety
/// As for [`deliver`].
#[inline(always)]
unsafe fn deliver_to_sole<L: Listener>(
    definition: &Definition,
    frame: *const Value<'static>,
    registers: Registers,
    subscription: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) {
    // SAFETY: the hook and the subscription that it names are not freed while the slot is marked;
    // slots are never freed. The consumer has type `L`: the subscription that named this function
    // was made for it.
    let (slot, hook, subscription) = unsafe { (&*slot, &*hook, &*subscription) };
    slot.hit_state().begin_call(subscription.mark());
    if subscription.is_disabled() {
        return;
    }
    // SAFETY: see above; the consumer is alive, since it was not closed after the mark.
    let consumer = unsafe { subscription.consumer_as::<L>() };
    // SAFETY: the way in passes the slot that it has marked, which is the calling thread's.
    let errno = unsafe { slot.errno() };
    let at = HitPlace::new(frame, slot, subscription.generation());
    call_with_values(subscription, definition, hook, at, registers, |event| {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| consumer.hit(event))) {
            subscription.fail(definition, payload);
        }
    });
    errno.restore();
}

/// Handles all members of a hook, one after the other.
///
/// # Safety
/// Only the way in may call it, as the module says, with the calling thread's slot.
pub(super) unsafe extern "C" fn deliver_each(
    definition: &Definition,
    frame: *const Value<'static>,
    _: usize,
    _: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) {
    // SAFETY: the hook is not freed while the slot is marked; slots never are.
    let (slot, hook) = unsafe { (&*slot, &*hook) };
    deliver_to_members(definition, frame, Registers::Unread, slot, hook, false);
}

/// Handles all members of a hook, for a hit of the calling thread, which owns `slot`. If
/// `is_suppressing`, the hit comes from inside a consumer, and counts its calls as suppressed
/// instead.
#[inline(always)]
pub(super) fn deliver_to_members(
    definition: &Definition,
    frame: *const Value<'_>,
    registers: Registers,
    slot: &'static ThreadSlot,
    hook: &Hook,
    is_suppressing: bool,
) {
    if let Some(at) = hook.joint_counter() {
        slot.increment(at);
        return;
    }
    let mut has_called = false;
    for member in hook.members() {
        // A subscription that is disabled by now was taken away while this thread was in the
        // previous consumer, so the hit must not count for it.
        if has_called && member.subscription().is_disabled() {
            continue;
        }
        match member.action() {
            Action::Count(at) => slot.increment(at),
            Action::Wrap => (),
            Action::Call { suppressed, .. } if is_suppressing => slot.increment(suppressed),
            Action::Call { .. } => {
                call_consumer(member.subscription(), definition, hook, frame, registers, slot);
                slot.hit_state().end_call();
                has_called = true;
            }
        }
    }
}

/// The long way of a hit: for a new thread, inside of another hit, and for backends whose way in
/// sets no mark. `frame` points to the hit's values, or to the frame of the way in, which leads to
/// the values and to the stack pointer at the call of the stub. It is null if neither is known.
pub(crate) fn dispatch(definition: &Definition, frame: *const Value<'_>) {
    dispatch_with(definition, frame, Registers::Unread);
}

#[inline(always)]
fn dispatch_with(definition: &Definition, frame: *const Value<'_>, registers: Registers) {
    let Some(slot) = ThreadSlot::current() else { return };
    let outer = slot.enter();
    let hook = definition.hook().load(Ordering::Acquire).cast::<Hook>();
    if let Some(hook) = Hook::read(hook, slot) {
        deliver_to_members(definition, frame, registers, slot, hook, outer.is_suppressing());
    }
    slot.leave(outer);
}

/// Calls a consumer. From here on the thread's mark says so.
fn call_consumer(
    subscription: &Subscription,
    definition: &Definition,
    hook: &Hook,
    frame: *const Value<'_>,
    registers: Registers,
    slot: &'static ThreadSlot,
) {
    slot.hit_state().begin_call(subscription.mark());
    // SAFETY: `deliver_to_members` hands on the calling thread's slot.
    let errno = unsafe { slot.errno() };
    let at = HitPlace::new(frame.cast(), slot, subscription.generation());
    call_with_values(subscription, definition, hook, at, registers, |event| subscription.call(event));
    errno.restore();
}

#[cfg(not(probe_values))]
#[inline(always)]
fn call_with_values(
    _: &Subscription,
    definition: &Definition,
    hook: &Hook,
    at: HitPlace,
    _: Registers,
    call: impl FnOnce(&Event<'_>),
) {
    call(&Event::new(definition, hook.probe(), at));
}

/// Calls a consumer, with the values that its attachment reads if there are some.
#[cfg(probe_values)]
#[inline(always)]
fn call_with_values(
    subscription: &Subscription,
    definition: &Definition,
    hook: &Hook,
    at: HitPlace,
    registers: Registers,
    call: impl FnOnce(&Event<'_>),
) {
    match registers {
        Registers::Unread => call(&Event::new(definition, hook.probe(), at)),
        Registers::At { site, captured } => {
            read_values(subscription, definition, hook, at, (site, captured), call);
        }
    }
}

/// Reads the values, and calls the consumer. The subscription may have lost its consumer, whose
/// values stay. Where nothing is optimised, other hits do without the stack that this takes.
#[cfg(probe_values)]
#[inline]
fn read_values(
    subscription: &Subscription,
    definition: &Definition,
    hook: &Hook,
    mut at: HitPlace,
    (site, captured): (usize, *const Captured),
    call: impl FnOnce(&Event<'_>),
) {
    let mut given = MaybeUninit::uninit();
    if let Some(fields) = subscription.site_fields(hook.probe()) {
        // SAFETY: the way in and `capture` have passed both, for this hit.
        let given = unsafe { GivenValues::read(&mut given, fields, site, at.frame, captured) };
        at.given = std::ptr::from_ref(given).cast();
    }
    call(&Event::new(definition, hook.probe(), at));
}
