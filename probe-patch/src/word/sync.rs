//! Atomics, threads and locks for the state machine: the standard library's, or the model
//! checker's.

#[cfg(not(all(test, loom)))]
pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(all(test, not(loom)))]
pub(super) use std::{
    sync::{Arc, Mutex},
    thread,
};

#[cfg(all(test, loom))]
pub(super) use loom::{
    sync::{Arc, Mutex},
    thread,
};
