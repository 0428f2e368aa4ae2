//! `std::sync::Mutex` with probes.

use std::sync::{self, LockResult, TryLockResult};

use probe_runtime::probe;

use crate::hold::{Exclusive, Guard, hold, waits};
use crate::name::{Name, Probed};

hold! {
    /// A [`Mutex`] is held.
    pub Held(Exclusive), "hold"
}

waits!(lock);

/// [`std::sync::Mutex`] with probes.
///
/// ```
/// use probe_sync::Mutex;
///
/// static SESSIONS: Mutex<Vec<u32>> = Mutex::named("sessions", Vec::new());
/// SESSIONS.lock().unwrap().push(7);
/// ```
pub type Mutex<T> = Probed<sync::Mutex<T>>;

/// The guard of a [`Mutex`].
///
/// ```
/// use probe_sync::{Mutex, MutexGuard};
///
/// fn increment(mut guard: MutexGuard<'_, u32>) -> u32 {
///     *guard += 1;
///     *guard
/// }
///
/// assert_eq!(increment(Mutex::new(1).lock().unwrap()), 2);
/// ```
pub type MutexGuard<'a, T> = Guard<'a, sync::MutexGuard<'a, T>, Held>;

impl<T> Probed<sync::Mutex<T>> {
    /// Creates a lock that is named after this place.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::with(Name::here(), sync::Mutex::new(value))
    }

    /// Creates a lock with a name.
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with(Name::given(name), sync::Mutex::new(value))
    }

    /// As [`std::sync::Mutex::into_inner`].
    pub fn into_inner(self) -> LockResult<T> {
        self.into_original().into_inner()
    }
}

impl<T: ?Sized> Probed<sync::Mutex<T>> {
    /// As [`std::sync::Mutex::lock`].
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        super::map(lock(&self.name, || self.original.lock()), |it| Guard::new(&self.name, it))
    }

    /// As [`std::sync::Mutex::try_lock`].
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        super::try_map(self.original.try_lock(), |it| Guard::new(&self.name, it))
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
