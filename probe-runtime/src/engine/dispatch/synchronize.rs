//! Waiting until no thread uses an object that is about to be taken away.
//!
//! 1. The caller makes it unreachable: closes a subscription, or publishes other data in its place
//!    (a store).
//! 2. `heavy_barrier`: every thread that sets its mark later sees that store; the mark of every
//!    thread that may not have seen it is visible here.
//! 3. Each slot is watched until its thread is neither between a site and a consumer, which lasts
//!    for some instructions, nor in the consumer that is taken away, or until the hit that it was
//!    in has ended.
//!
//! Threads in other consumers, however long they stay there, are not waited for. The data that they
//! have read is freed when they have left ([`reclaimer`](super::reclaimer)).
//!
//! This is the asymmetric form of read-copy-update and of hazard pointers (Desnoyers et al.,
//! "User-Level Implementations of Read-Copy Update", the membarrier flavour; Michael, "Hazard
//! Pointers"). A hit pays one store to begin, one to end, and one for each call of a consumer.

use std::thread;
use std::time::Duration;

use super::thread_slot::{ThreadSlot, free_all, slots};
use super::{HitMark, ownership};
use crate::engine::os;

/// Number of readings before the waiting thread sleeps, and before it asks whether the other thread
/// still exists.
const YIELD_LIMIT: u32 = 100;

/// The threads to wait for, besides those between sites and consumers.
#[derive(Clone, Copy)]
pub(crate) enum WaitFor {
    /// No others.
    Passing,
    /// Threads in a consumer, which have the mark of its subscription.
    Consumer(HitMark),
    /// Threads in the callback of discoveries.
    Callback,
}

/// Proof of a heavy barrier: every thread sees all that was published and closed before it.
pub(crate) struct BarrierProof(());

impl BarrierProof {
    /// Executes the barrier; `None` if the system has none.
    pub(crate) fn new() -> Option<Self> {
        os::heavy_barrier().then_some(Self(()))
    }
}

/// Proof that no thread is in the awaited place any more.
pub(crate) struct Quiescent(Option<HitMark>);

impl Quiescent {
    /// Returns whether the awaited place was the consumer with this mark.
    pub(super) fn is_of(&self, mark: HitMark) -> bool {
        self.0 == Some(mark)
    }
}

/// Returns whether this thread is in a hit.
pub(crate) fn is_in_hit() -> bool {
    ThreadSlot::known().is_some_and(|own| !own.mark().is_outside())
}

/// Returns whether this thread is neither in a hit nor in an operation.
pub(crate) fn is_outside() -> bool {
    ThreadSlot::known().is_none_or(|own| own.mark() == HitMark::IDLE)
}

/// Waits until each thread has left the awaited place. Returns `None`, without waiting, on a thread
/// that is in a hit itself: the awaited call may be further down its own stack.
pub(crate) fn synchronize(_fenced: &BarrierProof, awaited: WaitFor) -> Option<Quiescent> {
    if is_in_hit() {
        return None;
    }
    let mark = match awaited {
        WaitFor::Passing => None,
        WaitFor::Consumer(mark) => Some(mark),
        WaitFor::Callback => Some(HitMark::IN_CALLBACK),
    };
    slots().for_each(|slot| wait_for(slot, mark));
    Some(Quiescent(mark))
}

fn wait_for(slot: &ThreadSlot, awaited: Option<HitMark>) {
    let watched = slot.hit_state().watch();
    let mut readings = 0_u32;
    while slot.hit_state().is_in(watched, awaited) {
        readings += 1;
        if readings < YIELD_LIMIT {
            thread::yield_now();
            continue;
        }
        // The thread has ended inside a consumer (pthread_exit).
        if slot.reap_if_dead() {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// For a forked child, where only the thread that forked is left, with another id. Other threads
/// may have been taking a slot or giving one back.
pub(crate) fn forget_other_threads() {
    ownership::record_process();
    let own = ThreadSlot::known();
    let is_own = |slot: &ThreadSlot| own.is_some_and(|own| std::ptr::eq(own, slot));
    if let Some(slot) = own {
        slot.adopt();
    }
    free_all(slots().filter(|slot| !is_own(slot)));
}
