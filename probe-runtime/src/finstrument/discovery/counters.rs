//! The counters of hooks.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number that only grows.
pub(super) struct Counter(AtomicUsize);

impl Counter {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) static DISCOVERED: Counter = Counter::new();
pub(super) static PATCHED: Counter = Counter::new();
pub(super) static SPLIT_CALLS: Counter = Counter::new();
pub(super) static TAIL_JUMPS: Counter = Counter::new();
pub(super) static POSTPONED: Counter = Counter::new();
pub(super) static LOST: Counter = Counter::new();
pub(super) static UNTOLD: Counter = Counter::new();
pub(super) static UNNAMED: Counter = Counter::new();
pub(super) static BEYOND: Counter = Counter::new();
