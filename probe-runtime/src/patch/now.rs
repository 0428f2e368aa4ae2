//! Replacing one instruction at once, or not at all: for a caller who may be in a signal handler, in the allocator, before `main`,
//! or the holder of any of this crate's locks. No heap, no waiting; what would need either is left to a later try.
//!
//! Cost: under `Sealed` two `mprotect` and a locked instruction; a straddler two barriers more. Once for each mapping, the kernel is
//! asked for its rights.

// Safety: hands on what its callers promise.
#![expect(unsafe_code, reason = "see above")]

use super::pages::{NotOpen, write_now};
use super::word::{Options, Plan, Writable, is_ready};
use super::{Bytes, TextPolicy, poke};
use crate::control;

/// Why an instruction was not replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotNow {
    /// It would have meant to wait, or to get ready first.
    Later,
    /// It is not as expected.
    Changed,
    /// It needs a trap, and another handler has them.
    NoTrap,
    /// The system's error number: its page can't be written.
    Protected(i32),
}

/// Replaces an instruction of loaded text, as [`Options::replace`] does.
///
/// # Safety
/// As for [`word::patch`](super::word::patch); its text is not unmapped meanwhile.
pub(crate) unsafe fn replace_now(
    addr: usize,
    expected: Bytes,
    value: Bytes,
    policy: TextPolicy,
) -> Result<(), NotNow> {
    // The kernel writes with more than that; an operation does it.
    if !control::is_ready() || policy == TextPolicy::Alias {
        return Err(NotNow::Later);
    }
    let plan = Plan::new(addr, expected, value).ok_or(NotNow::Changed)?;
    if plan.whole().is_none() {
        is_ready().map_err(|is_taken| if is_taken { NotNow::NoTrap } else { NotNow::Later })?;
    }
    let mut result = Err(NotNow::Later);
    let opened = write_now(&(addr..addr + value.len()), policy == TextPolicy::Open, || {
        result = match plan.whole() {
            // SAFETY: a word of the caller's text, which is writable now.
            Some(whole) => unsafe { poke::write(whole) }.map_err(|_| NotNow::Changed),
            // SAFETY: as above.
            None => unsafe { replace_straddler(plan) },
        };
    });
    match opened {
        Ok(()) => result,
        Err(NotOpen::Later) => Err(NotNow::Later),
        Err(NotOpen::Protected(errno)) => Err(NotNow::Protected(errno)),
    }
}

/// # Safety
/// As for [`replace_now`]; the text is writable.
unsafe fn replace_straddler(plan: Plan) -> Result<(), NotNow> {
    // SAFETY: as the caller says.
    let pending = unsafe { Options::new().begin(plan, Writable::ByCaller) };
    pending.and_then(super::word::Pending::wait).map_err(|_| NotNow::Changed)
}
