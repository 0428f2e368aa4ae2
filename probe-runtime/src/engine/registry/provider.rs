//! Providers: each finds probes that no object's note lists, and switches their call sites.
//!
//! Life: a provider [registers](register) before it publishes the first call site, and
//! [notes](note) that it has found some. The next operation makes the provider
//! ([`ProviderStart::begin`]), has it name the call sites, and lists them
//! ([`discovered`](super::discovered)). The registry owns the [`Providers`] from then on, so their
//! methods run under the control lock only.
//! Cost: a load for each operation while nothing is noted. An operation that switches call sites
//! gathers them in a vector and makes a dynamic call to each provider. That one makes another
//! dynamic call for each call site, which tells its type. A build without a provider pays nothing.

// Safety: relies on the type of `register`, which takes a reference that is valid for ever.
#![expect(unsafe_code, reason = "see above")]

use std::any::Any;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::ProbeId;
#[cfg(probe_values)]
use crate::engine::dispatch::Reading;
use crate::engine::dispatch::Subscription;
use crate::engine::os::objects::Frozen;
#[cfg(probe_backend = "patched")]
use crate::engine::os::objects::KeptLoaded;
#[cfg(probe_values)]
use crate::engine::sites::SITE_LEN;
#[cfg(probe_backend = "patched")]
use crate::engine::sites::{Access, Report, Site};
use probe_core::abi::Definition;

/// Whether this build can have a provider. Code that only a provider's findings reach asks this
/// first, so that other builds leave the code out.
pub(crate) const IS_POSSIBLE: bool = cfg!(probe_discovers);

/// The functions of a provider that run before the registry has it.
pub(crate) struct ProviderStart {
    /// Allocates the resources that the provider's hooks need and can't allocate themselves. Runs
    /// before any lock is taken.
    pub(crate) get_ready: fn(),
    /// Makes the provider. The registry calls it once, under the control lock.
    pub(crate) begin: fn() -> Box<dyn Provider>,
}

/// The most providers that a program can have.
const MAX_PROVIDERS: usize = 3;

/// The registered ones, in their order; null behind them.
static STARTS: [AtomicPtr<ProviderStart>; MAX_PROVIDERS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_PROVIDERS];
/// Whether a provider has noted something since an operation last asked.
static NOTED: AtomicBool = AtomicBool::new(false);
/// Whether the next operation has to look at everything.
static ALL: AtomicBool = AtomicBool::new(false);

/// How often a provider has found call sites ahead, and up to which time consumers have them all.
static LOOKS: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Counts a look of the provider that has found call sites ahead. Returns its number.
pub(crate) fn begin_look() -> usize {
    LOOKS.fetch_add(1, Ordering::SeqCst) + 1
}

/// Returns the number of looks until now. An operation asks while it holds the control lock.
#[inline(always)]
pub(crate) fn looks() -> usize {
    if IS_POSSIBLE { LOOKS.load(Ordering::SeqCst) } else { 0 }
}

/// Notes that consumers have what these looks have found.
#[inline(always)]
pub(crate) fn end_looks(looks: usize) {
    if IS_POSSIBLE {
        ENDED.fetch_max(looks, Ordering::SeqCst);
    }
}

/// Returns whether consumers have what a look has found.
pub(crate) fn has_ended(look: usize) -> bool {
    ENDED.load(Ordering::SeqCst) >= look
}

/// Registers a provider, once. Hooks call this, so it waits for nothing.
pub(crate) fn register(start: &'static ProviderStart) {
    let start = ptr::from_ref(start).cast_mut();
    for place in &STARTS {
        let taken = place.compare_exchange(ptr::null_mut(), start, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() || taken == Err(start) {
            return;
        }
    }
}

/// Returns whether a provider may find probes.
pub(crate) fn is_registered() -> bool {
    registered().next().is_some()
}

fn registered() -> impl Iterator<Item = &'static ProviderStart> {
    // SAFETY: null, or a `&'static ProviderStart` from `register`.
    STARTS.iter().map_while(|start| unsafe { start.load(Ordering::Acquire).as_ref() })
}

/// Makes the next operation look at the provider's findings.
pub(crate) fn note() {
    NOTED.store(true, Ordering::SeqCst);
}

/// Makes the next operation look at everything.
pub(crate) fn note_all() {
    ALL.store(true, Ordering::SeqCst);
    note();
}

/// Returns whether an operation has to look.
#[inline(always)]
pub(crate) fn is_noted() -> bool {
    IS_POSSIBLE && NOTED.load(Ordering::SeqCst)
}

/// Gets the providers ready, if there is something to look at. An operation calls this before it
/// takes a lock.
#[inline(always)]
pub(crate) fn get_ready() {
    if is_noted() {
        registered().for_each(|start| (start.get_ready)());
    }
}

/// Takes the note, if there was one. Returns whether everything has to be looked at. The note is
/// cleared first, so this operation or the next one sees a concurrent note.
pub(super) fn take_noted() -> Option<bool> {
    if !is_noted() || !is_registered() {
        return None;
    }
    NOTED.store(false, Ordering::SeqCst);
    Some(ALL.swap(false, Ordering::SeqCst))
}

/// Call sites that have names.
#[derive(Default)]
pub(crate) struct Findings {
    /// Call sites in loaded objects, by address for each provider.
    pub(crate) living: Vec<&'static dyn CallSite>,
    /// Call sites whose objects were unloaded, or loaded anew.
    pub(crate) unloaded: Option<RetiredMemory>,
    /// The objects of the living ones.
    #[cfg(probe_backend = "patched")]
    pub(crate) objects: Vec<crate::engine::os::objects::Object>,
}

/// Memory that hits may still be reading. The control drops it once none does.
pub(crate) type RetiredMemory = Box<dyn Any + Send>;

/// The amount of call sites to list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Due {
    #[default]
    Nothing,
    Some,
    /// Everything may have changed.
    All,
}

/// Finds call sites. Any reference to a provider proves that the calling thread holds the control
/// lock: the registry has all providers, only the holder of the lock reaches the registry, and
/// providers are not `Sync`.
pub(crate) trait Provider: Send {
    /// Finds call sites that were not reached yet, if that was asked for. Returns whether it has
    /// found some. Objects may be unloaded meanwhile.
    fn look_ahead(&mut self) -> bool;

    /// Names the call sites found since the last time, or all of them if `is_all`. Objects may be
    /// unloaded meanwhile.
    fn name_pending(&mut self, is_all: bool);

    /// Patches call sites that could not be patched when they were found. Returns how many there
    /// are to list.
    fn patch_pending(&mut self, frozen: &Frozen) -> Due;

    /// Lists all call sites, or only pending ones if `is_all` is false. All must be listed after an
    /// unload.
    fn find(&mut self, frozen: &Frozen, is_all: bool) -> Findings;

    /// Switches those of these call sites that are this provider's, as one batch.
    #[cfg(probe_backend = "patched")]
    fn switch(
        &self,
        calls: &[&'static dyn CallSite],
        active: bool,
        access: Access,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    );

    /// Makes call sites that are found from now on count from their first hits, with these
    /// counters. The caller adds those that are listed. These functions do nothing in a provider
    /// that finds call sites without hits.
    fn begin_first_hits(&mut self, _subscription: Arc<Subscription>, _counters: Range<usize>) {}

    /// Returns whether first hits count.
    fn counts_first_hits(&self) -> bool {
        false
    }

    /// Notes that there was no room for a call site.
    fn go_beyond(&mut self, _call: &'static dyn CallSite) {}

    /// Takes the hooks that call sites were published with, once no definition refers to them.
    fn take_hooks(&mut self, _calls: &[&'static dyn CallSite]) -> Option<RetiredMemory> {
        None
    }

    /// Ends the counting of first hits.
    fn end_first_hits(&mut self) -> Option<RetiredMemory> {
        None
    }
}

/// All providers, as one.
#[derive(Default)]
pub(super) struct Providers(Vec<Box<dyn Provider>>);

impl Providers {
    #[cfg(test)]
    pub(super) fn of(provider: Box<dyn Provider>) -> Self {
        Self(vec![provider])
    }

    /// Makes those that have registered since the last call.
    pub(super) fn begin_registered(&mut self) {
        let new = registered().skip(self.0.len());
        self.0.extend(new.map(|start| (start.begin)()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Joins memory that is retired at the same time.
fn join(retired: impl Iterator<Item = RetiredMemory>) -> Option<RetiredMemory> {
    let retired: Vec<_> = retired.collect();
    (!retired.is_empty()).then(|| Box::new(retired) as _)
}

impl Provider for Providers {
    fn look_ahead(&mut self) -> bool {
        let mut has_found = false;
        for provider in &mut self.0 {
            has_found |= provider.look_ahead();
        }
        has_found
    }

    fn name_pending(&mut self, is_all: bool) {
        self.0.iter_mut().for_each(|it| it.name_pending(is_all));
    }

    fn patch_pending(&mut self, frozen: &Frozen) -> Due {
        self.0.iter_mut().map(|it| it.patch_pending(frozen)).max().unwrap_or_default()
    }

    fn find(&mut self, frozen: &Frozen, is_all: bool) -> Findings {
        let found: Vec<_> = self.0.iter_mut().map(|it| it.find(frozen, is_all)).collect();
        let (mut all, mut unloaded) = (Findings::default(), Vec::new());
        for findings in found {
            all.living.extend(findings.living);
            unloaded.extend(findings.unloaded);
            #[cfg(probe_backend = "patched")]
            all.objects.extend(findings.objects);
        }
        all.unloaded = join(unloaded.into_iter());
        all
    }

    #[cfg(probe_backend = "patched")]
    fn switch(
        &self,
        calls: &[&'static dyn CallSite],
        active: bool,
        access: Access,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        self.0.iter().for_each(|it| it.switch(calls, active, access, report, loaded));
    }

    fn begin_first_hits(&mut self, subscription: Arc<Subscription>, counters: Range<usize>) {
        for provider in &mut self.0 {
            provider.begin_first_hits(Arc::clone(&subscription), counters.clone());
        }
    }

    fn counts_first_hits(&self) -> bool {
        self.0.iter().any(|it| it.counts_first_hits())
    }

    fn go_beyond(&mut self, call: &'static dyn CallSite) {
        self.0.iter_mut().for_each(|it| it.go_beyond(call));
    }

    fn take_hooks(&mut self, calls: &[&'static dyn CallSite]) -> Option<RetiredMemory> {
        join(self.0.iter_mut().filter_map(|it| it.take_hooks(calls)))
    }

    fn end_first_hits(&mut self) -> Option<RetiredMemory> {
        join(self.0.iter_mut().filter_map(|it| it.end_first_hits()))
    }
}

/// The values at a call site that knows them by itself.
#[cfg(probe_values)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnValues {
    /// The address after the call.
    pub(crate) after: usize,
    /// Their names, and how they are read.
    pub(crate) values: &'static [(String, Reading)],
}

/// The probe that the registry has for a call site: its number, from 1; 0 before it is listed.
#[derive(Debug)]
pub(crate) struct ListedProbe(AtomicUsize);

impl ListedProbe {
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(crate) fn get(&self) -> Option<ProbeId> {
        self.0.load(Ordering::Relaxed).checked_sub(1).map(ProbeId::new)
    }

    pub(crate) fn set(&self, id: ProbeId) {
        self.0.store(id.index() + 1, Ordering::Relaxed);
    }

    /// Notes that it is not listed.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A call site that no table lists.
pub(crate) trait CallSite: Any + Sync {
    /// Returns its definition, if it has one yet. While the registry lists the call site, the
    /// definition stays; a refresh, which freezes, may take it off the list.
    fn definition<'a>(&'static self, frozen: &'a Frozen) -> Option<&'a Definition>;

    /// Returns the site, with its instruction while active.
    #[cfg(probe_backend = "patched")]
    fn site(&'static self) -> Option<Site>;

    /// Returns the address after its CALL.
    #[cfg(probe_values)]
    fn after(&'static self) -> Option<usize> {
        Some(self.site()?.addr.0 + SITE_LEN)
    }

    /// Returns whether it is a site that only the control changes.
    fn is_settled(&self) -> bool;

    /// Returns the number of instructions that are switched, or that call.
    fn places(&self) -> usize;

    /// Returns whether a hit has found it, so that hits may have passed before its probe joined.
    fn was_reached(&self) -> bool;

    /// Returns its probe; `None` before it is listed.
    fn probe(&self) -> Option<ProbeId>;

    /// Records its probe, when the registry lists it.
    fn set_probe(&self, id: ProbeId);

    /// Returns the index of the counter that it was published with.
    fn counter(&self) -> Option<usize>;

    /// Returns its values, if it knows them without debug information.
    #[cfg(probe_values)]
    fn own_values(&'static self) -> Option<OwnValues> {
        None
    }
}
