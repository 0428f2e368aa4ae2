//! What the state machine synchronises with: the real thing, or that of the model checker.

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
