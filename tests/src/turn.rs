//! Tests of one process that take turns: they share its probes, its text or its signal handlers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the turn of this test, which lasts until the guard is dropped. A test that panics in
/// its turn spoils no other one.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
