//! The hook of a probe that was discovered a moment ago: it counts for one attachment, and lies
//! where the definition does, since whoever discovers may not use the heap. The control replaces it
//! by one of its own at its next operation.

// Safety: relies on callers, who hand in memory that lives as long as the definition, and drop what
// is there once, when `limbo` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ProbeId;
use super::hook::Member;
use super::{Action, Hook, Subscription, TallyAt};
use crate::abi::Definition;

/// A hook, and whose its one member is.
pub(crate) struct InlineHook {
    hook: Hook,
    subscription: Arc<Subscription>,
}

impl InlineHook {
    /// Writes one, and publishes it as the definition's hook.
    ///
    /// # Safety
    /// The memory lives as long as the definition does, and holds no other.
    pub(crate) unsafe fn publish(
        at: *mut Self,
        definition: &Definition,
        tally: TallyAt,
        subscription: Arc<Subscription>,
    ) {
        let member = Member::new(Action::Tally(tally), &subscription, false);
        // SAFETY: memory for both, which stay where they are.
        unsafe {
            (&raw mut (*at).subscription).write(subscription);
            (&raw mut (*at).hook).write(Hook::of_one(ProbeId::UNKNOWN, member, None, ptr::null_mut()));
            definition.hook().store((&raw mut (*at).hook).cast(), Ordering::Release);
        }
    }

    /// Drops what it holds. The hook is plain memory then.
    ///
    /// # Safety
    /// It was published there, is no definition's hook any more, and no thread reads it.
    pub(crate) unsafe fn drop_in_place(at: *mut Self) {
        // SAFETY: the caller's promise. Hook and member own nothing.
        unsafe { ptr::drop_in_place(&raw mut (*at).subscription) };
    }
}
