//! Locks and channels of `tokio::sync` with probes.

pub mod mpsc;
pub(crate) mod mutex;
mod owned;
pub(crate) mod rw_lock;

pub use self::mutex::{Mutex, MutexGuard};
pub use self::owned::{Owned, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
pub use self::rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[doc(no_inline)]
pub use ::tokio::sync::TryLockError;
