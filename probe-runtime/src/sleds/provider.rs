//! The provider of sleds, as the registry and the control use it.
//!
//! Life: from [`begin`] on, each operation looks at the objects that have come since the last one,
//! once each. It reads an object's file while objects may come and go, and makes the sleds while
//! none can. Sleds of an object that has gone are given back. If an object whose calls lead there
//! was loaded at its place, a later operation makes its sleds.
//! Cost: opening and reading the headers of each object's file, once; of one with sleds, its
//! symbols, names and lines.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use probe_hooks::{Place, ReadCache, Sleds, read_sleds};

use super::call_site::SledSite;
use super::memory::{NamedSleds, SledMemory};
use super::switch::switch;
use crate::engine::control;
use crate::engine::os::object_file::{object_file, readable_path};
use crate::engine::os::objects::{Frozen, Generation, KeptLoaded, Object, freeze};
use crate::engine::registry::provider::{self, CallSite, Due, Findings, Provider, ProviderStart, note};
use crate::engine::sites::{self, Access, Batch, Mode, Report, Site};

static START: ProviderStart = ProviderStart { get_ready, begin: SledProvider::begin };

/// Whether the caller of the first operation is the only thread, and has not reached `main`.
static IS_ALONE: AtomicBool = AtomicBool::new(false);

fn get_ready() {
    control::init();
    sites::make_room();
}

/// Lets operations find sleds from now on, and finds those of all loaded objects. `alone` says that
/// the program has not reached `main`.
pub(super) fn begin(alone: bool) {
    IS_ALONE.store(alone && threads() == Some(1), Ordering::Relaxed);
    provider::register(&START);
    note();
    control::discover_probes();
    IS_ALONE.store(false, Ordering::Relaxed);
}

/// Returns the number of threads of this process.
fn threads() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// Returns whether the file of a loaded object has sleds.
pub(super) fn are_loaded() -> bool {
    freeze(Frozen::every).iter().any(|object| read(object).is_some())
}

/// Tells a file from another one at the same path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileIdentity {
    device: u64,
    number: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(object: &Object) -> Option<Self> {
        let found = fs::metadata(readable_path(object)).ok()?;
        let changed = (found.mtime(), found.mtime_nsec());
        Some(Self { device: found.dev(), number: found.ino(), size: found.size(), changed })
    }
}

/// An object with sleds.
struct SledObject {
    identity: u64,
    file: Option<FileIdentity>,
    object: Object,
    memory: SledMemory,
}

struct SledProvider {
    /// The generation of the last look.
    generation: Option<Generation>,
    /// All loaded objects at that time.
    seen: HashMap<u64, Option<FileIdentity>>,
    /// Sleds of files, for objects that may be gone by now.
    read: Vec<(u64, Option<FileIdentity>, NamedSleds)>,
    objects: Vec<SledObject>,
    /// The number of these that are to be listed, from the end.
    new: usize,
    /// Memory of objects that have gone, while hits may be under way there.
    retired: Vec<Weak<[Range<usize>]>>,
}

impl SledProvider {
    fn begin() -> Box<dyn Provider> {
        let (seen, read, objects) = (HashMap::new(), Vec::new(), Vec::new());
        Box::new(Self { generation: None, seen, read, objects, new: 0, retired: Vec::new() })
    }

    /// Returns the memory of objects that have gone, as long as it is mapped.
    fn old_regions(&mut self, is_loaded: impl Fn(u64) -> bool) -> Vec<Range<usize>> {
        self.retired.retain(|it| it.strong_count() != 0);
        let gone =
            self.objects.iter().filter(|it| !is_loaded(it.identity) || !self.is_seen(it.identity, it.file));
        let gone = gone.map(|it| it.memory.regions());
        let all = self.retired.iter().cloned().chain(gone).filter_map(|it| it.upgrade());
        all.flat_map(|it| it.to_vec()).collect()
    }

    /// Returns whether an object's file is still the one that was read.
    fn is_seen(&self, identity: u64, file: Option<FileIdentity>) -> bool {
        self.seen.get(&identity) == Some(&file)
    }
}

impl Provider for SledProvider {
    fn look_ahead(&mut self) -> bool {
        let last = self.generation;
        let (generation, objects) = freeze(|frozen| {
            let generation = frozen.generation();
            (generation, if last == Some(generation) { Vec::new() } else { frozen.every() })
        });
        if last == Some(generation) {
            return false;
        }
        self.generation = Some(generation);
        let mut seen = HashMap::new();
        for object in objects {
            let (identity, file) = (object.identity(), FileIdentity::of(&object));
            seen.insert(identity, file);
            if !self.is_seen(identity, file)
                && let Some(sleds) = read(&object)
            {
                self.read.push((identity, file, name(&object, &sleds)));
            }
        }
        self.seen = seen;
        !self.read.is_empty()
    }

    fn name_pending(&mut self, _is_all: bool) {}

    fn patch_pending(&mut self, frozen: &Frozen) -> Due {
        if self.read.is_empty() {
            return Due::Nothing;
        }
        let read = std::mem::take(&mut self.read);
        let mut loaded: HashMap<_, _> =
            frozen.every().into_iter().map(|object| (object.identity(), object)).collect();
        let alone = IS_ALONE.load(Ordering::Relaxed) && threads() == Some(1);
        let old = self.old_regions(|identity| loaded.contains_key(&identity));
        for (identity, file, named) in read {
            if let Some(object) = loaded.remove(&identity) {
                // The place is free once the old memory is given back.
                if !old.is_empty() && SledMemory::needs_any(&named, &object, &old) {
                    self.read.push((identity, file, named));
                    note();
                    continue;
                }
                let memory = SledMemory::make(frozen, &named, &object, alone);
                self.objects.push(SledObject { identity, file, object, memory });
                self.new += 1;
            }
        }
        if self.new == 0 { Due::Nothing } else { Due::Some }
    }

    fn find(&mut self, frozen: &Frozen, is_all: bool) -> Findings {
        let new = std::mem::take(&mut self.new);
        let mut unloaded = Vec::new();
        if is_all {
            let loaded: Vec<_> = frozen.every().iter().map(Object::identity).collect();
            let (living, gone) = std::mem::take(&mut self.objects)
                .into_iter()
                .partition(|it| loaded.contains(&it.identity) && self.is_seen(it.identity, it.file));
            (self.objects, unloaded) = (living, gone);
            self.retired.extend(unloaded.iter().map(|it| it.memory.regions()));
        }
        let listed = if is_all { 0 } else { self.objects.len() - new };
        let listed = &self.objects[listed..];
        let mut living: Vec<_> = listed.iter().flat_map(|it| it.memory.sites()).collect();
        living.sort_by_key(|sled| sled.at);
        let unloaded: Vec<_> = unloaded.into_iter().map(|it| it.memory).collect();
        Findings {
            living: living.into_iter().map(|sled| sled as _).collect(),
            unloaded: (!unloaded.is_empty()).then(|| Box::new(unloaded) as _),
            objects: listed.iter().map(|it| it.object.clone()).collect(),
        }
    }

    fn switch(
        &self,
        calls: &[&'static dyn CallSite],
        active: bool,
        access: Access,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        let own = calls.iter().filter_map(|call| (*call as &dyn std::any::Any).downcast_ref::<SledSite>());
        let (settled, others): (Vec<_>, Vec<_>) = own.partition(|sled| sled.is_settled());
        // The registry does not list these as settled yet.
        let mut sites: Vec<Site> = settled.into_iter().filter_map(CallSite::site).collect();
        sites.sort_unstable_by_key(|site| site.addr);
        let mode = if active { Mode::Active } else { Mode::Latent };
        // An attachment may have opened the text before these sleds were found in it.
        let access = if access == Access::Held { Access::ByRun } else { access };
        Batch::new(mode, report, loaded).switch(&sites, access);
        switch(&others, active, access, report, loaded);
    }
}

/// Reads the sleds in an object's file; `None` if there are none.
fn read(object: &Object) -> Option<Sleds> {
    let path = readable_path(object);
    // The kernel's own object has no file.
    if !path.is_absolute() {
        return None;
    }
    let file = ReadCache::new(File::open(path).ok()?);
    read_sleds(&file).ok().flatten()
}

/// Names the functions of sleds.
fn name(object: &Object, sleds: &Sleds) -> NamedSleds {
    let file = object_file(object);
    let mut names = HashMap::new();
    let functions = sleds.usable.iter().map(|it| it.function);
    for function in functions.chain(sleds.unusable.iter().map(|it| it.function)) {
        let addr = usize::try_from(function).unwrap_or_default().wrapping_add(object.base);
        names.entry(function).or_insert_with(|| file.describe_sled(addr));
    }
    let refused = sleds.unusable.iter().map(|it| (it.function, it.place, it.obstacle.to_string()));
    let mut refused: Vec<(u64, Place, String)> = refused.collect();
    let mut usable = sleds.usable.clone();
    let own = (read as *const ()).addr().wrapping_sub(object.base) as u64;
    if object.holds((read as *const ()).addr()) && usable.iter().any(|it| it.function == own) {
        // A hit would hit these again, without end.
        let reason = "probe-runtime itself is compiled with sleds";
        refused.extend(usable.drain(..).map(|it| (it.function, it.place, reason.to_owned())));
    }
    NamedSleds { sleds: usable, refused, names }
}
