//! Guards that keep the lock.
//!
//! `tokio`'s own take an `Arc` of the original lock, which a lock with a name is not.

// Safety: relies on the guard being dropped before the `Arc` of its lock.
#![expect(unsafe_code, reason = "see above")]

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ::tokio::sync::{self, TryLockError};

use super::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::name::Probed;

/// A guard that keeps the lock: `G` is the guard.
///
/// ```
/// use std::sync::Arc;
/// use probe_sync::tokio::Mutex;
///
/// let lock = Arc::new(Mutex::new(7));
/// let guard = Arc::clone(&lock).try_lock_owned().unwrap();
/// assert_eq!(*guard, 7);
/// assert!(lock.try_lock().is_err());
/// ```
#[must_use = "without a guard, the lock is released at once"]
pub struct Owned<L: ?Sized, G> {
    // A reference that moves into a function must be valid until its end, by Rust's rules. The
    // guard's are not if the function drops the lock: `MaybeUninit` exempts them.
    guard: MaybeUninit<G>,
    _lock: Arc<L>,
}

/// The guard of a [`Mutex`], with the lock.
///
/// ```
/// use std::sync::Arc;
/// use probe_sync::tokio::{Mutex, OwnedMutexGuard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = Arc::new(Mutex::new(7));
/// let guard: OwnedMutexGuard<u32> = lock.lock_owned().await;
/// assert_eq!(*guard, 7);
/// # }
/// ```
pub type OwnedMutexGuard<T> = Owned<Mutex<T>, MutexGuard<'static, T>>;

/// The guard of a reader of an [`RwLock`], with the lock.
///
/// ```
/// use std::sync::Arc;
/// use probe_sync::tokio::{OwnedRwLockReadGuard, RwLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = Arc::new(RwLock::new(7));
/// let guard: OwnedRwLockReadGuard<u32> = lock.read_owned().await;
/// assert_eq!(*guard, 7);
/// # }
/// ```
pub type OwnedRwLockReadGuard<T> = Owned<RwLock<T>, RwLockReadGuard<'static, T>>;

/// The guard of a writer of an [`RwLock`], with the lock.
///
/// ```
/// use std::sync::Arc;
/// use probe_sync::tokio::{OwnedRwLockWriteGuard, RwLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let lock = Arc::new(RwLock::new(7));
/// let mut guard: OwnedRwLockWriteGuard<u32> = lock.write_owned().await;
/// *guard += 1;
/// # }
/// ```
pub type OwnedRwLockWriteGuard<T> = Owned<RwLock<T>, RwLockWriteGuard<'static, T>>;

/// Defines a method that waits for a lock, and one that tries to get it.
macro_rules! owned {
    ($lock:ident, $guard:ident: $wait:ident as $owned:ident, $attempt:ident as $attempt_owned:ident) => {
        impl<T: ?Sized + 'static> Probed<sync::$lock<T>> {
            #[doc = concat!("As `tokio::sync::", stringify!($lock), "::", stringify!($owned), "`.")]
            pub async fn $owned(self: Arc<Self>) -> $guard<T> {
                let lock: *const Self = Arc::as_ptr(&self);
                // SAFETY: `self` outlives the future here, and in the result the guard.
                Owned { guard: MaybeUninit::new(unsafe { &*lock }.$wait().await), _lock: self }
            }

            #[doc = concat!("As `tokio::sync::", stringify!($lock), "::", stringify!($attempt_owned), "`.")]
            pub fn $attempt_owned(self: Arc<Self>) -> Result<$guard<T>, TryLockError> {
                let lock: *const Self = Arc::as_ptr(&self);
                // SAFETY: in the result, `self` outlives the guard.
                Ok(Owned { guard: MaybeUninit::new(unsafe { &*lock }.$attempt()?), _lock: self })
            }
        }
    };
}

owned!(Mutex, OwnedMutexGuard: lock as lock_owned, try_lock as try_lock_owned);
owned!(RwLock, OwnedRwLockReadGuard: read as read_owned, try_read as try_read_owned);
owned!(RwLock, OwnedRwLockWriteGuard: write as write_owned, try_write as try_write_owned);

impl<L: ?Sized, G> Drop for Owned<L, G> {
    fn drop(&mut self) {
        // SAFETY: each `Owned` has a guard, which nobody uses after this. The lock is dropped next.
        unsafe { self.guard.assume_init_drop() }
    }
}

impl<L: ?Sized, G: Deref> Deref for Owned<L, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        // SAFETY: as above.
        unsafe { self.guard.assume_init_ref() }
    }
}

impl<L: ?Sized, G: DerefMut> DerefMut for Owned<L, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        // SAFETY: as above.
        unsafe { self.guard.assume_init_mut() }
    }
}

impl<L: ?Sized, G: fmt::Debug> fmt::Debug for Owned<L, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: as above.
        unsafe { self.guard.assume_init_ref() }.fmt(f)
    }
}
