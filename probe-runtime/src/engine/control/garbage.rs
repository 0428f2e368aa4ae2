//! Data that operations unpublished, kept until no hit can be using it.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::dispatch::{Subscription, Unpublished};
use crate::engine::registry::provider;

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
