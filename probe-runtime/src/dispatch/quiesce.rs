//! Waiting until no thread can still read what was unpublished.
//!
//! 1. The caller has unpublished the hook (a store).
//! 2. `heavy_barrier`: every thread that marks its slot later sees that store; the mark of every thread that
//!    may have read the old hook is visible here.
//! 3. Each slot is watched until it is idle, or has left the hit it was in.
//!
//! "Has left" means that its outermost hit has ended: a hit nested in it (a signal handler's) does not count, since the
//! outer one still holds what it has read.
//!
//! The asymmetric form of read-copy-update (Desnoyers et al., "User-Level Implementations of Read-Copy
//! Update", the membarrier flavour): a hit pays one store to begin and one to end.

use std::thread;
use std::time::Duration;

use super::slot::{Slot, free_all, slots};
use super::{Mark, ended};
use crate::os;

/// Looks before it sleeps, and before it asks whether the thread still exists.
const PATIENCE: u32 = 100;

/// Waits until each thread has left the hit it was in. Returns false, without waiting, on a thread that is
/// in a hit itself: what it unpublished may be in use further down its own stack; and where there is no barrier.
pub(crate) fn quiesce() -> bool {
    let own = Slot::known();
    if own.is_some_and(|slot| slot.mark() != Mark::Idle) {
        return false;
    }
    if !os::heavy_barrier() {
        return false;
    }
    slots().for_each(wait);
    true
}

/// The same without waiting: whether no thread, this one included, is in a hit that may have read what was unpublished. For who
/// may hold a lock that a hit waits for.
#[cfg(probe_discovers)]
pub(crate) fn is_quiet() -> bool {
    os::heavy_barrier() && slots().all(|slot| slot.mark() == Mark::Idle)
}

fn wait(slot: &Slot) {
    let watched = slot.presence().watch();
    let mut looks = 0_u32;
    while !slot.presence().has_left(watched) {
        looks += 1;
        if looks < PATIENCE {
            thread::yield_now();
            continue;
        }
        // Ended inside a consumer (pthread_exit).
        if slot.give_back_of_dead() {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// After a fork, in the child: only the thread that forked is left, and it has another id. Others may have been on their way
/// into a slot or out of one.
pub(crate) fn forget_other_threads() {
    ended::know_process();
    let own = Slot::known();
    let is_own = |slot: &Slot| own.is_some_and(|own| std::ptr::eq(own, slot));
    if let Some(slot) = own {
        slot.own();
    }
    free_all(slots().filter(|slot| !is_own(slot)));
}
