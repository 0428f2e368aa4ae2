//! Gets rooms ready, once, before this crate changes anything in its process.
//!
//! Life: the first operation of a room gets that room ready, after the rooms below it. First this
//! code is kept loaded. Then the room's hooks around [forks](forks) and threads' ends are
//! installed. Later operations find this done.
//!
//! A copy of this crate that is part of a plugin keeps that plugin loaded. From then on, other
//! objects' sites, threads that end, and `fork` call into it. If the dynamic linker refuses to keep
//! the plugin loaded, no hooks are installed, and attaching fails. Each attempt to attach tries
//! again.
//!
//! Cost: an operation loads the state of each room that it uses, one or two.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::os::cancel::Uncancellable;
use crate::os::pin::{Unpinned, pin};

mod forks;

pub use forks::{AcrossForks, HeldAcrossFork, Rank};

const NEW: u8 = 0;
const READY: u8 = 1;
const UNPINNED: u8 = 2;

/// Whether a room is ready.
pub struct Ready {
    state: AtomicU8,
    rank: Rank,
    hooks: AcrossForks,
    install: fn(),
    is_kept: bool,
}

impl Ready {
    /// Returns the state of a room of this rank, with its hooks around forks. `install` installs
    /// the room's other hooks. It runs at most once, before the room is ready, and gets no other
    /// room ready.
    pub const fn new(rank: Rank, hooks: AcrossForks, install: fn()) -> Self {
        Self { state: AtomicU8::new(NEW), rank, hooks, install, is_kept: true }
    }

    /// Marks a room whose code no other object's code calls. It need not stay loaded.
    #[must_use]
    pub const fn unkept(self) -> Self {
        Self { is_kept: false, ..self }
    }

    /// Gets the room ready, unless that was tried before. The caller holds none of the room's
    /// locks, and has not frozen the objects: this waits for constructors.
    #[inline]
    pub fn prepare(&'static self) {
        if self.state.load(Ordering::Acquire) == NEW {
            // `require` returns this error to the code that attaches.
            let _ = self.require();
        }
    }

    /// Returns whether the room is ready, without waiting. If so, forks take its lock.
    pub fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) == READY
    }

    /// Acts as if the dynamic linker had refused to keep this code loaded. For tests, also those of
    /// crates above; so it is not under `cfg(test)`.
    #[doc(hidden)]
    pub fn unpin(&self) {
        self.state.store(UNPINNED, Ordering::Release);
    }

    /// Gets the room ready, for operations that put hooks into the program. As for
    /// [`prepare`](Self::prepare), the caller holds no room's lock, unless it knows that this room
    /// is ready.
    ///
    /// # Errors
    /// The dynamic linker does not keep this code loaded.
    pub fn require(&'static self) -> Result<(), Unpinned> {
        if self.state.load(Ordering::Acquire) == READY {
            return Ok(());
        }
        // Loading, and asking for the reason of a failure, may be cancellation points.
        let _uncancellable = self.is_kept.then(Uncancellable::new);
        // Not under the guard of `lock_setup`: this waits for constructors, and these may wait for
        // that guard. Several threads may do it.
        if self.is_kept
            && let Err(unpinned) = pin()
        {
            let _ = self.state.compare_exchange(NEW, UNPINNED, Ordering::AcqRel, Ordering::Acquire);
            return Err(unpinned);
        }
        forks::install();
        let setup = forks::lock_setup();
        // Another thread may have been faster.
        if self.state.load(Ordering::Acquire) != READY {
            (self.install)();
            forks::add(self.rank, &self.hooks);
            // A fork's hook asks for it, too, and must not wait for itself.
            self.state.store(READY, Ordering::Release);
        }
        drop(setup);
        Ok(())
    }
}

impl fmt::Display for Unpinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} holds this copy of probe-patch and can't be kept loaded: {}; patch from an object that is never unloaded",
            self.object, self.reason
        )
    }
}

#[cfg(test)]
mod tests {
    use super::forks::tests::{forks, is_setup_locked};
    use super::*;
    use std::sync::atomic::AtomicU32;

    const NOTHING: AcrossForks = AcrossForks { before: || (), in_parent: || (), in_child: || () };

    fn state(room: &Ready) -> u8 {
        room.state.load(Ordering::Relaxed)
    }

    #[test]
    fn hooks_are_installed_once_while_nobody_forks() {
        static INSTALLED: AtomicU32 = AtomicU32::new(0);
        static ROOM: Ready = Ready::new(Rank::Test, NOTHING, || {
            assert!(is_setup_locked());
            assert_eq!(state(&ROOM), NEW);
            INSTALLED.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(state(&ROOM), NEW);
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| ROOM.prepare()));
        });
        assert_eq!((state(&ROOM), INSTALLED.load(Ordering::Relaxed)), (READY, 1));
        assert!(ROOM.require().is_ok());
        assert_eq!(INSTALLED.load(Ordering::Relaxed), 1);
    }

    #[cfg(probe_backend = "patched")]
    #[test]
    #[cfg_attr(miri, ignore = "pthread_setcancelstate(3)")]
    fn a_room_that_need_not_stay_leaves_the_threads_cancellation_alone() {
        static OBSERVED: AtomicU32 = AtomicU32::new(0);
        static ROOM: Ready = Ready::new(Rank::Test, NOTHING, || {
            let was_off = crate::os::cancel::tests::is_off();
            OBSERVED.store(1 + u32::from(was_off), Ordering::Relaxed);
        })
        .unkept();
        assert!(ROOM.require().is_ok());
        assert_eq!((state(&ROOM), OBSERVED.load(Ordering::Relaxed)), (READY, 1));
    }

    #[test]
    fn no_room_gets_ready_while_a_thread_forks() {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        const COUNTS: AcrossForks = AcrossForks {
            before: || {
                assert_eq!(state(&ROOM), READY);
                TAKEN.fetch_add(1, Ordering::Relaxed);
            },
            in_parent: || assert_ne!(TAKEN.fetch_sub(1, Ordering::Relaxed), 0, "it was not taken"),
            in_child: || (),
        };
        static ROOM: Ready = Ready::new(Rank::Forked, COUNTS, || ());
        let mut other = None;
        forks(|| {
            other = Some(std::thread::spawn(|| ROOM.prepare()));
            // Long enough for a thread that does not wait.
            for _ in 0..10_000 {
                std::thread::yield_now();
            }
            assert_eq!(state(&ROOM), NEW);
        });
        other.expect("it was started").join().unwrap();
        assert_eq!(state(&ROOM), READY);
        forks(|| assert_eq!(TAKEN.load(Ordering::Relaxed), 1));
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_attaches_tries_again_where_it_was_not_kept_loaded() {
        static ROOM: Ready = Ready::new(Rank::Test, NOTHING, || ());
        ROOM.unpin();
        ROOM.prepare();
        assert_eq!(state(&ROOM), UNPINNED);
        assert!(ROOM.require().is_ok());
        assert_eq!(state(&ROOM), READY);
    }
}
