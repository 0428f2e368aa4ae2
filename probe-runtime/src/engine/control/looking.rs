//! Threads that look for probes by themselves, for hooks that wait for such a look.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of threads that look for probes by themselves, for hooks.
static LOOKERS: AtomicUsize = AtomicUsize::new(0);

/// While it lives, its thread [looks](super::look_for_probes) every
/// [`BETWEEN_LOOKS`](super::BETWEEN_LOOKS).
pub(crate) struct Looking(());

impl Looking {
    pub(crate) fn begin() -> Self {
        LOOKERS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Returns whether a thread does.
    #[cfg(probe_discovers)]
    pub(crate) fn is_any() -> bool {
        LOOKERS.load(Ordering::SeqCst) != 0
    }

    /// Forgets the parent's threads, in a forked child.
    pub(super) fn forget() {
        LOOKERS.store(0, Ordering::SeqCst);
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let one_less = |lookers: usize| lookers.checked_sub(1);
        let _ = LOOKERS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}
