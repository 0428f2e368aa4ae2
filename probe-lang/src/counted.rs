//! Numbers of texts that this process has parsed, for tests.

use std::sync::atomic::AtomicUsize;

/// Selectors.
pub static SELECTORS: AtomicUsize = AtomicUsize::new(0);
/// Whole specs.
pub static SPECS: AtomicUsize = AtomicUsize::new(0);
