//! The hook of a probe that was just discovered: it counts for one attachment. It lies beside the
//! definition, since the code that discovers probes may not use the heap. The control replaces it
//! by one of its own at its next operation.

// Safety: relies on callers, who pass memory that lives as long as the definition, and drop its
// contents once, when `limbo` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ProbeId;
use super::hook::Member;
use super::{Action, CounterAt, Hook, Subscription};
use probe_core::abi::Definition;

/// A hook with one member, and the subscription of that member.
pub(crate) struct InlineHook {
    hook: Hook,
    subscription: Arc<Subscription>,
}

impl InlineHook {
    /// Writes an inline hook to `at`, and publishes it as the definition's hook.
    ///
    /// # Safety
    /// The memory must live as long as the definition, and must hold no other inline hook.
    pub(crate) unsafe fn publish(
        at: *mut Self,
        definition: &Definition,
        counter: CounterAt,
        subscription: Arc<Subscription>,
    ) {
        let member = Member::new(Action::Count(counter), &subscription, false);
        // SAFETY: the memory has room for both, and they are not moved.
        unsafe {
            (&raw mut (*at).subscription).write(subscription);
            (&raw mut (*at).hook).write(Hook::of_one(ProbeId::UNKNOWN, member, None, ptr::null_mut()));
            definition.hook().store((&raw mut (*at).hook).cast(), Ordering::Release);
        }
    }

    /// Drops the subscription. The hook is plain memory then.
    ///
    /// # Safety
    /// The hook was published there, is no longer any definition's hook, and no thread reads it.
    pub(crate) unsafe fn drop_in_place(at: *mut Self) {
        // SAFETY: the caller's promise. Hook and member own nothing.
        unsafe { ptr::drop_in_place(&raw mut (*at).subscription) };
    }
}
