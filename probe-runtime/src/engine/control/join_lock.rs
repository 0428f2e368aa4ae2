//! The turn of a thread that lets probes join persistent attachments, and the notes that some wait.
//!
//! One thread at a time lets probes join. It takes the turn before the control lock, since the
//! consumer's code runs in it. An operation that finds another thread's turn waits for its end, so
//! that it sees the probes joined. Detaching waits, too, so that the consumer is not in use when it
//! is dropped. Inside a hit no thread waits, and none joins.
//!
//! The turn is a word with its owner, and no lock: a child that was forked inside a hit may have a
//! copy of another thread's turn, which it ends.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use std::{ptr, thread};

use crate::engine::dispatch::is_in_hit;
use crate::engine::os::cancel::Uncancellable;

/// How often something was noted, and up to which note probes have joined.
static NOTED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// The thread that lets probes join; 0 while none does.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// The work of a turn.
static WORK: OnceLock<fn()> = OnceLock::new();

/// How often a thread yields before it sleeps.
const PATIENCE: u32 = 100;

thread_local! {
    /// Its address names a thread. Whether this thread has taken the turn for a fork.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// Returns a number that no other living thread has. A forked child's thread keeps it.
fn this_thread() -> usize {
    FORKS.with(|own| ptr::from_ref(own).addr())
}

fn is_own() -> bool {
    OWNER.load(Ordering::Relaxed) == this_thread()
}

/// The right to let probes join.
pub(super) struct Turn(());

impl Turn {
    /// Waits for the turn; `None` on a thread that has it, or that is in a hit.
    pub(super) fn take() -> Option<Self> {
        if is_in_hit() || is_own() {
            return None;
        }
        let _whole = Uncancellable::new();
        for reading in 0_u32.. {
            let taken = OWNER.compare_exchange_weak(0, this_thread(), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                break;
            }
            if reading < PATIENCE {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(100));
            }
        }
        Some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        OWNER.store(0, Ordering::Release);
    }
}

/// Holds the turn across a fork, so that no consumer's work is cut in two in the child. A fork in
/// such work itself finds the turn its thread's own, and a fork in a hit waits for nothing.
pub(super) fn before_fork() {
    if let Some(turn) = Turn::take() {
        FORKS.set(true);
        std::mem::forget(turn);
    }
}

pub(super) fn after_fork() {
    if FORKS.replace(false) {
        drop(Turn(()));
    }
}

/// The same in the child. Returns whether a thread that the child does not have was letting probes
/// join.
pub(super) fn after_fork_in_child() -> bool {
    let is_cut = OWNER.load(Ordering::Relaxed) != 0 && !is_own();
    if is_cut {
        drop(Turn(()));
    }
    after_fork();
    is_cut
}

/// Returns whether probes are to join, and this thread may let them.
pub(super) fn is_due() -> bool {
    DONE.load(Ordering::SeqCst) != NOTED.load(Ordering::SeqCst) && !is_in_hit() && !is_own()
}

/// Returns whether all probes have joined that were noted.
#[inline(always)]
pub(super) fn is_done() -> bool {
    DONE.load(Ordering::SeqCst) == NOTED.load(Ordering::SeqCst)
}

/// Notes that probes are to join, for the next operation.
pub(super) fn note() {
    NOTED.fetch_add(1, Ordering::SeqCst);
}

/// Sets the work of a turn, before anything is noted.
pub(super) fn set_work(work: fn()) {
    let _ = WORK.set(work);
}

/// Lets the probes join that were noted before, or waits until another thread has. The control lock
/// is free.
#[cold]
pub(super) fn join_waiting() {
    // A consumer's own work in it may reach cancellation points.
    let _whole = Uncancellable::new();
    let (Some(work), Some(_turn)) = (WORK.get(), Turn::take()) else { return };
    let noted = NOTED.load(Ordering::SeqCst);
    if DONE.load(Ordering::SeqCst) != noted {
        work();
        DONE.store(noted, Ordering::SeqCst);
    }
}
