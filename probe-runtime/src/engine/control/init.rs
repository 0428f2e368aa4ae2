//! Initialisation before the first operation on probes; see `lifecycle` in `probe-patch`.

use super::lock;
use crate::engine::dispatch;
use crate::engine::dispatch::guard;
#[cfg(probe_backend = "patched")]
use crate::engine::entry::backend::announce;
use crate::engine::error::Error;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::pin::{Unpinned, pin_object};
use crate::engine::os::{AcrossForks, Rank, Ready, room};
#[cfg(probe_backend = "patched")]
use crate::engine::sites::{ReentrancyHooks, set_reentrancy_hooks};

static READY: Ready = room(Rank::Inner, ACROSS_FORKS, install_hooks);

const ACROSS_FORKS: AcrossForks = AcrossForks {
    before: lock::before_fork,
    in_parent: lock::after_fork_in_parent,
    in_child: lock::after_fork_in_child,
};

/// Initialises on the first call. It waits for constructors, so it must be called before taking a
/// lock of this crate or freezing.
#[inline]
pub(crate) fn init() {
    #[cfg(probe_backend = "patched")]
    crate::engine::sites::READY.prepare();
    READY.prepare();
}

/// Returns whether this is initialised, without waiting.
pub(crate) fn is_initialized() -> bool {
    READY.is_ready()
}

/// Initialises, for callers that put hooks into the program.
///
/// # Errors
/// [`Error::Unpinned`] if this copy of the crate could be unloaded.
pub(super) fn try_init() -> Result<(), Error> {
    // Its lock is taken under the control lock, where waiting for constructors is forbidden.
    #[cfg(probe_backend = "patched")]
    crate::engine::sites::READY.require().map_err(unpinned)?;
    READY.require().map_err(unpinned)
}

/// Keeps the object that contains this address loaded.
///
/// # Errors
/// [`Error::Unpinned`] if that can't be.
pub(super) fn pin_object_at(address: usize) -> Result<(), Error> {
    let _whole = Uncancellable::new();
    pin_object(address).map_err(unpinned)
}

fn unpinned(Unpinned { object, reason }: Unpinned) -> Error {
    Error::Unpinned { object, reason }
}

fn install_hooks() {
    #[cfg(probe_backend = "patched")]
    announce();
    dispatch::prepare();
    dispatch::on_failure(lock::pause_failed);
    // Last: it waits for threads that began to open text before the hooks were installed.
    #[cfg(probe_backend = "patched")]
    set_reentrancy_hooks(ReentrancyHooks { begin: guard::begin, end: guard::end });
}

#[cfg(all(test, probe_backend = "patched"))]
mod tests {
    use std::thread;

    use super::*;
    use crate::engine::sites::WritableRuns;

    #[test]
    fn initialisation_waits_for_a_thread_that_opens_text() {
        init();
        let batch = WritableRuns::new();
        let installed = thread::spawn(install_hooks);
        // A thread that does not wait would end meanwhile.
        for _ in 0..10_000 {
            thread::yield_now();
        }
        assert!(!installed.is_finished());
        drop(batch);
        assert!(installed.join().is_ok());
    }
}
