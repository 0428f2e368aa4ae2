//! The loaded objects at several moments: their unwind tables, which hits read, and their files,
//! which name functions.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::{fs, mem};

use crate::engine::by_probe::Appended;
use crate::engine::control::ForkSafe;
use crate::engine::os::fork;
use crate::engine::os::object_file::{readable_path, same_file};
use crate::engine::os::objects::{Frozen, Generation, Object, freeze};
use crate::engine::os::unwind_tables::UnwindCopy;
use crate::engine::registry::sites_with_fields;
use probe_hooks::unwinding::FrameRule;

/// How often the list may change while one attachment lasts.
const MOST_LISTS: usize = 1024;

/// An object that was loaded.
struct Known {
    object: Object,
    tables: Option<UnwindCopy>,
    /// The addresses of the sites of probes with fields, and those of their definitions.
    sites: Vec<(usize, usize)>,
    /// Tells it from others at the same place.
    identity: u64,
}

/// The objects of one moment.
struct List {
    generation: Generation,
    /// By their first addresses.
    objects: Box<[Arc<Known>]>,
}

/// The objects that an attachment has seen. Hits read the latest list. The earlier ones stay: hits
/// may be reading them, and addresses of then have names.
pub(super) struct Objects {
    lists: Appended<List>,
    /// Whether there was no room for a list.
    is_outdated: AtomicBool,
    /// By the addresses of calls.
    names: ForkSafe<HashMap<u64, String>>,
    /// The number of this process: a forked child looks no more.
    process: u64,
}

impl Known {
    fn new(object: Object, tables: Option<UnwindCopy>, sites: Vec<(usize, usize)>) -> Self {
        let mut hasher = DefaultHasher::new();
        (object.identity(), tables.as_ref().filter(|_| !object.is_main)).hash(&mut hasher);
        Self { object, tables, sites, identity: hasher.finish() }
    }

    fn rule(&self, addr: u64) -> Option<FrameRule> {
        self.tables.as_ref()?.tables().rule(addr)
    }
}

impl Objects {
    pub(super) fn new() -> Self {
        let lists = Appended::new(Vec::new(), MOST_LISTS);
        let (is_outdated, names) = (AtomicBool::new(false), ForkSafe::new(HashMap::new()));
        let objects = Self { lists, is_outdated, names, process: fork::process() };
        objects.look();
        objects
    }

    /// Brings the list up to date. Without room, hits go on with the last list.
    pub(super) fn look(&self) {
        if fork::process() == self.process {
            // Of two threads, the one with the later list adds it later.
            let add = |list| _ = self.lists.add(vec![list]) || self.is_outdated.swap(true, Relaxed);
            freeze(|frozen| Self::new_list(frozen, self.lists.last()).map(add));
        }
    }

    /// Returns whether there was no room for the list of now.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated.load(Relaxed)
    }

    /// Returns the list of now; `None` if it is the last one.
    fn new_list(frozen: &Frozen, last: Option<&List>) -> Option<List> {
        let generation = frozen.generation();
        if last.is_some_and(|last| last.generation == generation) {
            return None;
        }
        // Once something was unloaded, others may be in its place: only their tables tell.
        let kept = last.filter(|last| generation.has_lost_none_since(last.generation));
        let known =
            |object: &Object| kept?.objects.iter().find(|known| known.object == *object).map(Arc::clone);
        let same = |new: Known| {
            let of_last = last.and_then(|last| last.objects.iter().find(|it| it.identity == new.identity));
            of_last.map_or_else(|| Arc::new(new), Arc::clone)
        };
        let mut all_sites = None;
        let mut objects = frozen.every_with_tables(known, |object, tables| {
            let all_sites = all_sites.get_or_insert_with(|| sites_with_fields(frozen));
            let own = all_sites.iter_mut().find(|(base, _)| *base == object.base);
            let sites = own.map_or_else(Vec::new, |(_, sites)| mem::take(sites));
            same(Known::new(object, tables, sites))
        });
        objects.sort_by_key(|known| start(known));
        Some(List { generation, objects: objects.into() })
    }

    /// Returns a number for the present list, from 1.
    #[inline(always)]
    pub(super) fn number(&self) -> usize {
        self.lists.len()
    }

    /// Returns the rule at an address, which is searched in the tables.
    pub(super) fn rule(&self, addr: u64) -> Option<FrameRule> {
        self.holding(addr)?.rule(addr)
    }

    /// Returns whether the machine function at an address has a site with this definition, which
    /// has fields.
    pub(super) fn has_site(&self, addr: u64, definition: usize) -> bool {
        let Some(known) = self.holding(addr) else { return false };
        let function = known.tables.as_ref().and_then(|it| it.tables().function(addr));
        let Some(Range { start, end }) = function else { return false };
        let from = known.sites.partition_point(|(site, _)| (*site as u64) < start);
        let mut inside = known.sites[from..].iter().take_while(|(site, _)| (*site as u64) < end);
        inside.any(|(_, of)| *of == definition)
    }

    /// Returns the object that holds an address.
    fn holding(&self, addr: u64) -> Option<&Known> {
        let addr = usize::try_from(addr).ok()?;
        let objects = &self.lists.last()?.objects;
        let at = objects.partition_point(|known| start(known) <= addr);
        objects.get(at.checked_sub(1)?).filter(|known| known.object.holds(addr)).map(|known| &**known)
    }

    /// Returns the names of the functions at these addresses. One without a name is its object's
    /// with a distance, or a number if nobody knows which object was there.
    pub(super) fn names(&self, addrs: &BTreeSet<u64>) -> Arc<HashMap<u64, String>> {
        self.look();
        let known = self.names.get();
        let new: Vec<_> = addrs.iter().copied().filter(|addr| !known.contains_key(addr)).collect();
        if new.is_empty() {
            return known;
        }
        let mut names = HashMap::clone(&known);
        self.find(&new, &mut names);
        self.names.set(names);
        self.names.get()
    }

    /// Returns the names without those of earlier reports. Takes no lock of this crate.
    #[cfg(feature = "trace")]
    pub(super) fn names_now(&self, addrs: &[u64]) -> HashMap<u64, String> {
        let mut names = HashMap::new();
        self.find(addrs, &mut names);
        names
    }

    /// Returns the name of an address at which several objects were, if they were.
    #[cfg(feature = "trace")]
    pub(super) fn name_of_several(&self, addr: u64) -> Option<String> {
        self.only_one_at(addr).is_none().then(|| format!("{addr:#x}"))
    }

    fn find(&self, addrs: &[u64], names: &mut HashMap<u64, String>) {
        let mut of_object: HashMap<u64, (&Known, Vec<u64>)> = HashMap::new();
        for addr in addrs {
            match self.only_one_at(*addr) {
                Some(known) if known.rule(*addr) == Some(FrameRule::Signal) => {
                    names.insert(*addr, "(signal)".to_owned());
                }
                Some(known) => of_object.entry(known.identity).or_insert((known, Vec::new())).1.push(*addr),
                None => _ = names.insert(*addr, format!("{addr:#x}")),
            }
        }
        let loaded = self.lists.last().map_or(&[][..], |list| &list.objects);
        for (identity, (known, addrs)) in of_object {
            let is_loaded = loaded.iter().any(|it| it.identity == identity);
            // Another build's names would be wrong.
            let file = is_loaded.then(|| same_file(&known.object)).flatten();
            let places: Vec<_> = addrs.iter().filter_map(|addr| usize::try_from(*addr).ok()).collect();
            let mut functions = file.map_or_else(Vec::new, |file| file.functions_at(&places)).into_iter();
            for addr in addrs {
                let name = functions.next().flatten().unwrap_or_else(|| distance(&known.object, addr));
                names.insert(addr, name);
            }
        }
    }

    /// Returns the object at an address, if it is the only one that was ever there. One that came
    /// while others went may have been loaded in the place of one that nobody has seen.
    fn only_one_at(&self, addr: u64) -> Option<&Known> {
        let place = usize::try_from(addr).ok()?;
        let mut found: Option<&Known> = None;
        let mut last: Option<&List> = None;
        for list in &*self.lists {
            for known in list.objects.iter().filter(|known| known.object.holds(place)) {
                let is_new = found.is_none_or(|found| found.identity != known.identity);
                let lost_some =
                    last.is_some_and(|last| !list.generation.has_lost_none_since(last.generation));
                if is_new && (found.is_some() || lost_some) {
                    return None;
                }
                found = Some(known);
            }
            last = Some(list);
        }
        found
    }
}

/// Returns the first address of an object.
fn start(known: &Known) -> usize {
    known.object.segments.first().map_or(0, |segment| segment.range.start)
}

/// Returns an address as its object's file, and the distance from its beginning.
fn distance(object: &Object, addr: u64) -> String {
    let path = readable_path(object);
    let path = if object.is_main { fs::read_link(&path).unwrap_or(path) } else { path };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    format!("{name}+{:#x}", addr.wrapping_sub(object.base as u64))
}
