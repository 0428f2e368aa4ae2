//! `tokio::sync::RwLock` with probes.

use ::tokio::sync::{self, TryLockError};
use probe_runtime::probe;

use crate::hold::{Drawn, Exclusive, Guard, hold};
use crate::name::{Name, Probed};

hold! {
    /// An [`RwLock`] is held by a reader. Its guard may go to another thread.
    pub Read(Drawn), "hold_read"
}
hold! {
    /// An [`RwLock`] is held by a writer.
    pub Written(Exclusive), "hold_write"
}

/// `tokio::sync::RwLock` with probes.
///
/// ```
/// use probe_sync::tokio::RwLock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let routes = RwLock::new(vec!["/"]);
/// routes.write().await.push("/login");
/// assert_eq!(routes.read().await.len(), 2);
/// # }
/// ```
pub type RwLock<T> = Probed<sync::RwLock<T>>;

/// The guard of a reader of an [`RwLock`].
///
/// ```
/// use probe_sync::tokio::{RwLock, RwLockReadGuard};
///
/// let lock = RwLock::new(7);
/// let guard: RwLockReadGuard<'_, u32> = lock.try_read().unwrap();
/// assert_eq!(*guard, 7);
/// ```
pub type RwLockReadGuard<'a, T> = Guard<'a, sync::RwLockReadGuard<'a, T>, Read>;

/// The guard of a writer of an [`RwLock`].
///
/// ```
/// use probe_sync::tokio::{RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new(7);
/// let guard: RwLockWriteGuard<'_, u32> = lock.try_write().unwrap();
/// assert_eq!(*guard.downgrade(), 7);
/// ```
pub type RwLockWriteGuard<'a, T> = Guard<'a, sync::RwLockWriteGuard<'a, T>, Written>;

impl<T> Probed<sync::RwLock<T>> {
    /// Creates a lock that is named after this place.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Self::with(Name::here(), sync::RwLock::new(value))
    }

    /// As `tokio::sync::RwLock::with_max_readers`. The lock is named after this place.
    #[track_caller]
    pub fn with_max_readers(value: T, limit: u32) -> Self {
        Self::with(Name::here(), sync::RwLock::with_max_readers(value, limit))
    }

    /// As `tokio::sync::RwLock::const_new`. The lock is named after this place.
    #[track_caller]
    pub const fn const_new(value: T) -> Self {
        Self::with(Name::here(), sync::RwLock::const_new(value))
    }

    /// Creates a lock with a name.
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with(Name::given(name), sync::RwLock::const_new(value))
    }

    /// As `tokio::sync::RwLock::into_inner`.
    pub fn into_inner(self) -> T {
        self.into_original().into_inner()
    }
}

impl<T: ?Sized> Probed<sync::RwLock<T>> {
    /// As `tokio::sync::RwLock::read`.
    pub async fn read(&self) -> RwLockReadGuard<'_, T> {
        Guard::new(&self.name, self.wait_read().await)
    }

    /// As `tokio::sync::RwLock::blocking_read`.
    #[track_caller]
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        Guard::new(&self.name, self.wait_blocking_read())
    }

    /// As `tokio::sync::RwLock::try_read`.
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        self.original.try_read().map(|it| Guard::new(&self.name, it))
    }

    /// As `tokio::sync::RwLock::write`.
    pub async fn write(&self) -> RwLockWriteGuard<'_, T> {
        Guard::new(&self.name, self.wait_write().await)
    }

    /// As `tokio::sync::RwLock::blocking_write`.
    #[track_caller]
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        Guard::new(&self.name, self.wait_blocking_write())
    }

    /// As `tokio::sync::RwLock::try_write`.
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        self.original.try_write().map(|it| Guard::new(&self.name, it))
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// As `tokio::sync::RwLockWriteGuard::downgrade`.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let (name, original) = self.end();
        Guard::new(name, original.downgrade())
    }
}

// The calls of the probes: they end at the acquisition, and the hold begins after it.
impl<T: ?Sized> Probed<sync::RwLock<T>> {
    #[probe(
        group = "probe_sync::waits",
        name = "read",
        args(lock = %self.name, name = self.name.text(), at = self.name.address())
    )]
    async fn wait_read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.original.read().await
    }

    #[track_caller]
    #[probe(
        group = "probe_sync::waits",
        name = "blocking_read",
        args(lock = %self.name, name = self.name.text(), at = self.name.address())
    )]
    fn wait_blocking_read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.original.blocking_read()
    }

    #[probe(
        group = "probe_sync::waits",
        name = "write",
        args(lock = %self.name, name = self.name.text(), at = self.name.address())
    )]
    async fn wait_write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.original.write().await
    }

    #[track_caller]
    #[probe(
        group = "probe_sync::waits",
        name = "blocking_write",
        args(lock = %self.name, name = self.name.text(), at = self.name.address())
    )]
    fn wait_blocking_write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.original.blocking_write()
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
