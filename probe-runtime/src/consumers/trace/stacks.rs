//! The stacks of a trace's hits, or their nearest callers.
//!
//! A hit keeps its stack in its thread's table, and the ring has the stack's number. The writer of
//! a file looks for new stacks each second, and before the file ends. One for Perfetto looks each
//! time before it converts hits. It names the calls of new stacks.
//!
//! A name stands for a call as long as one object alone was ever at that address. Once another one
//! has taken its place, the stack is written anew, with the address.
//!
//! Cost: see `engine::stacks`. A writer that finds no new stack has read a word of each thread. One
//! that finds a call without a name reads the symbols of its object's file.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::calls::add_single_writer;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::PerThread;
use crate::engine::stacks::{Callers, Ending, NO_CALLERS, Rules};
use probe_core::abi::Kind;
use probe_report::was;

/// How many calls of a stack hits have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Depth {
    /// The nearest one.
    Caller,
    /// Sixteen.
    Stack,
}

impl Depth {
    /// Returns the name of a definition's last field, the stack.
    pub(super) fn field<'a>(self, mut others: impl Iterator<Item = &'a str>) -> &'static str {
        let [name, other_name] = match self {
            Self::Caller => ["caller", "probe.caller"],
            Self::Stack => ["stack", "probe.stack"],
        };
        if others.any(|other| other == name) { other_name } else { name }
    }
}

/// Returns whether hits of this kind have a stack. A call has that of its entry.
pub(super) fn has_stack(kind: Kind) -> bool {
    matches!(kind, Kind::Entry | Kind::Point)
}

/// The stacks of all threads.
pub(super) struct Stacks {
    pub(super) depth: Depth,
    callers: Callers,
    /// The stacks of a thread, and then its hits for which there was no room.
    memory: PerThread<Rules, AtomicU64>,
}

/// The stacks that a file has.
#[derive(Default)]
pub(super) struct WrittenStacks {
    names: HashMap<u64, String>,
    /// The hashes of stacks' names, by their numbers.
    stacks: HashMap<u64, u64>,
    /// The words in use of tables, by their addresses.
    used: HashMap<usize, u64>,
    /// The number of the list of objects.
    list: usize,
}

impl Stacks {
    /// # Errors
    /// [`Error::Consumer`] if this build knows no callers.
    pub(super) fn new(depth: Depth) -> Result<Self, Error> {
        let callers = Callers::new(true).ok_or_else(|| Error::Consumer(NO_CALLERS.into()))?;
        let memory = PerThread::new(callers.words() + 1)?;
        Ok(Self { depth, callers, memory })
    }

    /// Learns of objects that have come or gone.
    pub(super) fn look(&self) {
        self.callers.look();
    }

    /// Returns the number of a hit's stack; 0 if there is no room for it.
    #[inline(never)]
    pub(super) fn number(&self, event: &Event<'_>) -> u64 {
        let Some(local) = self.memory.of(event) else { return 0 };
        let number = match self.depth {
            Depth::Caller => self.callers.nearest(event, local.head(), local.parts()),
            Depth::Stack => self.callers.stack(event, local.head(), local.parts()),
        };
        number.unwrap_or_else(|| {
            local.parts().last().into_iter().for_each(|count| add_single_writer(count, 1));
            0
        })
    }

    /// Returns a line each about hits without a stack, and about objects that nobody has seen.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let count = |parts: &[AtomicU64]| parts.last().map_or(0, |count| count.load(Relaxed));
        let hits = self.memory.lost() + self.memory.iter().map(|local| count(local.parts())).sum::<u64>();
        let without =
            (hits != 0).then(|| format!("{} left without a stack: there are too many", was(hits, "hit")));
        let is_outdated = self.callers.are_outdated();
        let outdated = is_outdated
            .then(|| "callers in libraries of late are not known: too many came and went".to_owned());
        without.into_iter().chain(outdated)
    }

    /// Returns the content of a block of those stacks that a file lacks, or has with other names.
    pub(super) fn unwritten(&self, written: &mut WrittenStacks) -> Option<Vec<u8>> {
        self.callers.look();
        let list = self.callers.list_number();
        let has_objects = mem::replace(&mut written.list, list) != list;
        let mut tables: Vec<_> = self.memory.iter().map(|local| local.parts()).collect();
        tables.retain(|table| {
            let used = Callers::used(table);
            written.used.insert(table.as_ptr().addr(), used).unwrap_or(0) != used || has_objects
        });
        if tables.is_empty() {
            return None;
        }
        let stacks = Callers::stacks(tables.into_iter());
        let mut new: Vec<_> = stacks.values().flatten().copied().collect();
        new.retain(|call| Ending::of(*call).is_none() && !written.names.contains_key(call));
        new.sort_unstable();
        new.dedup();
        if has_objects {
            let known = written.names.iter_mut();
            known.for_each(|(call, name)| {
                if let Some(other) = self.callers.name_of_several(*call) {
                    *name = other;
                }
            });
        }
        written.names.extend(self.callers.names_now(&new));
        let missing = stacks.into_iter().filter(|(number, calls)| {
            let mut hasher = DefaultHasher::new();
            calls.iter().for_each(|call| written.names.get(call).hash(&mut hasher));
            written.stacks.insert(*number, hasher.finish()) != Some(hasher.finish())
        });
        let missing: BTreeMap<_, _> = missing.collect();
        (!missing.is_empty()).then(|| encode(&missing, &written.names))
    }
}

/// Returns stacks as a block has them.
fn encode(stacks: &BTreeMap<u64, Vec<u64>>, names: &HashMap<u64, String>) -> Vec<u8> {
    let mut numbers = HashMap::new();
    let (mut texts, mut words) = (Vec::new(), Vec::new());
    for (number, calls) in stacks {
        words.extend([*number, calls.len() as u64]);
        for call in calls {
            let name = match Ending::of(*call) {
                Some(ending) => ending.text(),
                None => names.get(call).map_or(Ending::Unknown.text(), String::as_str),
            };
            let next = numbers.len() as u64;
            words.push(*numbers.entry(name).or_insert_with(|| {
                texts.extend(u32::try_from(name.len()).unwrap_or_default().to_le_bytes());
                texts.extend(name.as_bytes());
                next
            }));
        }
    }
    let mut block = (numbers.len() as u64).to_le_bytes().to_vec();
    block.extend(texts);
    block.resize(block.len().next_multiple_of(8), 0);
    words.iter().for_each(|word| block.extend(word.to_le_bytes()));
    block
}
