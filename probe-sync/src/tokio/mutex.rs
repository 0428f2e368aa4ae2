//! `tokio::sync::Mutex` with probes.

use ::tokio::sync::{self, TryLockError};
use probe_runtime::probe;

use crate::hold::{Exclusive, Guard, hold};
use crate::name::{Name, Probed};

hold! {
    /// A [`Mutex`] is held.
    pub Held(Exclusive), "hold"
}

/// `tokio::sync::Mutex` with probes.
///
/// ```
/// use probe_sync::tokio::Mutex;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sessions = Mutex::named("sessions", Vec::new());
/// sessions.lock().await.push(7);
/// # }
/// ```
pub type Mutex<T> = Probed<sync::Mutex<T>>;

/// The guard of a [`Mutex`].
///
/// ```
/// use probe_sync::tokio::{Mutex, MutexGuard};
///
/// let lock = Mutex::new(7);
/// let guard: MutexGuard<'_, u32> = lock.try_lock().unwrap();
/// assert_eq!(*guard, 7);
/// ```
pub type MutexGuard<'a, T> = Guard<'a, sync::MutexGuard<'a, T>, Held>;

impl<T> Probed<sync::Mutex<T>> {
    /// Creates a lock that is named after this place.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Self::with(Name::here(), sync::Mutex::new(value))
    }

    /// As `tokio::sync::Mutex::const_new`. The lock is named after this place.
    #[track_caller]
    pub const fn const_new(value: T) -> Self {
        Self::with(Name::here(), sync::Mutex::const_new(value))
    }

    /// Creates a lock with a name.
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with(Name::given(name), sync::Mutex::const_new(value))
    }

    /// As `tokio::sync::Mutex::into_inner`.
    pub fn into_inner(self) -> T {
        self.into_original().into_inner()
    }
}

impl<T: ?Sized> Probed<sync::Mutex<T>> {
    /// As `tokio::sync::Mutex::lock`.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        Guard::new(&self.name, self.wait_lock().await)
    }

    /// As `tokio::sync::Mutex::blocking_lock`.
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        Guard::new(&self.name, self.wait_blocking_lock())
    }

    /// As `tokio::sync::Mutex::try_lock`.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        self.original.try_lock().map(|it| Guard::new(&self.name, it))
    }
}

// The calls of the probes: they end at the acquisition, and the hold begins after it.
impl<T: ?Sized> Probed<sync::Mutex<T>> {
    #[probe(
        group = "probe_sync::waits",
        name = "lock",
        args(lock = %self.name, name = self.name.text(), at = self.name.address())
    )]
    async fn wait_lock(&self) -> sync::MutexGuard<'_, T> {
        self.original.lock().await
    }

    #[track_caller]
    #[probe(
        group = "probe_sync::waits",
        name = "blocking_lock",
        args(lock = %self.name, name = self.name.text(), at = self.name.address())
    )]
    fn wait_blocking_lock(&self) -> sync::MutexGuard<'_, T> {
        self.original.blocking_lock()
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
