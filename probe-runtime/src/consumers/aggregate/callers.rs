//! Callers and stacks in keys: their names, when a report is made.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::key::{ABSENT, CallerKey, WrittenKeys};
use crate::engine::stacks::{Callers, Ending};

/// A stack for which its thread had no room.
pub(super) const NO_ROOM: &str = "(others)";

/// The names of calls and stacks.
#[derive(Default)]
pub(super) struct CallerNames {
    calls: Arc<HashMap<u64, String>>,
    stacks: HashMap<u64, Vec<u64>>,
}

impl CallerNames {
    /// Reads the stacks of threads' memories, and names all of their calls and those of keys.
    pub(super) fn of<'a>(
        callers: &Callers,
        memories: impl Iterator<Item = &'a [AtomicU64]>,
        keys: impl Iterator<Item = &'a mut WrittenKeys>,
    ) -> Self {
        let stacks = Callers::stacks(memories);
        let mut calls = BTreeSet::new();
        for keys in keys {
            keys.each_caller(|key| match key {
                CallerKey::Call(addr) => _ = calls.insert(*addr),
                CallerKey::Stack(number) => calls.extend(stacks.get(number).into_iter().flatten()),
            });
        }
        calls.retain(|addr| Ending::of(*addr).is_none());
        Self { calls: callers.names(&calls), stacks }
    }

    pub(super) fn of_call(&self, addr: u64) -> String {
        match Ending::of(addr) {
            Some(ending) => ending.text().to_owned(),
            None => self.calls.get(&addr).cloned().unwrap_or_else(|| format!("{addr:#x}")),
        }
    }

    /// Returns a stack as a line of folded stacks: from the outermost caller.
    pub(super) fn of_stack(&self, number: u64) -> String {
        let Some(calls) = self.stacks.get(&number) else { return NO_ROOM.to_owned() };
        if calls.is_empty() {
            return ABSENT.to_owned();
        }
        let names = calls.iter().rev().map(|addr| self.of_call(*addr).replace(';', ":"));
        names.collect::<Vec<_>>().join(";")
    }

    /// Puts hashes of names in the place of addresses: calls of one function are one key.
    pub(super) fn by_names(&self, keys: &mut WrittenKeys) {
        let hash = |name: String| {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            hasher.finish()
        };
        keys.each_caller(|key| match key {
            CallerKey::Call(addr) => *addr = hash(self.of_call(*addr)),
            CallerKey::Stack(number) => *number = hash(self.of_stack(*number)),
        });
    }
}
