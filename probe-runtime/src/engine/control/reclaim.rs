//! The end of an operation: which hits it waits for, and which memory it frees.
//!
//! | operation | waits |
//! |---|---|
//! | attach, resume, release, install, switch, discoveries | never |
//! | hold, remove a replacement | for threads between a site and a consumer |
//! | pause, detach | for these, and for hits in its own consumer |
//!
//! Threads are between a site and a consumer for a few instructions, so counts are at rest after
//! the wait. A later operation frees memory that other hits may still be reading
//! ([`Reclaimer`](crate::engine::dispatch::Reclaimer)).

use std::ops::Range;
use std::sync::Arc;

use super::counting::sum;
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
pub(super) fn finish_operation(visibility: Visibility, awaited: Option<WaitFor>) -> Option<Quiescent> {
    // Sleeping and dropping consumers may reach cancellation points.
    let _whole = Uncancellable::new();
    let is_synchronous = visibility == Visibility::Synchronous;
    if !is_synchronous && !lock().reclaimer.has_new() {
        return None;
    }
    let (reclaimable, fenced) = take_reclaimable(|_| true);
    free(reclaimable);
    let left = synchronize(&fenced?, awaited.filter(|_| is_synchronous)?);
    // Threads that were between a site and a consumer have moved on.
    if left.is_some() && !lock().reclaimer.is_empty() {
        free(take_reclaimable(|_| true).0);
    }
    left
}

/// Frees data that no thread can be using, except detached attachments: an operation that does not
/// detach should not run the code of a consumer's `drop`. These were retired together with their
/// hooks or later. Waits for no thread.
pub(super) fn reclaim_hooks() {
    let _whole = Uncancellable::new();
    free(take_reclaimable(|data| !matches!(data, Reclaimable::Detached(_))).0);
}

fn take_reclaimable(is_asked_for: fn(&Reclaimable) -> bool) -> (Vec<Reclaimable>, Option<BarrierProof>) {
    let mut locked = lock();
    if locked.reclaimer.is_empty() {
        drop(locked);
        return (Vec::new(), BarrierProof::new());
    }
    let fenced = BarrierProof::new();
    let reclaimable = fenced.as_ref().map(|fenced| locked.reclaimer.collect(fenced, is_asked_for));
    (reclaimable.unwrap_or_default(), fenced)
}

fn free(reclaimable: Vec<Reclaimable>) {
    let mut ranges = Vec::new();
    for data in reclaimable {
        // Consumers are dropped here. Their code may do anything: the lock is free.
        match data {
            Reclaimable::Hooks(hooks) => drop(hooks),
            Reclaimable::Detached(detached) => {
                let DetachedAttachment { subscription, counters, used, joined } = *detached;
                // A consumer that is dropped may still ask for it.
                let suppressed = counters.clone().next().map(CounterAt::new);
                subscription.keep_suppressed(suppressed.map_or(0, sum));
                drop(subscription.take_unreachable());
                ranges.push((counters, used));
                ranges.extend(joined.into_iter().map(|range| (range.clone(), range.len())));
            }
            Reclaimable::Provider(memory) => drop(memory),
        }
    }
    if ranges.iter().any(|(range, _)| !range.is_empty()) {
        let mut locked = lock();
        ranges.into_iter().for_each(|(range, used)| locked.attachments.counters.release(range, used));
    }
}

/// Unpublished data that threads inside a hit may still be using. Dropping it frees it.
pub(super) enum Reclaimable {
    Hooks(Unpublished),
    Detached(Box<DetachedAttachment>),
    Provider(provider::RetiredMemory),
}

/// An attachment after its end. It has its consumer if no thread has waited for that.
pub(super) struct DetachedAttachment {
    pub(super) subscription: Arc<Subscription>,
    pub(super) counters: Range<usize>,
    /// The number of counters, from the first, that may have counted hits.
    pub(super) used: usize,
    /// The counters of probes that have joined later.
    pub(super) joined: Vec<Range<usize>>,
}
