//! The atomics of the state machine: the real ones, or those of the model checker.

#[cfg(not(all(test, loom)))]
pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
