//! What was unpublished, and how operations end: who is waited for, and what is freed.
//!
//! | operation | waits for hits |
//! |---|---|
//! | attach, resume, release, install, switch, discoveries | of nobody |
//! | hold, remove a replacement | of nobody, but for threads between a site and a consumer |
//! | pause, detach | the same, and of its own consumer |
//!
//! Threads between a site and a consumer are there for some instructions, so counts have come to
//! rest afterwards. Whatever else hits may still be reading is freed by a later operation
//! ([`Limbo`](crate::dispatch::Limbo)).

use std::ops::Range;
use std::sync::Arc;

use super::lock::lock;
use crate::dispatch::{Awaited, Fenced, Left, Subscription, Unpublished, wait};
use crate::os::cancel::Uncancellable;
use crate::patch::Visibility;
use crate::registry::provider;

/// What threads inside of a hit may still be using. It is there to be dropped.
pub(super) enum Garbage {
    Hooks(Unpublished),
    Detached(Box<Detached>),
    Provider(provider::Garbage),
}

/// What an attachment leaves. Its consumer is among it where nobody has waited for that.
pub(super) struct Detached {
    pub(super) subscription: Arc<Subscription>,
    pub(super) tallies: Range<usize>,
    /// In how many of these, from the first, hits may have been counted.
    pub(super) used: usize,
}

/// Ends an operation, after the lock is released: has every thread see it, and waits for hits, if
/// its visibility asks for either; frees what none can be using. `None` where nobody was waited
/// for: so in a hit, where it may be one further down this very stack.
pub(super) fn settle(visibility: Visibility, awaited: Option<Awaited<'_>>) -> Option<Left> {
    // It sleeps, and drops consumers.
    let _whole = Uncancellable::new();
    let is_synchronous = visibility == Visibility::Synchronous;
    if !is_synchronous && !lock().limbo.has_new() {
        return None;
    }
    let (garbage, fenced) = collect(|_| true);
    free(garbage);
    let left = wait(&fenced?, awaited.filter(|_| is_synchronous)?);
    // Those who were passing have moved on.
    if left.is_some() && !lock().limbo.is_empty() {
        free(collect(|_| true).0);
    }
    left
}

/// Frees what no thread can be using, but for consumers: who asks for something else need not run
/// what their drop runs. What an attachment leaves is retired with its hooks, or after them. Nobody
/// is waited for.
pub(super) fn tidy() {
    let _whole = Uncancellable::new();
    free(collect(|garbage| !matches!(garbage, Garbage::Detached(_))).0);
}

fn collect(is_asked_for: fn(&Garbage) -> bool) -> (Vec<Garbage>, Option<Fenced>) {
    let mut locked = lock();
    if locked.limbo.is_empty() {
        drop(locked);
        return (Vec::new(), Fenced::new());
    }
    let fenced = Fenced::new();
    let garbage = fenced.as_ref().map(|fenced| locked.limbo.collect(fenced, is_asked_for));
    (garbage.unwrap_or_default(), fenced)
}

fn free(garbage: Vec<Garbage>) {
    let mut ranges = Vec::new();
    for one in garbage {
        // Consumers are dropped here, and may do what they like: the lock is free.
        match one {
            Garbage::Hooks(hooks) => drop(hooks),
            Garbage::Detached(detached) => {
                let Detached { subscription, tallies, used } = *detached;
                drop(subscription.take_unreachable());
                ranges.push((tallies, used));
            }
            Garbage::Provider(garbage) => drop(garbage),
        }
    }
    if ranges.iter().any(|(range, _)| !range.is_empty()) {
        let mut locked = lock();
        ranges.into_iter().for_each(|(range, used)| locked.tallies.give_back(range, used));
    }
}
