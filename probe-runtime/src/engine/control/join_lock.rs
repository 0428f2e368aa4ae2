//! The lock under which one thread at a time lets probes join persistent attachments, and the
//! requests for it.
//!
//! The lock is taken before the control lock, since the consumer's code runs under it. An operation
//! that finds another thread holding it waits, so that it sees the probes joined. Detaching waits,
//! too, so that the consumer is not in use when it is dropped. Inside a hit no thread waits, and no
//! probes join.
//!
//! The lock is a word that holds its owner, not a mutex: a child that was forked inside a hit may
//! have a copy of the lock that another thread held, and releases it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use std::{ptr, thread};

use super::join::join_pending;
use crate::engine::dispatch::is_in_hit;
use crate::engine::os::cancel::Uncancellable;

/// The number of requests to let probes join.
static REQUESTED: AtomicU64 = AtomicU64::new(0);
/// The number of these whose probes have joined.
static COMPLETED: AtomicU64 = AtomicU64::new(0);
/// The thread that holds the lock; 0 if none does.
static OWNER: AtomicUsize = AtomicUsize::new(0);

/// How often a waiting thread yields before it sleeps between its tries.
const YIELDS_BEFORE_SLEEP: u32 = 100;

thread_local! {
    /// Whether this thread holds the lock for a fork. Its address names the thread.
    static HELD_FOR_FORK: Cell<bool> = const { Cell::new(false) };
}

/// Returns a number that no other living thread has. A forked child's thread keeps it.
fn this_thread() -> usize {
    HELD_FOR_FORK.with(|own| ptr::from_ref(own).addr())
}

fn is_held_here() -> bool {
    OWNER.load(Ordering::Relaxed) == this_thread()
}

/// The held lock.
pub(super) struct JoinLock(());

impl JoinLock {
    /// Waits for the lock. Returns `None` on a thread that holds it, or that is in a hit.
    pub(super) fn acquire() -> Option<Self> {
        if is_in_hit() || is_held_here() {
            return None;
        }
        let _whole = Uncancellable::new();
        for attempt in 0_u32.. {
            let taken = OWNER.compare_exchange_weak(0, this_thread(), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                break;
            }
            if attempt < YIELDS_BEFORE_SLEEP {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(100));
            }
        }
        Some(Self(()))
    }
}

impl Drop for JoinLock {
    fn drop(&mut self) {
        OWNER.store(0, Ordering::Release);
    }
}

/// Holds the lock across a fork, so that the child has no consumer's work half done. A fork within
/// such work itself holds the lock already. A fork in a hit waits for nothing.
pub(super) fn before_fork() {
    if let Some(held) = JoinLock::acquire() {
        HELD_FOR_FORK.set(true);
        std::mem::forget(held);
    }
}

pub(super) fn after_fork() {
    if HELD_FOR_FORK.replace(false) {
        drop(JoinLock(()));
    }
}

/// The same in the child. Returns whether a thread that the child does not have held the lock.
pub(super) fn after_fork_in_child() -> bool {
    let is_orphaned = OWNER.load(Ordering::Relaxed) != 0 && !is_held_here();
    if is_orphaned {
        drop(JoinLock(()));
    }
    after_fork();
    is_orphaned
}

/// Returns whether there are requests that this thread may serve.
pub(super) fn is_due() -> bool {
    COMPLETED.load(Ordering::SeqCst) != REQUESTED.load(Ordering::SeqCst) && !is_in_hit() && !is_held_here()
}

/// Returns whether the probes of all requests have joined.
#[inline(always)]
pub(super) fn is_complete() -> bool {
    COMPLETED.load(Ordering::SeqCst) == REQUESTED.load(Ordering::SeqCst)
}

/// Asks the next operation to let probes join.
pub(super) fn request() {
    REQUESTED.fetch_add(1, Ordering::SeqCst);
}

/// Serves the requests made so far, or waits until another thread has. The control lock is free.
#[cold]
pub(super) fn run_requested() {
    // A consumer's own work in it may reach cancellation points.
    let _whole = Uncancellable::new();
    let Some(_held) = JoinLock::acquire() else { return };
    let requested = REQUESTED.load(Ordering::SeqCst);
    if COMPLETED.load(Ordering::SeqCst) != requested {
        join_pending();
        COMPLETED.store(requested, Ordering::SeqCst);
    }
}
