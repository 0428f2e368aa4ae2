//! `std::sync::RwLock` with probes.

use std::sync::{self, LockResult, TryLockResult};

use probe_runtime::probe;

use crate::hold::{Drawn, Exclusive, Guard, hold, waits};
use crate::name::{Name, Probed};

hold! {
    /// An [`RwLock`] is held by a reader.
    pub Read(Drawn), "hold_read"
}
hold! {
    /// An [`RwLock`] is held by a writer.
    pub Written(Exclusive), "hold_write"
}

waits!(read, write);

/// [`std::sync::RwLock`] with probes.
///
/// ```
/// use probe_sync::RwLock;
///
/// let routes = RwLock::new(vec!["/"]);
/// routes.write().unwrap().push("/login");
/// assert_eq!(routes.read().unwrap().len(), 2);
/// ```
pub type RwLock<T> = Probed<sync::RwLock<T>>;

/// The guard of a reader of an [`RwLock`].
///
/// ```
/// use probe_sync::{RwLock, RwLockReadGuard};
///
/// let lock = RwLock::new(7);
/// let guard: RwLockReadGuard<'_, u32> = lock.read().unwrap();
/// assert_eq!(*guard, 7);
/// ```
pub type RwLockReadGuard<'a, T> = Guard<'a, sync::RwLockReadGuard<'a, T>, Read>;

/// The guard of a writer of an [`RwLock`].
///
/// ```
/// use probe_sync::{RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new(7);
/// let mut guard: RwLockWriteGuard<'_, u32> = lock.write().unwrap();
/// *guard += 1;
/// ```
pub type RwLockWriteGuard<'a, T> = Guard<'a, sync::RwLockWriteGuard<'a, T>, Written>;

impl<T> Probed<sync::RwLock<T>> {
    /// Creates a lock that is named after this place.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::with(Name::here(), sync::RwLock::new(value))
    }

    /// Creates a lock with a name.
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with(Name::given(name), sync::RwLock::new(value))
    }

    /// As [`std::sync::RwLock::into_inner`].
    pub fn into_inner(self) -> LockResult<T> {
        self.into_original().into_inner()
    }
}

impl<T: ?Sized> Probed<sync::RwLock<T>> {
    /// As [`std::sync::RwLock::read`].
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        super::map(read(&self.name, || self.original.read()), |it| Guard::new(&self.name, it))
    }

    /// As [`std::sync::RwLock::try_read`].
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        super::try_map(self.original.try_read(), |it| Guard::new(&self.name, it))
    }

    /// As [`std::sync::RwLock::write`].
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        super::map(write(&self.name, || self.original.write()), |it| Guard::new(&self.name, it))
    }

    /// As [`std::sync::RwLock::try_write`].
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        super::try_map(self.original.try_write(), |it| Guard::new(&self.name, it))
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
