//! Proofs of the locks that a caller holds.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::os::objects::Frozen;

/// Proof that the calling thread holds the control lock. The provider has the only one and
/// lends it to other modules; only the holder of the control lock reaches the provider.
pub(super) struct ControlLocked(());

/// Whether the proof was made.
static IS_MADE: AtomicBool = AtomicBool::new(false);

impl ControlLocked {
    /// Makes the proof, for the provider that the registry owns.
    ///
    /// # Panics
    /// If it was made before: a second one would be forged.
    pub(super) fn new() -> Self {
        assert!(!IS_MADE.swap(true, Ordering::Relaxed), "the registry has the only provider");
        Self(())
    }
}

/// Proof that the calling thread holds the control lock and that no object can be unloaded.
#[derive(Clone, Copy)]
pub(super) struct Exclusive<'a> {
    locked: &'a ControlLocked,
    frozen: &'a Frozen,
}

impl<'a> Exclusive<'a> {
    pub(super) fn new(locked: &'a ControlLocked, frozen: &'a Frozen) -> Self {
        Self { locked, frozen }
    }

    pub(super) fn locked(self) -> &'a ControlLocked {
        self.locked
    }

    pub(super) fn frozen(self) -> &'a Frozen {
        self.frozen
    }
}
