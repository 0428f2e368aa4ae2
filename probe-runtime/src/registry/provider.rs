//! Who finds probes that no object's tables list, and switches their call sites.
//!
//! Life: a provider [registers](register) before it publishes the first call site, and [notes](note)
//! that it has found some. The next operation asks for the provider ([`Entry::begin`]), has it name
//! what it has found, and lists that ([`discovered`](super::discovered)). The registry owns the
//! provider from then on, so its methods run under the control lock only.
//!
//! Cost: a load for each operation while nothing is noted; one dynamic call for each batch of call
//! sites that an operation switches. Without a provider in the build, nothing.

// Safety: relies on `register` being given what stays for ever.
#![expect(unsafe_code, reason = "see above")]
#![cfg_attr(not(probe_discovers), expect(dead_code, reason = "no provider is in this build"))]

use std::any::Any;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::ProbeId;
use crate::abi::Definition;
use crate::dispatch::Subscription;
use crate::os::objects::Frozen;
#[cfg(probe_backend = "x86_64")]
use crate::patch::{Access, Report, Site};

/// Whether this build has a provider at all.
pub(super) const IS_POSSIBLE: bool = cfg!(probe_discovers);

/// How a provider is reached.
pub(crate) struct Entry {
    /// Sets up what the provider's hooks can't. Called before any lock is taken.
    pub(crate) get_ready: fn(),
    /// Makes the provider. Called once, by the holder of the control lock.
    pub(crate) begin: fn() -> Box<dyn Provider>,
}

static ENTRY: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());
/// Something was noted since the control looked last.
static NOTED: AtomicBool = AtomicBool::new(false);
/// The control has to look at everything.
static ALL: AtomicBool = AtomicBool::new(false);

/// Tells the registry of the provider. There is one.
pub(crate) fn register(entry: &'static Entry) {
    ENTRY.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
}

fn registered() -> Option<&'static Entry> {
    // SAFETY: null, or from `register`, which is given what stays for ever.
    unsafe { ENTRY.load(Ordering::Acquire).as_ref() }
}

/// Makes the next operation look at what its provider has found.
pub(crate) fn note() {
    NOTED.store(true, Ordering::SeqCst);
}

/// Makes the next operation look at everything.
pub(crate) fn note_all() {
    ALL.store(true, Ordering::SeqCst);
    note();
}

/// Whether an operation has to look.
#[inline(always)]
pub(crate) fn is_noted() -> bool {
    IS_POSSIBLE && NOTED.load(Ordering::SeqCst)
}

/// Sets up what there is to look at. An operation calls this before it takes a lock.
#[inline(always)]
pub(crate) fn get_ready() {
    if is_noted() {
        registered().into_iter().for_each(|entry| (entry.get_ready)());
    }
}

/// Who is registered, if there is something to look at, and whether that is everything. In this order:
/// what is noted meanwhile is taken now, or the next time.
pub(super) fn take_noted() -> Option<(&'static Entry, bool)> {
    let entry = registered().filter(|_| is_noted())?;
    NOTED.store(false, Ordering::SeqCst);
    Some((entry, ALL.swap(false, Ordering::SeqCst)))
}

/// What was found, as far as it is named.
#[derive(Default)]
pub(crate) struct Findings {
    /// Call sites in loaded objects, by address.
    pub(crate) living: Vec<&'static dyn CallSite>,
    /// Call sites whose objects were unloaded, or loaded anew.
    pub(crate) unloaded: Option<Garbage>,
    /// The objects of the living ones.
    #[cfg(probe_backend = "x86_64")]
    pub(crate) objects: Vec<crate::os::objects::Object>,
}

/// What hits may still be reading. Dropped once none does.
pub(crate) type Garbage = Box<dyn Any + Send>;

/// How much a provider has found since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Due {
    #[default]
    Nothing,
    Some,
    /// Everything may have changed.
    All,
}

/// Finds call sites. `&mut self` is the proof that the caller holds the control lock: the registry
/// has the only one.
pub(crate) trait Provider: Send {
    /// Names what was found since the last time; everything, if `is_all`. Nothing is frozen.
    fn name_pending(&mut self, is_all: bool);

    /// Patches what could not be patched when it was found. Returns how much there is to list.
    fn patch_pending(&mut self, frozen: &Frozen) -> Due;

    /// Lists everything; or what is pending alone, while no object has gone.
    fn find(&mut self, frozen: &Frozen, is_all: bool) -> Findings;

    /// Switches call sites, one batch.
    #[cfg(probe_backend = "x86_64")]
    fn switch(&self, calls: &[&'static dyn CallSite], active: bool, access: Access, report: &mut Report);

    /// Makes call sites count from their first hits on, with these counters. The caller adds those
    /// that are known.
    fn begin_growing(&mut self, subscription: Arc<Subscription>, tallies: Range<usize>);

    /// Whether first hits count.
    fn is_growing(&self) -> bool;

    /// Makes later call sites stay latent, or not.
    fn pause_growing(&mut self, is_paused: bool);

    /// Takes one of these counters for a call site that was found before. If none is left, the call
    /// site is noted as beyond capacity.
    fn take_tally(&mut self, call: &'static dyn CallSite) -> Option<usize>;

    /// Takes the hooks that call sites were published with, once no definition refers to them.
    fn take_hooks(&mut self, calls: &[&'static dyn CallSite]) -> Option<Garbage>;

    /// Ends the counting of first hits.
    fn end_growing(&mut self) -> Option<Garbage>;
}

/// A call site that no table lists.
pub(crate) trait CallSite: Any + Sync {
    fn definition(&'static self) -> Option<&'static Definition>;

    /// The site, and its instruction while active.
    #[cfg(probe_backend = "x86_64")]
    fn site(&'static self) -> Option<Site>;

    /// Whether it is a site that only the control changes.
    fn is_settled(&self) -> bool;

    /// The number of places where it is switched, or called.
    fn places(&self) -> usize;

    /// Its probe, once it is listed.
    fn probe(&self) -> Option<ProbeId>;

    fn set_probe(&self, id: ProbeId);

    /// The index of the counter that it was published with.
    fn tally(&self) -> Option<usize>;
}
