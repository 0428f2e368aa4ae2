//! Replacing many instructions through `int3`, with shared waits.

// Safety: hands on what its callers promise.
#![expect(unsafe_code, reason = "see above")]

use super::options::WordOptions;
use super::pending::Pending;
use super::plan::Plan;
use super::trap;
use super::writable::Writable;
use crate::error::PatchError;

/// Number of patches that are under way at once. They share two barriers.
const AT_ONCE: usize = 4_096;

/// Carries out plans strictly. Returns the result of each, with the address of its instruction.
///
/// # Safety
/// The same as for [`patch`](super::patch()), for each plan. The text is writable in the way that
/// `writable` names.
pub unsafe fn replace_each(
    plans: &[Plan],
    writable: &Writable,
    mut tell: impl FnMut(usize, Result<(), PatchError>),
) {
    if plans.is_empty() {
        return;
    }
    if let Err(PatchError::Signal { problem }) = trap::check() {
        let refuse = |plan: &Plan| tell(plan.addr(), Err(PatchError::Signal { problem: problem.clone() }));
        return plans.iter().for_each(refuse);
    }
    let options = WordOptions::new().strict(true);
    let mut under_way = Vec::with_capacity(AT_ONCE.min(plans.len()));
    for plans in plans.chunks(AT_ONCE) {
        for plan in plans {
            // SAFETY: as the caller says.
            match unsafe { options.begin(*plan, writable.clone()) } {
                Ok(patch) => under_way.push(patch),
                Err(error) => tell(plan.addr(), Err(error)),
            }
        }
        // One after the other, each patch would run its own barriers.
        for _ in 0..2 {
            under_way.iter_mut().for_each(|patch| _ = patch.finish());
        }
        under_way.drain(..).for_each(|patch: Pending| tell(patch.addr(), patch.wait()));
    }
}
