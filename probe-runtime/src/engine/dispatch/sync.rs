//! The atomics and barriers of `hit_state`: the real ones, or those of the model checker.

#[cfg(not(all(test, loom)))]
pub(super) use {
    crate::engine::entry::backend::light_barrier,
    std::sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The full fence that membarrier(2) makes of it, see `hit_state`.
#[cfg(all(test, loom))]
pub(super) fn light_barrier() {
    crate::engine::entry::backend::light_barrier();
    loom::sync::atomic::fence(Ordering::SeqCst);
}
