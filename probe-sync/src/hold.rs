//! Holds: the time from the acquisition of a lock to its release.
//!
//! A hold begins and ends in any order with others, and it may end on another thread. So it has the
//! probes of a future that is awaited while the lock is held: `entry` and `suspend` after the
//! acquisition, `resume` and `exit` before the release. Consumers pair them by the first field:
//!
//! | holds | the first field |
//! |---|---|
//! | [`Exclusive`] | the lock's address |
//! | [`Drawn`]: any number at a time | a number that the guard keeps |
//!
//! Cost: four NOPs a hold. A guard keeps a reference to the lock's name, and [`Drawn`] its number.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::name::Name;

/// Tells the holds of one kind apart.
pub trait Key: Copy + Default {
    /// Returns the same number at each call, which no other hold of the kind has meanwhile.
    fn number(&mut self, name: &Name) -> usize;
}

/// A lock has one such hold at a time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Exclusive;

impl Key for Exclusive {
    #[inline(always)]
    fn number(&mut self, name: &Name) -> usize {
        name.address()
    }
}

/// A hold has a number of its own, from its first hit on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Drawn(usize);

impl Key for Drawn {
    #[inline(always)]
    fn number(&mut self, _: &Name) -> usize {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        if self.0 == 0 {
            self.0 = LAST.fetch_add(1, Relaxed) + 1;
        }
        self.0
    }
}

/// The sites of a kind of holds.
pub trait Sites {
    /// Tells its holds apart.
    type Key: Key;

    /// The lock was acquired.
    fn begin(name: &Name) -> Self::Key;

    /// The lock will be released.
    fn end(name: &Name, key: Self::Key);

    /// The guard is given away, so that nobody will see the release.
    fn lose(name: &Name, key: Self::Key);
}

/// Defines a kind of holds: its type, its key, and the name of its probe, in the module of the
/// macro's call.
macro_rules! hold {
    ($(#[$docs:meta])* $visibility:vis $kind:ident($key:ident), $probe:literal) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        $visibility enum $kind {}

        impl crate::hold::Sites for $kind {
            type Key = $key;

            #[inline(always)]
            fn begin(name: &crate::name::Name) -> Self::Key {
                let mut key = Self::Key::default();
                crate::hold::site!(
                    Entry, $probe, key, name,
                    "lock" = display(name), "name" = value(&name.text()), "at" = value(&name.address())
                );
                crate::hold::site!(Suspend, $probe, key, name);
                key
            }

            #[inline(always)]
            fn end(name: &crate::name::Name, mut key: Self::Key) {
                crate::hold::site!(Resume, $probe, key, name);
                crate::hold::site!(Exit, $probe, key, name);
            }

            #[inline(always)]
            fn lose(name: &crate::name::Name, mut key: Self::Key) {
                crate::hold::site!(Drop, $probe, key, name);
            }
        }
    };
}

macro_rules! site {
    ($kind:ident, $probe:literal, $key:ident, $name:ident $(, $field:literal = $how:ident($value:expr))*) => {
        probe_runtime::__private::v1::site! {
            $kind, ($probe, "doc=a lock is held\n");
            "future" = value(&crate::hold::Key::number(&mut $key, $name)) $(, $field = $how($value))*
        }
    };
}

/// Defines functions that wait for a lock, with probes of their names in the module of the macro's
/// call. The call of such a probe ends at the acquisition, and the hold begins after it.
macro_rules! waits {
    ($($probe:ident),+) => {
        $(
            /// Waits for a lock.
            #[inline]
            #[probe(
                group = "probe_sync::waits",
                args(lock = %name, name = name.text(), at = name.address())
            )]
            fn $probe<R>(name: &Name, acquire: impl FnOnce() -> R) -> R {
                acquire()
            }
        )+
    };
}

pub(crate) use {hold, site, waits};

/// A hold under way; its drop is the end.
pub(crate) struct Hold<'a, S: Sites> {
    pub(crate) name: &'a Name,
    key: S::Key,
}

impl<'a, S: Sites> Hold<'a, S> {
    #[inline(always)]
    pub(crate) fn begin(name: &'a Name) -> Self {
        Self { name, key: S::begin(name) }
    }

    /// Ends it as one whose release nobody will see.
    pub(crate) fn lose(self) {
        S::lose(self.name, self.key);
        std::mem::forget(self);
    }
}

impl<S: Sites> Drop for Hold<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        S::end(self.name, self.key);
    }
}

/// The guard of a lock with probes: `G` is the original guard.
///
/// ```
/// use probe_sync::{Guard, Mutex};
///
/// let lock = Mutex::new(7);
/// let guard = lock.lock().unwrap();
/// assert_eq!(*guard, 7);
/// let original: std::sync::MutexGuard<'_, u32> = Guard::into_original(guard);
/// ```
#[must_use = "without a guard, the lock is released at once"]
pub struct Guard<'a, G, S: Sites> {
    // Dropped first: the hold ends before another one of the lock can begin.
    hold: Hold<'a, S>,
    original: G,
}

impl<'a, G, S: Sites> Guard<'a, G, S> {
    /// Begins the hold of a lock that was acquired.
    #[inline(always)]
    pub(crate) fn new(name: &'a Name, original: G) -> Self {
        Self { hold: Hold::begin(name), original }
    }

    /// Ends the hold, of a lock that is about to be released.
    #[inline(always)]
    pub(crate) fn end(self) -> (&'a Name, G) {
        (self.hold.name, self.original)
    }

    /// Returns the original guard. Consumers take the hold for cancelled: they don't see the
    /// release.
    pub fn into_original(this: Self) -> G {
        this.hold.lose();
        this.original
    }
}

impl<G: Deref, S: Sites> Deref for Guard<'_, G, S> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.original
    }
}

impl<G: DerefMut, S: Sites> DerefMut for Guard<'_, G, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.original
    }
}

impl<G: fmt::Debug, S: Sites> fmt::Debug for Guard<'_, G, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt(f)
    }
}

impl<G: fmt::Display, S: Sites> fmt::Display for Guard<'_, G, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt(f)
    }
}
