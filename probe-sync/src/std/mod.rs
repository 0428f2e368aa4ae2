//! Locks and channels of `std::sync`.

pub mod condvar;
pub mod mpsc;
pub mod mutex;
pub mod rw_lock;

use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// Makes guards of original guards, poisoned or not.
#[inline(always)]
fn map<G, H>(result: LockResult<G>, guard: impl FnOnce(G) -> H) -> LockResult<H> {
    match result {
        Ok(original) => Ok(guard(original)),
        Err(poisoned) => Err(PoisonError::new(guard(poisoned.into_inner()))),
    }
}

/// The same after an attempt.
#[inline(always)]
fn try_map<G, H>(result: TryLockResult<G>, guard: impl FnOnce(G) -> H) -> TryLockResult<H> {
    match result {
        Ok(original) => Ok(guard(original)),
        Err(TryLockError::Poisoned(poisoned)) => Err(PoisonError::new(guard(poisoned.into_inner())).into()),
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
    }
}
