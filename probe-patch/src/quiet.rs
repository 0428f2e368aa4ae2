//! Keeps a crate above this one from calling its users' code on a thread that holds the lock of
//! open pages.
//!
//! Memory is allocated under that lock, and patched code in the program's allocator may lead to
//! such a crate, which calls its users' code. That code could ask for the lock again, and would
//! wait for its own thread. So the crate is told when a thread takes the lock, and when the thread
//! has released it.

use std::marker::PhantomData;
use std::sync::OnceLock;

/// The hooks of a crate above this one.
pub struct Quieting {
    /// From this call on, the crate calls no user code on this thread. The result is handed to
    /// `end`.
    pub begin: fn() -> usize,
    /// The crate calls user code again, if it did so before `begin`.
    pub end: fn(usize),
}

static QUIETING: OnceLock<Quieting> = OnceLock::new();

/// Installs hooks to run around the lock. The first hooks stay; later ones are ignored.
pub(super) fn set(quieting: Quieting) {
    let _ = QUIETING.set(quieting);
}

/// While it lives, the crate above, if there is one, calls no user code on this thread.
pub(super) struct Quiet {
    begun: Option<(&'static Quieting, usize)>,
    // It ends on the thread that it began on.
    not_send: PhantomData<*mut ()>,
}

impl Quiet {
    pub(super) fn new() -> Self {
        let mut quiet = Self { begun: None, not_send: PhantomData };
        quiet.renew();
        quiet
    }

    /// Calls `begin` under the lock, if the crate above installed its hooks while this thread
    /// waited for it.
    pub(super) fn renew(&mut self) {
        if self.begun.is_none() {
            self.begun = QUIETING.get().map(|quieting| (quieting, (quieting.begin)()));
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some((quieting, begun)) = self.begun {
            (quieting.end)(begun);
        }
    }
}
