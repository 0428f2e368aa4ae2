//! Names of locks and channels.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

/// The name of a lock or channel: one that the program gives, or the place of its creation.
///
/// ```
/// use probe_sync::Name;
///
/// assert_eq!(Name::given("sessions").to_string(), "sessions");
/// assert_eq!(Name::here().to_string(), format!("{}:{}", file!(), line!()));
/// ```
#[derive(Clone, Copy)]
pub struct Name(Text);

#[derive(Clone, Copy)]
enum Text {
    Given(&'static str),
    Place(&'static Location<'static>),
}

impl Name {
    /// Returns a name.
    pub const fn given(name: &'static str) -> Self {
        Self(Text::Given(name))
    }

    /// Returns the caller's file and line.
    #[track_caller]
    pub const fn here() -> Self {
        Self(Text::Place(Location::caller()))
    }

    /// Returns the given name, or the file.
    #[inline(always)]
    pub(crate) const fn text(&self) -> &'static str {
        match self.0 {
            Text::Given(name) => name,
            Text::Place(at) => at.file(),
        }
    }

    /// Returns a number that no other lock has, while this name is that of a lock.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Text::Given(name) => f.write_str(name),
            Text::Place(at) => write!(f, "{}:{}", at.file(), at.line()),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A lock, or one end of a channel, with a name and with probes.
///
/// It derefs to the original, so that methods without probes are the original's.
///
/// ```
/// use probe_sync::{Mutex, Probed};
///
/// let lock: Probed<std::sync::Mutex<u32>> = Mutex::named("counter", 7);
/// assert_eq!(lock.name().to_string(), "counter");
/// assert!(!lock.is_poisoned());
/// ```
#[derive(Clone)]
pub struct Probed<T: ?Sized> {
    pub(crate) name: Name,
    pub(crate) original: T,
}

impl<T> Probed<T> {
    /// Gives an original a name, and probes.
    pub const fn with(name: Name, original: T) -> Self {
        Self { name, original }
    }

    /// Returns the original, which has no probes.
    pub fn into_original(self) -> T {
        self.original
    }
}

impl<T: ?Sized> Probed<T> {
    /// Returns the name.
    pub const fn name(&self) -> Name {
        self.name
    }
}

/// Gives a channel a name in place of that of its creation.
///
/// ```
/// use probe_sync::{mpsc::channel, named};
///
/// let (sender, receiver) = named("jobs", channel());
/// sender.send(7).unwrap();
/// assert_eq!((receiver.recv(), receiver.name().to_string()), (Ok(7), "jobs".to_owned()));
/// ```
pub fn named<S, R>(name: &'static str, ends: (Probed<S>, Probed<R>)) -> (Probed<S>, Probed<R>) {
    both(Name::given(name), (ends.0.original, ends.1.original))
}

/// Gives both ends of a channel a name.
pub(crate) fn both<S, R>(name: Name, (sender, receiver): (S, R)) -> (Probed<S>, Probed<R>) {
    (Probed::with(name, sender), Probed::with(name, receiver))
}

impl<T: Default> Default for Probed<T> {
    #[track_caller]
    fn default() -> Self {
        Self::with(Name::here(), T::default())
    }
}

impl<T: ?Sized> Deref for Probed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.original
    }
}

impl<T: ?Sized> DerefMut for Probed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.original
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Probed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt(f)
    }
}
