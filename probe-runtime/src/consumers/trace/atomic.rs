//! A ring's atomics: the standard library's. The model checker compiles `ring.rs` with its own.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
