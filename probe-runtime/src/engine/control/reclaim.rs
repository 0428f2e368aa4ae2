//! Unpublished data, and how operations end: which hits they wait for, and which data they free.
//!
//! | operation | waits |
//! |---|---|
//! | attach, resume, release, install, switch, discoveries | never |
//! | hold, remove a replacement | for threads between a site and a consumer |
//! | pause, detach | for these, and for hits in its own consumer |
//!
//! Threads are between a site and a consumer for a few instructions, so counts are at rest after
//! the wait. A later operation frees whatever other hits may still be reading
//! ([`Reclaimer`](crate::engine::dispatch::Reclaimer)).
//!
//! Data that operations unpublished, kept until no hit can be using it.

use std::ops::Range;
use std::sync::Arc;

use super::counting::count;
use super::lock::lock;
use crate::engine::dispatch::{
    BarrierProof, CounterAt, Quiescent, Subscription, Unpublished, WaitFor, synchronize,
};
use crate::engine::os::cancel::Uncancellable;
use crate::engine::registry::provider;
use crate::engine::sites::Visibility;

/// Ends an operation after the lock is released. If its visibility asks for it, makes every thread
/// see the operation, and waits for hits. Then frees data that no thread can be using.
///
/// Returns `None` if it waited for no hit. Inside a hit it never waits, since the awaited hit may
/// be further down the same stack.
pub(super) fn settle(visibility: Visibility, awaited: Option<WaitFor>) -> Option<Quiescent> {
    // Sleeping and dropping consumers may reach cancellation points.
    let _whole = Uncancellable::new();
    let is_synchronous = visibility == Visibility::Synchronous;
    if !is_synchronous && !lock().reclaimer.has_new() {
        return None;
    }
    let (garbage, fenced) = collect(|_| true);
    free(garbage);
    let left = synchronize(&fenced?, awaited.filter(|_| is_synchronous)?);
    // Threads that were between a site and a consumer have moved on.
    if left.is_some() && !lock().reclaimer.is_empty() {
        free(collect(|_| true).0);
    }
    left
}

/// Frees data that no thread can be using, except consumers: an operation that does not detach
/// should not run the code of a consumer's `drop`. An attachment's remains are retired together
/// with its hooks or after them. Waits for no thread.
pub(super) fn tidy() {
    let _whole = Uncancellable::new();
    free(collect(|garbage| !matches!(garbage, Garbage::Detached(_))).0);
}

fn collect(is_asked_for: fn(&Garbage) -> bool) -> (Vec<Garbage>, Option<BarrierProof>) {
    let mut locked = lock();
    if locked.reclaimer.is_empty() {
        drop(locked);
        return (Vec::new(), BarrierProof::new());
    }
    let fenced = BarrierProof::new();
    let garbage = fenced.as_ref().map(|fenced| locked.reclaimer.collect(fenced, is_asked_for));
    (garbage.unwrap_or_default(), fenced)
}

fn free(garbage: Vec<Garbage>) {
    let mut ranges = Vec::new();
    for one in garbage {
        // Consumers are dropped here. Their code may do anything: the lock is free.
        match one {
            Garbage::Hooks(hooks) => drop(hooks),
            Garbage::Detached(detached) => {
                let Detached { subscription, counters, used, late } = *detached;
                // A consumer that is dropped may still ask for it.
                let suppressed = counters.clone().next().map(CounterAt::new);
                subscription.keep_suppressed(suppressed.map_or(0, count));
                drop(subscription.take_unreachable());
                ranges.push((counters, used));
                ranges.extend(late.into_iter().map(|late| (late.clone(), late.len())));
            }
            Garbage::Provider(garbage) => drop(garbage),
        }
    }
    if ranges.iter().any(|(range, _)| !range.is_empty()) {
        let mut locked = lock();
        ranges.into_iter().for_each(|(range, used)| locked.attachments.counters.give_back(range, used));
    }
}

/// Data that threads inside a hit may still be using. Dropping it frees it.
pub(super) enum Garbage {
    Hooks(Unpublished),
    Detached(Box<Detached>),
    Provider(provider::RetiredMemory),
}

/// The remains of an attachment. They include its consumer if no thread has waited for that.
pub(super) struct Detached {
    pub(super) subscription: Arc<Subscription>,
    pub(super) counters: Range<usize>,
    /// The number of counters, from the first, that may have counted hits.
    pub(super) used: usize,
    /// The counters of probes that have joined later.
    pub(super) late: Vec<Range<usize>>,
}
