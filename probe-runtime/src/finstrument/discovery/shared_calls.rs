//! Calls that two functions share. Compilers make such calls of two inlined functions with like
//! ends (crossjumping).
//!
//! The function that reached such a call first is its *owner*. The other function is known by its
//! own address, and the hook delivers its hits. After the first hit of the other function, the call
//! is no longer a site. It becomes a real call permanently. If it lies across two words, it stays
//! active instead, since a latent call would silence both functions. Before that, while the call is
//! latent, no hook sees which function passes. A call whose functions were found
//! [`ahead`](super::ahead) is a real call from the beginning.
//!
//! A function that is first seen there while its probe is active has no hook of its own yet. The
//! next operation gives it one. Until then its hits count for its *sibling*, a call site of the
//! same function in the same object.

// Safety: relies on the hook being in the owner's object, which stays mapped with all that is in
// it.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use super::call::Call;
use super::call_site::{Discovery, State};
use super::chunk::ChunkPlace;
use super::first_hit;
use super::outcome::Reason;
use super::provider::{self, Exclusive};
use super::table::published;
use crate::engine::dispatch::ReadGuard;
use crate::engine::registry::provider::CallSite;
use crate::engine::sites::word::WordOptions;
use crate::engine::sites::{Instruction, SITE_LEN, TextPolicy};
use probe_core::abi::Definition;

/// Notes that another function came by this call.
pub(super) fn mark_shared(owner: &'static Discovery) {
    if owner.become_shared() {
        owner.keep_unpatched(Reason::Shared);
        provider::note_pending(owner);
    }
}

/// Finds another call site of the same function, for a discovery that was made at its owner's call.
/// It looks at all discoveries once.
pub(super) fn find_sibling(discovery: &'static Discovery, owner: &'static Discovery) {
    let Some(object) = owner.object() else { return };
    let is_sibling = |it: &&Discovery| it.object() == Some(object) && it.hit() == discovery.hit();
    if let Some(sibling) = published().map(ChunkPlace::discovery).find(is_sibling) {
        discovery.sibling.store(ptr::from_ref(sibling).cast_mut(), Ordering::Release);
    }
}

/// Returns the definition of the sibling, if a consumer listens there.
pub(super) fn sibling_definition<'a>(
    inside: &'a ReadGuard,
    discovery: &'static Discovery,
    owner: &'static Discovery,
) -> Option<&'a Definition> {
    // SAFETY: a discovery, whose memory is never given back.
    let sibling: &'static Discovery = unsafe { discovery.sibling.load(Ordering::Acquire).as_ref() }?;
    // Its place may have been reused for another discovery.
    let is_sibling =
        sibling.object().is_some() && sibling.object() == owner.object() && sibling.hit() == discovery.hit();
    (is_sibling && is_listened_to(sibling)).then(|| sibling.definition_inside(inside))?
}

/// Returns whether a consumer listens to a call in the object that the hook returns to.
pub(super) fn is_listened_to(discovery: &'static Discovery) -> bool {
    if !discovery.is_site() {
        return discovery.is_enabled();
    }
    discovery.site().is_some_and(|site| {
        // SAFETY: in the object where the hook returns to.
        let bytes = unsafe { ptr::read_volatile(site.addr.0 as *const [u8; SITE_LEN]) };
        Instruction::from_bytes(bytes) == site.active()
    })
}

/// Returns whether a call is still a site, though it is shared.
pub(super) fn is_site(discovery: &Discovery) -> bool {
    discovery.is_shared() && discovery.is_site() && !discovery.is_changing()
}

/// Restores the call at a site of a loaded object. Returns whether the bytes are the call's now.
pub(super) fn unpatch(_exclusive: Exclusive<'_>, discovery: &'static Discovery) -> bool {
    let (Some(call), Some(active)) = (discovery.call(), discovery.active()) else { return false };
    let text =
        if first_hit::text_policy() == TextPolicy::Alias { TextPolicy::Alias } else { TextPolicy::Sealed };
    let is_call = [active, Instruction::NOP5].into_iter().any(|now| {
        let (at, original, value) = Call::rewritten(call, now);
        // SAFETY: a site of the hook's, in a loaded object's text, and the call that it was.
        unsafe { WordOptions::new().text_policy(text).replace(at, value, original) }.is_ok()
    });
    if is_call {
        discovery.mark_shared_call();
        debug_assert_eq!(discovery.state(), State::Unpatched(Reason::Shared));
    }
    is_call
}
