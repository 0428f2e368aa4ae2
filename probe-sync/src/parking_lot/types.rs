//! The names of `parking_lot`, and how locks get theirs.

use crate::name::{Name, Probed};

/// The raw lock of `parking_lot::Mutex`, with probes.
///
/// ```
/// use probe_sync::parking_lot::{Mutex, RawMutex};
///
/// let lock = Mutex::from_raw(RawMutex::named("counter"), 7);
/// assert_eq!(*lock.lock(), 7);
/// ```
pub type RawMutex = Probed<::parking_lot::RawMutex>;

/// The raw lock of `parking_lot::RwLock`, with probes.
///
/// ```
/// use probe_sync::parking_lot::{RawRwLock, RwLock};
///
/// let lock = RwLock::from_raw(RawRwLock::named("routes"), 7);
/// assert_eq!(*lock.read(), 7);
/// ```
pub type RawRwLock = Probed<::parking_lot::RawRwLock>;

/// `parking_lot::Mutex` with probes.
///
/// ```
/// let lock = probe_sync::parking_lot::Mutex::new(7);
/// assert_eq!(*lock.lock(), 7);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The guard of a [`Mutex`].
///
/// ```
/// use probe_sync::parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
///
/// let lock = Mutex::new((7, 'a'));
/// let number: MappedMutexGuard<'_, u32> = MutexGuard::map(lock.lock(), |pair| &mut pair.0);
/// assert_eq!(*number, 7);
/// ```
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The guard of a part of a [`Mutex`]'s value.
///
/// ```
/// use probe_sync::parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
///
/// let lock = Mutex::new((7, 'a'));
/// let letter: MappedMutexGuard<'_, char> = MutexGuard::map(lock.lock(), |pair| &mut pair.1);
/// assert_eq!(*letter, 'a');
/// ```
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// `parking_lot::RwLock` with probes.
///
/// ```
/// let lock = probe_sync::parking_lot::RwLock::new(7);
/// assert_eq!(*lock.read(), 7);
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// The guard of a reader.
///
/// ```
/// use probe_sync::parking_lot::{RwLock, RwLockReadGuard};
///
/// let lock = RwLock::new(7);
/// let guard: RwLockReadGuard<'_, u32> = lock.read();
/// assert_eq!(*guard, 7);
/// ```
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The guard of a writer.
///
/// ```
/// use probe_sync::parking_lot::{RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new(7);
/// let guard = RwLockWriteGuard::downgrade(lock.write());
/// assert_eq!((*guard, *lock.read()), (7, 7));
/// ```
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The guard of a reader that may become a writer.
///
/// ```
/// use probe_sync::parking_lot::{RwLock, RwLockUpgradableReadGuard};
///
/// let lock = RwLock::new(7);
/// let guard: RwLockUpgradableReadGuard<'_, u32> = lock.upgradable_read();
/// *RwLockUpgradableReadGuard::upgrade(guard) += 1;
/// ```
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// The guard of a part of a [`RwLock`]'s value, for a reader.
///
/// ```
/// use probe_sync::parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
///
/// let lock = RwLock::new((7, 'a'));
/// let number: MappedRwLockReadGuard<'_, u32> = RwLockReadGuard::map(lock.read(), |pair| &pair.0);
/// assert_eq!(*number, 7);
/// ```
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// The guard of a part of a [`RwLock`]'s value, for a writer.
///
/// ```
/// use probe_sync::parking_lot::{MappedRwLockWriteGuard, RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new((7, 'a'));
/// let mut number: MappedRwLockWriteGuard<'_, u32> =
///     RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0);
/// *number += 1;
/// ```
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// `parking_lot::ReentrantMutex` with probes. A thread that has the lock already does not wait, and
/// begins no other hold.
///
/// ```
/// let lock = probe_sync::parking_lot::ReentrantMutex::new(7);
/// assert_eq!((*lock.lock(), *lock.lock()), (7, 7));
/// ```
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, ::parking_lot::RawThreadId, T>;

/// The guard of a [`ReentrantMutex`].
///
/// ```
/// use probe_sync::parking_lot::{ReentrantMutex, ReentrantMutexGuard};
///
/// let lock = ReentrantMutex::new(7);
/// let guard: ReentrantMutexGuard<'_, u32> = lock.lock();
/// assert_eq!(*guard, 7);
/// ```
pub type ReentrantMutexGuard<'a, T> =
    lock_api::ReentrantMutexGuard<'a, RawMutex, ::parking_lot::RawThreadId, T>;

/// Creates a lock that is named after this place.
///
/// ```
/// use probe_sync::parking_lot::{Mutex, const_mutex};
///
/// static SESSIONS: Mutex<Vec<u32>> = const_mutex(Vec::new());
/// SESSIONS.lock().push(7);
/// ```
#[track_caller]
pub const fn const_mutex<T>(value: T) -> Mutex<T> {
    Mutex::from_raw(RawMutex::here(), value)
}

/// Creates a lock that is named after this place.
///
/// ```
/// use probe_sync::parking_lot::{RwLock, const_rwlock};
///
/// static ROUTES: RwLock<Vec<u32>> = const_rwlock(Vec::new());
/// ROUTES.write().push(7);
/// ```
#[track_caller]
pub const fn const_rwlock<T>(value: T) -> RwLock<T> {
    RwLock::from_raw(RawRwLock::here(), value)
}

impl RawMutex {
    /// Creates a raw lock that is named after this place.
    #[track_caller]
    pub const fn here() -> Self {
        Self::with(Name::here(), lock_api::RawMutex::INIT)
    }

    /// Creates a raw lock with a name.
    pub const fn named(name: &'static str) -> Self {
        Self::with(Name::given(name), lock_api::RawMutex::INIT)
    }
}

impl RawRwLock {
    /// Creates a raw lock that is named after this place.
    #[track_caller]
    pub const fn here() -> Self {
        Self::with(Name::here(), lock_api::RawRwLock::INIT)
    }

    /// Creates a raw lock with a name.
    pub const fn named(name: &'static str) -> Self {
        Self::with(Name::given(name), lock_api::RawRwLock::INIT)
    }
}
