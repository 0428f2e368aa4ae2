//! Calls across two aligned words, and jumps, switched in place ([`switch`](super::call_patch)).
//!
//! Both a hook and the control may change such a call at any time. Each writes what `is_wanted`
//! says, and looks at `is_wanted` again afterwards. So the last one to write has seen the last
//! change. While the call is active it is the compiler's, and the hook delivers its hits. A hit may
//! reach the hook though no consumer listens: the thread was late, or the object was loaded anew.
//! Then the call is made latent again.

// Safety: relies on text that stays mapped: that of a hook's own call, or of an object that can't
// be unloaded meanwhile. Also relies on the forms that a call of the hook may take: see `switch`.
#![expect(unsafe_code, reason = "see above")]

use super::call_patch::CallPatch;
use super::call_site::Discovery;
use super::tokens::Exclusive;
use super::{counters, pending, policy};
use crate::engine::sites::{NotNow, read_word, write_text, write_text_now, write_word};

/// Marks a pending call as patched in place. Called by a hook that has settled it.
pub(super) fn begun_now(discovery: &'static Discovery, switch: CallPatch) {
    let text = policy::text();
    begun(discovery, switch, |write| write_text_now(&(switch.word..switch.word + 8), text, write));
}

/// Patches a pending call in place.
pub(super) fn begin_deferred(
    _exclusive: Exclusive<'_>,
    discovery: &'static Discovery,
    switch: CallPatch,
) -> Result<(), NotNow> {
    let open = |write: &mut dyn FnMut()| write_text(&(switch.word..switch.word + 8), write);
    // Even if there is nothing to change yet: if text can't be written, the call stays a real one.
    let mut done = Ok(false);
    // SAFETY: `open` makes it writable; it is a loaded object's: `_exclusive` says so.
    open(&mut || done = unsafe { settle_open(discovery, switch) })?;
    done?;
    begun(discovery, switch, open);
    Ok(())
}

fn begun(
    discovery: &'static Discovery,
    switch: CallPatch,
    open: impl Fn(&mut dyn FnMut()) -> Result<(), NotNow>,
) {
    if discovery.become_switched() {
        counters::PATCHED.add();
        counters::SPLIT_CALLS.add();
    }
    // A thread that changed `is_wanted` before that saw a pending call, and did no more.
    if settle_through(discovery, switch, open).is_err() {
        // The next operation looks.
        pending::note(discovery);
    }
}

/// Makes the bytes agree with `is_wanted`, in a hook. Returns whether that took a write.
pub(super) fn settle_now(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    let text = policy::text();
    settle_through(discovery, switch, |write| write_text_now(&(switch.word..switch.word + 8), text, write))
}

/// Does the same as [`settle_now`] in an operation, of a loaded object.
pub(super) fn settle(
    _exclusive: Exclusive<'_>,
    discovery: &Discovery,
    switch: CallPatch,
) -> Result<bool, NotNow> {
    settle_through(discovery, switch, |write| write_text(&(switch.word..switch.word + 8), write))
}

fn settle_through(
    discovery: &Discovery,
    switch: CallPatch,
    open: impl Fn(&mut dyn FnMut()) -> Result<(), NotNow>,
) -> Result<bool, NotNow> {
    // SAFETY: a hook's own call, or a loaded object's: the callers' promise.
    if unsafe { is_settled(discovery, switch) }? {
        return Ok(false);
    }
    let mut done = Ok(false);
    // SAFETY: as above, and `open` makes it writable.
    open(&mut || done = unsafe { settle_open(discovery, switch) })?;
    done
}

/// Returns whether the bytes agree with `is_active`.
///
/// # Safety
/// The call or jump is in text that stays mapped.
pub(super) unsafe fn is_settled(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    // SAFETY: mapped text: the caller's promise.
    let word = unsafe { read_word(switch.word) };
    let is_active = switch.is_active(word).ok_or(NotNow::Changed)?;
    Ok(is_active == discovery.is_active())
}

/// Makes the bytes agree with `is_active`.
///
/// # Safety
/// The call or jump is in text that is writable, and stays mapped.
pub(super) unsafe fn settle_open(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    let mut is_written = false;
    // SAFETY: the caller's promise.
    while !unsafe { is_settled(discovery, switch) }? {
        // SAFETY: writable text, and one of the forms that this call may take. If another thread
        // was faster, the loop sees it.
        is_written |= unsafe { write_word(switch.write(discovery.is_active())) };
    }
    Ok(is_written)
}
