//! Callers and stacks for one attachment.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::kept::{KeptStacks, StackNumber};
use super::objects::Objects;
use super::walk::{Cache, MOST_WORDS, Rules, Walk};
use crate::engine::dispatch::Event;
use crate::engine::os::guarded_read;

/// Finds callers for one attachment.
pub(crate) struct Callers {
    objects: Objects,
    keeps_stacks: bool,
}

impl Callers {
    /// Gets ready for callers, and for stacks if they are asked for.
    #[expect(clippy::unnecessary_wraps, reason = "other builds know none")]
    pub(crate) fn new(keeps_stacks: bool) -> Option<Self> {
        guarded_read::prepare();
        Some(Self { objects: Objects::new(), keeps_stacks })
    }

    /// Learns of objects that have come or gone.
    pub(crate) fn look(&self) {
        self.objects.look();
    }

    /// Returns whether objects came or went more often than there is room for.
    pub(crate) fn are_outdated(&self) -> bool {
        self.objects.is_outdated()
    }

    /// Returns the words of memory that a thread needs for its stacks.
    pub(crate) fn words(&self) -> usize {
        if self.keeps_stacks { KeptStacks::WORDS } else { 0 }
    }

    /// Returns the address of the call that led to a hit's function, less than a return address
    /// by one.
    #[inline(always)]
    pub(crate) fn caller(&self, event: &Event<'_>, rules: &Rules) -> Option<u64> {
        let at = event.site_registers()?;
        if let Some(returns_to) = at.return_address() {
            return Some(returns_to.wrapping_sub(1));
        }
        let (cache, mut walk) = (Cache::new(rules, &self.objects), Walk::at_site(&at, rules));
        let is_there = event.values().is_empty() || walk.go_to_site(&cache, event.definition_addr());
        if is_there { walk.caller(&cache) } else { None }
    }

    /// Returns the number of the stack of calls that led to a hit's function; `None` if this thread
    /// has no room for it.
    #[inline(never)]
    pub(crate) fn stack(&self, event: &Event<'_>, rules: &Rules, memory: &[AtomicU64]) -> Option<u64> {
        let mut calls = [0; MOST_WORDS];
        let (len, number) = match event.site_registers() {
            Some(at) => {
                let cache = Cache::new(rules, &self.objects);
                let mut walk = Walk::at_site(&at, rules);
                let is_there = at.is_at_return
                    || event.values().is_empty()
                    || walk.go_to_site(&cache, event.definition_addr());
                if is_there {
                    walk.calls(at.is_at_return, &cache, &mut calls)
                } else {
                    Walk::unknown(&mut calls)
                }
            }
            None => (0, StackNumber::new()),
        };
        KeptStacks::of(memory)?.number(number, &calls[..len])
    }

    /// Returns the stacks in these threads' memories, by their numbers: calls from the innermost
    /// one, and perhaps a mark.
    pub(crate) fn stacks<'a>(memories: impl Iterator<Item = &'a [AtomicU64]>) -> HashMap<u64, Vec<u64>> {
        memories.filter_map(KeptStacks::of).flat_map(KeptStacks::all).collect()
    }

    /// Returns the names of the functions that made these calls.
    pub(crate) fn names(&self, calls: &BTreeSet<u64>) -> Arc<HashMap<u64, String>> {
        self.objects.names(calls)
    }
}

/// Stacks in traces.
#[cfg(feature = "trace")]
impl Callers {
    /// Returns the number of the stack of the nearest call alone; `None` if this thread has no room
    /// for it.
    #[inline(never)]
    pub(crate) fn nearest(&self, event: &Event<'_>, rules: &Rules, memory: &[AtomicU64]) -> Option<u64> {
        let call = self.caller(event, rules).unwrap_or(super::Ending::Unknown as u64);
        let mut number = StackNumber::new();
        number.add(call);
        KeptStacks::of(memory)?.number(number, &[call])
    }

    /// Returns a number that grows with each stack in a thread's memory.
    pub(crate) fn used(memory: &[AtomicU64]) -> u64 {
        KeptStacks::of(memory).map_or(0, |kept| kept.used())
    }

    /// Returns the names of the functions that made these calls, without those of earlier reports.
    /// Takes no lock of this crate.
    pub(crate) fn names_now(&self, calls: &[u64]) -> HashMap<u64, String> {
        self.objects.names_now(calls)
    }

    /// Returns the name of a call that may be of any of several objects, if it is one.
    pub(crate) fn name_of_several(&self, call: u64) -> Option<String> {
        self.objects.name_of_several(call)
    }

    /// Returns the number of the list of objects, which each change of it makes larger.
    pub(crate) fn list_number(&self) -> usize {
        self.objects.number()
    }
}
