//! The hook of a probe that was discovered a moment ago: it counts for one attachment, and lies where the definition does,
//! since whoever discovers may not use the heap. The control replaces it by one of its own at its next operation.

// Safety: relies on callers, who hand in memory that lives as long as the definition, and drop what is there once, when
// `limbo` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Action, Hook, Member, Subscription, TallyAt};
use crate::abi::Definition;
use crate::registry::ProbeId;

/// A hook and its one member.
pub(crate) struct Early {
    hook: Hook,
    member: Member,
}

impl Early {
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
        // SAFETY: memory for both; the box is never dropped, as its owner is not.
        unsafe {
            let member = &raw mut (*at).member;
            member.write(Member::new(Action::Tally(tally), subscription));
            let members = Box::from_raw(ptr::slice_from_raw_parts_mut(member, 1));
            (&raw mut (*at).hook).write(Hook::new(ProbeId::UNKNOWN, members));
            definition.hook().store((&raw mut (*at).hook).cast(), Ordering::Release);
        }
    }

    /// Drops what it holds. The hook is plain memory then.
    ///
    /// # Safety
    /// It was published there, is no definition's hook any more, and no thread reads it.
    pub(crate) unsafe fn drop_in_place(at: *mut Self) {
        // SAFETY: the caller's promise. The hook's box stands for the member, and is forgotten.
        unsafe { ptr::drop_in_place(&raw mut (*at).member) };
    }
}
