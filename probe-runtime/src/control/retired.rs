//! What was unpublished, and is freed once no thread can be using it any more.

use std::ops::Range;
use std::sync::Arc;

use super::lock::lock;
use super::members::Published;
#[cfg(probe_discovers)]
use super::state::Control;
use crate::dispatch::{Subscription, quiesce};
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::patch::Visibility;

/// What may still be in use by threads inside a hit.
#[derive(Default)]
pub(super) struct Retired {
    pub(super) hooks: Vec<Published>,
    #[cfg(probe_discovers)]
    pub(super) early: Vec<crate::finstrument::Taken>,
    #[cfg(probe_discovers)]
    pub(super) vanished: Vec<crate::finstrument::Vanished>,
    pub(super) subscription: Option<Arc<Subscription>>,
    pub(super) tallies: Range<usize>,
}

impl Retired {
    /// Whether something of it is to be freed, and not only to be used again.
    fn is_urgent(&self) -> bool {
        let is_empty = self.hooks.is_empty() && self.subscription.is_none();
        #[cfg(probe_discovers)]
        let is_empty = is_empty && self.early.is_empty() && self.vanished.is_empty();
        !is_empty
    }
}

#[cfg(probe_discovers)]
impl Control {
    /// What is retired, if discoveries are among it whose places others can use.
    pub(super) fn take_discovered(&mut self) -> Vec<Retired> {
        let has_any = self.retired.iter().any(|it| !it.vanished.is_empty());
        if has_any { std::mem::take(&mut self.retired) } else { Vec::new() }
    }
}

/// Ends an operation, after the lock is released: waits as its visibility asks, and frees what was retired.
pub(super) fn settle(visibility: Visibility) {
    // It sleeps, and drops consumers.
    let _whole = Uncancellable::new();
    let retired = std::mem::take(&mut lock().retired);
    let has_garbage = retired.iter().any(Retired::is_urgent);
    if visibility == Visibility::Eventual && !has_garbage {
        return;
    }
    if quiesce() {
        free(retired);
    } else {
        // Inside a hit: what is retired may be in use further down this very stack. The next operation frees it.
        lock().retired.extend(retired);
        if visibility == Visibility::Synchronous {
            os::heavy_barrier();
        }
    }
}

/// Frees what no thread can be using any more.
fn free(retired: Vec<Retired>) {
    let ranges: Vec<_> = retired.iter().map(|retired| retired.tallies.clone()).collect();
    // Consumers are dropped here, and may do what they like: the lock is free.
    drop(retired);
    let mut locked = lock();
    ranges.into_iter().for_each(|range| locked.tallies.give_back(range));
}

/// Frees what unloaded discoveries have left, if no thread is in a hit at the moment; else a later operation does. It does not wait: who
/// only looks at something may hold a lock that a consumer waits for.
#[cfg(probe_discovers)]
pub(super) fn tidy(retired: Vec<Retired>) {
    if retired.is_empty() {
        return;
    }
    let _whole = Uncancellable::new();
    if crate::dispatch::is_quiet() {
        free(retired);
    } else {
        lock().retired.extend(retired);
    }
}
