//! The turn of a thread that lets probes join standing attachments, and the note that some wait.
//!
//! One thread at a time lets probes join. It takes the turn before the control lock, since the
//! consumer's code runs in it. Detaching waits for another thread's turn, so that the consumer is
//! not in use when it is dropped. Inside a hit no thread waits, and none joins.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::dispatch::is_in_hit;
use crate::os::kept::Kept;

/// Whether probes are to join an attachment.
static WAITING: AtomicBool = AtomicBool::new(false);
/// Held by the thread that lets probes join.
static TURN: Mutex<()> = Mutex::new(());
/// The work of a turn.
static WORK: OnceLock<fn()> = OnceLock::new();

thread_local! {
    /// Whether this thread has the turn.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
    static ACROSS_FORK: Kept<Turn> = const { Kept::new() };
}

/// The right to let probes join.
pub(super) struct Turn(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Turn {
    /// Waits for the turn; `None` on a thread that has it, or that is in a hit.
    pub(super) fn take() -> Option<Self> {
        if is_in_hit() || HAS_TURN.get() {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        HAS_TURN.set(true);
        Some(Self(turn))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}

/// Holds the turn across a fork, so that no consumer's work is cut in two in the child. A fork in
/// such work itself finds the turn its thread's own.
pub(super) fn before_fork() {
    if let Some(turn) = Turn::take() {
        ACROSS_FORK.with(|kept| kept.keep(turn));
    }
}

pub(super) fn after_fork() {
    drop(ACROSS_FORK.with(Kept::take));
}

/// Returns whether probes are to join, and this thread may let them.
pub(super) fn is_due() -> bool {
    WAITING.load(Ordering::SeqCst) && !is_in_hit() && !HAS_TURN.get()
}

/// Notes that probes are to join, for the next operation.
pub(super) fn note() {
    WAITING.store(true, Ordering::SeqCst);
}

/// Sets the work of a turn, before anything is noted.
pub(super) fn set_work(work: fn()) {
    let _ = WORK.set(work);
}

/// Lets the probes join that are waiting. The control lock is free.
#[cold]
pub(super) fn join_waiting() {
    let (Some(work), Some(_turn)) = (WORK.get(), Turn::take()) else { return };
    while WAITING.swap(false, Ordering::SeqCst) {
        work();
    }
}
