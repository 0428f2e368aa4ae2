//! Callers and stacks for one attachment.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::kept::KeptStacks;
use super::objects::Objects;
use super::walk::{CACHE_WORDS, Cache, Walk};
use crate::engine::dispatch::{Event, SiteRegisters};
use crate::engine::os::guarded_read;
use probe_core::abi::Kind;

/// Frames of a stack.
const DEPTH: usize = 16;

/// Finds callers for one attachment.
pub(crate) struct Callers {
    objects: Objects,
    keeps_stacks: bool,
}

impl Callers {
    /// Gets ready for callers, and for stacks if they are asked for.
    #[expect(clippy::unnecessary_wraps, reason = "other builds know none")]
    pub(crate) fn new(keeps_stacks: bool) -> Option<Self> {
        if keeps_stacks {
            guarded_read::prepare();
        }
        Some(Self { objects: Objects::new(), keeps_stacks })
    }

    /// Learns of objects that have come or gone.
    pub(crate) fn look(&self) {
        self.objects.look();
    }

    /// Returns the words of memory that a thread needs.
    pub(crate) fn words(&self) -> usize {
        CACHE_WORDS + if self.keeps_stacks { KeptStacks::WORDS } else { 0 }
    }

    /// Returns the address of the call that led to a hit's function, less than a return address
    /// by one.
    #[inline(always)]
    pub(crate) fn caller(&self, event: &Event<'_>, memory: &[AtomicU64]) -> Option<u64> {
        let at = registers(event)?;
        match at.returns_to {
            Some(returns_to) => Some(returns_to.wrapping_sub(1)),
            None => Walk::at_site(&at).caller(&Cache::new(memory, &self.objects)),
        }
    }

    /// Returns the number of the stack of calls that led to a hit's function; `None` if this thread
    /// has no room for it.
    #[inline(never)]
    pub(crate) fn stack(&self, event: &Event<'_>, memory: &[AtomicU64]) -> Option<u64> {
        let mut calls = [0; DEPTH + 1];
        let len = registers(event).map_or(0, |at| {
            let cache = Cache::new(memory, &self.objects);
            Walk::at_site(&at).calls(at.returns_to.is_some(), &cache, &mut calls)
        });
        KeptStacks::of(memory.get(CACHE_WORDS..)?).number(&calls[..len])
    }

    /// Returns the stacks of these threads' memories, by their numbers: calls from the innermost
    /// one, and perhaps a mark.
    pub(crate) fn stacks<'a>(
        &self,
        memories: impl Iterator<Item = &'a [AtomicU64]>,
    ) -> HashMap<u64, Vec<u64>> {
        let kept = memories.filter(|_| self.keeps_stacks).filter_map(|memory| memory.get(CACHE_WORDS..));
        kept.flat_map(|memory| KeptStacks::of(memory).all()).collect()
    }

    /// Returns the names of the functions that made these calls.
    pub(crate) fn names(&self, calls: &BTreeSet<u64>) -> Arc<HashMap<u64, String>> {
        self.objects.names(calls)
    }
}

/// Returns the registers at a hit's site; `None` of one that may be in another function than the
/// probe's: a guard's `drop` has the exits of Rust.
#[inline(always)]
fn registers(event: &Event<'_>) -> Option<SiteRegisters> {
    if event.kind() == Kind::Exit && !event.may_skip_exit() { None } else { event.site_registers() }
}
