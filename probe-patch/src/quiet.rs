//! Keeping a program's consumers out of a thread that holds the lock of open pages.
//!
//! Memory is allocated under that lock, and the program's allocator may have probes. A consumer
//! that is called there could ask for the lock again, and would wait for its own thread. So the
//! room that calls consumers is told when a thread takes the lock, and when it has let it go.

use std::marker::PhantomData;
use std::sync::OnceLock;

/// What the room that calls consumers does.
pub struct Quieting {
    /// From here on, no consumer is called on this thread. The number is handed to `end`.
    pub begin: fn() -> usize,
    /// They are again, if they were before.
    pub end: fn(usize),
}

static QUIETING: OnceLock<Quieting> = OnceLock::new();

/// Has this done around the lock. The first that is given stays.
pub(super) fn set(quieting: Quieting) {
    let _ = QUIETING.set(quieting);
}

/// While it lives, no consumer is called on this thread, if any can be called at all.
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

    /// Under the lock: consumers may have become possible on the way to it.
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
