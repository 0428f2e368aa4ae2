//! Builds that know no callers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::engine::dispatch::Event;

/// There are none.
pub(crate) type Rules = [AtomicU64; 0];

/// There is none.
pub(crate) enum Callers {}

impl Callers {
    pub(crate) fn new(_keeps_stacks: bool) -> Option<Self> {
        None
    }

    pub(crate) fn look(&self) {
        match *self {}
    }

    pub(crate) fn are_outdated(&self) -> bool {
        match *self {}
    }

    pub(crate) fn words(&self) -> usize {
        match *self {}
    }

    pub(crate) fn caller(&self, _: &Event<'_>, _: &Rules) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn stack(&self, _: &Event<'_>, _: &Rules, _: &[AtomicU64]) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn stacks<'a>(_: impl Iterator<Item = &'a [AtomicU64]>) -> HashMap<u64, Vec<u64>> {
        HashMap::new()
    }

    pub(crate) fn names(&self, _: &BTreeSet<u64>) -> Arc<HashMap<u64, String>> {
        match *self {}
    }
}

#[cfg(feature = "trace")]
impl Callers {
    pub(crate) fn nearest(&self, _: &Event<'_>, _: &Rules, _: &[AtomicU64]) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn used(_: &[AtomicU64]) -> u64 {
        0
    }

    pub(crate) fn names_now(&self, _: &[u64]) -> HashMap<u64, String> {
        match *self {}
    }

    pub(crate) fn name_of_several(&self, _: u64) -> Option<String> {
        match *self {}
    }

    pub(crate) fn list_number(&self) -> usize {
        match *self {}
    }
}
