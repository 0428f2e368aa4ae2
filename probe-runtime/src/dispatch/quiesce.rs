//! Waiting until no thread is where something is taken from.
//!
//! 1. The caller has said so: closed a subscription, or published something else in its place (a
//!    store).
//! 2. `heavy_barrier`: every thread that sets its mark later sees that store; the mark of every
//!    thread that may not have seen it is visible here.
//! 3. Each slot is watched until its thread is elsewhere: neither on its way between a site and a
//!    consumer, which takes it some instructions, nor in what is taken away, nor in the hit that it
//!    was in.
//!
//! Threads in other consumers, however long they may be there, are not waited for. What they have
//! read is freed when they are gone ([`limbo`](super::limbo)).
//!
//! The asymmetric form of read-copy-update and of hazard pointers (Desnoyers et al., "User-Level
//! Implementations of Read-Copy Update", the membarrier flavour; Michael, "Hazard Pointers"): a hit
//! pays one store to begin and one to end, and one for each call of a consumer.

use std::thread;
use std::time::Duration;

use super::slot::{Slot, free_all, slots};
use super::{Mark, Subscription, ended};
use crate::os;

/// Looks before it sleeps, and before it asks whether the thread still exists.
const PATIENCE: u32 = 100;

/// Who is waited for, beside threads between sites and consumers.
#[derive(Clone, Copy)]
pub(crate) enum Awaited<'a> {
    /// Nobody.
    Passing,
    /// Threads in this one's consumer.
    Subscription(&'a Subscription),
    /// Threads in the callback of discoveries.
    #[cfg(probe_discovers)]
    Callback,
}

/// Every thread sees what was published and closed before it was made.
pub(crate) struct Fenced(());

impl Fenced {
    /// `None` where there is no barrier.
    pub(crate) fn new() -> Option<Self> {
        os::heavy_barrier().then_some(Self(()))
    }
}

/// No thread is there any more.
pub(crate) struct Left(Option<Mark>);

impl Left {
    /// Whether it was this one's consumer that was left.
    pub(super) fn is_of(&self, subscription: &Subscription) -> bool {
        self.0 == Some(subscription.mark())
    }
}

/// Waits until each thread has left where it is awaited. Returns `None`, without waiting, on a
/// thread that is in a hit itself: that may be further down its own stack.
pub(crate) fn wait(_fenced: &Fenced, awaited: Awaited<'_>) -> Option<Left> {
    if Slot::known().is_some_and(|own| !own.mark().is_outside()) {
        return None;
    }
    let mark = match awaited {
        Awaited::Passing => None,
        Awaited::Subscription(subscription) => Some(subscription.mark()),
        #[cfg(probe_discovers)]
        Awaited::Callback => Some(Mark::TELLING),
    };
    slots().for_each(|slot| wait_for(slot, mark));
    Some(Left(mark))
}

fn wait_for(slot: &Slot, awaited: Option<Mark>) {
    let watched = slot.presence().watch();
    let mut looks = 0_u32;
    while slot.presence().is_in(watched, awaited) {
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

/// After a fork, in the child: only the thread that forked is left, and it has another id. Others
/// may have been on their way into a slot or out of one.
pub(crate) fn forget_other_threads() {
    ended::know_process();
    let own = Slot::known();
    let is_own = |slot: &Slot| own.is_some_and(|own| std::ptr::eq(own, slot));
    if let Some(slot) = own {
        slot.own();
    }
    free_all(slots().filter(|slot| !is_own(slot)));
}
