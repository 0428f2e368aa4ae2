//! The provider of discovered call sites, as the registry and the control use it.
//!
//! Life: a hook registers the provider before it publishes its first discovery. The next operation
//! makes the only [`DiscoveryProvider`], which the registry owns until the process ends.
//!
//! # Pending discoveries
//! A hook that makes a discovery, or defers work on one, notes the discovery: a bit in its
//! chunk. The next operation takes all notes, and looks at these discoveries alone. It looks at
//! everything if everything may have changed: after the text policy has changed, and in a forked
//! child, since threads of the parent may have been about to note something.
//!
//! Cost: the first note of a discovery is a locked instruction, and further ones are a load. Taking
//! the notes reads two cache lines for each 1,024 call sites, if there are any notes.

use std::any::Any;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ahead::Ahead;
use super::call_site::{Discovery, EnableOutcome};
use super::chunk::{self, ChunkPlace};
use super::naming::Names;
use super::reconcile::{LoadedObjects, patch_deferred, reconcile_all, reconcile_pending};
use super::redirection::Redirection;
use super::table::{ReplacedHook, is_published, published};
use super::{call_patch, counters};
use crate::engine::control;
use crate::engine::dispatch::Subscription;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::provider::{
    self, CallSite, Due, Findings, Provider, ProviderStart, RetiredMemory, note as expect_any,
};
use crate::engine::sites::{self, Access, Batch, Mode, Report, Site};

static ENTRY: ProviderStart = ProviderStart { get_ready, begin: DiscoveryProvider::begin };

/// Allocates the resources that hooks need and can't allocate themselves.
fn get_ready() {
    control::init();
    sites::make_room();
}

/// Makes later operations look for noted discoveries.
pub(super) fn register() {
    provider::register(&ENTRY);
}

/// The control's knowledge of discoveries between operations.
struct DiscoveryProvider {
    pending: PendingDiscoveries,
    loaded: LoadedObjects,
    names: Names,
    redirection: Redirection,
    ahead: Ahead,
    locked: ControlLocked,
}

impl DiscoveryProvider {
    /// Makes the only `DiscoveryProvider`, for the registry.
    ///
    /// # Panics
    /// If there is one, as [`ControlLocked::new`] says.
    fn begin() -> Box<dyn Provider> {
        Box::new(Self {
            pending: PendingDiscoveries::default(),
            loaded: LoadedObjects::default(),
            names: Names::default(),
            redirection: Redirection::default(),
            ahead: Ahead::default(),
            locked: ControlLocked::new(),
        })
    }
}

impl Provider for DiscoveryProvider {
    fn look_ahead(&mut self) -> bool {
        self.ahead.look(&self.locked, &mut self.loaded, &mut self.names, &mut self.redirection)
    }

    fn name_pending(&mut self, is_all: bool) {
        self.pending.add(PendingDiscoveries::take(&self.locked, is_all));
        self.names.name_new(&self.locked, &self.pending, &mut self.loaded);
    }

    fn patch_pending(&mut self, frozen: &Frozen) -> Due {
        self.redirection.begin(frozen);
        patch_deferred(Exclusive::new(&self.locked, frozen), &mut self.pending, &mut self.loaded);
        // A call is patched only while it leads to a hook.
        self.redirection.end(frozen);
        self.pending.due()
    }

    fn find(&mut self, frozen: &Frozen, is_all: bool) -> Findings {
        let (pending, exclusive) = (take(&mut self.pending), Exclusive::new(&self.locked, frozen));
        if is_all {
            return reconcile_all(exclusive, &mut self.loaded);
        }
        reconcile_pending(exclusive, pending, &mut self.loaded)
    }

    fn switch(
        &self,
        calls: &[&'static dyn CallSite],
        active: bool,
        access: Access,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        let mode = if active { Mode::Active } else { Mode::Latent };
        let (mut switched, mut sites) = (Vec::new(), Vec::new());
        // Real calls have no bytes to switch. Split calls are switched in their own way. The others
        // are sites that the registry does not list as settled yet.
        for call in discoveries(calls) {
            match call.set_enabled(active) {
                EnableOutcome::Changed => report.add_patched(1),
                EnableOutcome::Unchanged => report.add_unchanged(1),
                EnableOutcome::Patched => sites.extend(call.site()),
                EnableOutcome::Switched => switched.push(call),
            }
        }
        sites.sort_unstable_by_key(|site: &Site| site.addr);
        // An attachment may have opened the text before these sites were discovered in it.
        let access_to_sites = if access == Access::Held { Access::ByRun } else { access };
        Batch::new(mode, report, loaded).switch(&sites, access_to_sites);
        call_patch::switch_each(&self.locked, &switched, access, report, loaded);
    }

    fn begin_first_hits(&mut self, subscription: Arc<Subscription>, counters: Range<usize>) {
        counters::begin_counting(&self.locked, subscription, counters);
    }

    fn counts_first_hits(&self) -> bool {
        counters::is_counting()
    }

    fn go_beyond(&mut self, call: &'static dyn CallSite) {
        discovery_of(call).into_iter().for_each(Discovery::mark_beyond_capacity);
    }

    fn take_hooks(&mut self, calls: &[&'static dyn CallSite]) -> Option<RetiredMemory> {
        let taken: Vec<_> = discoveries(calls).filter_map(ReplacedHook::take).collect();
        (!taken.is_empty()).then(|| Box::new(taken) as _)
    }

    fn end_first_hits(&mut self) -> Option<RetiredMemory> {
        counters::end_counting(&self.locked).map(|counted| counted as _)
    }
}

/// Returns the discovery behind a call site; `None` for a call site of another provider.
pub(super) fn discovery_of(call: &'static dyn CallSite) -> Option<&'static Discovery> {
    (call as &dyn Any).downcast_ref()
}

fn discoveries(calls: &[&'static dyn CallSite]) -> impl Iterator<Item = &'static Discovery> {
    calls.iter().filter_map(|call| discovery_of(*call))
}

/// The discoveries that an operation looks at.
#[derive(Default)]
pub(super) struct PendingDiscoveries {
    /// Noted discoveries. They are in the table, and stay there for as long as the control lock is
    /// held.
    pub(super) discoveries: Vec<&'static Discovery>,
    /// Whether these are all discoveries.
    pub(super) is_all: bool,
}

/// Makes the control look at a discovery.
pub(super) fn note_pending(discovery: &'static Discovery) {
    if let Some(place) = ChunkPlace::of(discovery) {
        place.mark_pending();
        expect_any();
    }
}

/// Marks a discovery as a site, counts it, and notes it.
pub(super) fn note_patched(discovery: &'static Discovery) {
    if discovery.become_patched() {
        counters::PATCHED.add();
        note_pending(discovery);
    }
}

impl PendingDiscoveries {
    /// Takes the notes. Only the holder of the control lock removes discoveries from the table.
    pub(super) fn take(_locked: &ControlLocked, is_all: bool) -> Self {
        let noted: Vec<_> =
            chunk::take_pending().map(ChunkPlace::discovery).filter(|it| is_published(it)).collect();
        let discoveries = if is_all { published().map(ChunkPlace::discovery).collect() } else { noted };
        // A forked child of a program that has discovered nothing has nothing to look at.
        Self { is_all: is_all && !discoveries.is_empty(), discoveries }
    }

    /// Returns how much there is to look at.
    pub(super) fn due(&self) -> Due {
        match (self.is_all, self.discoveries.is_empty()) {
            (true, _) => Due::All,
            (false, true) => Due::Nothing,
            (false, false) => Due::Some,
        }
    }

    /// Adds discoveries that were noted later.
    pub(super) fn add(&mut self, other: Self) {
        self.discoveries.extend(other.discoveries);
        self.is_all |= other.is_all;
    }
}

/// Proof that the calling thread holds the control lock. The provider has the only one and
/// lends it to other modules; only the holder of the control lock reaches the provider.
pub(super) struct ControlLocked(());

/// Whether the proof was made.
static IS_MADE: AtomicBool = AtomicBool::new(false);

impl ControlLocked {
    /// Makes the proof, for the provider that the registry owns.
    ///
    /// # Panics
    /// If it was made before: a second one would be forged.
    pub(super) fn new() -> Self {
        assert!(!IS_MADE.swap(true, Ordering::Relaxed), "the registry has the only provider");
        Self(())
    }
}

/// Proof that the calling thread holds the control lock and that no object can be unloaded.
#[derive(Clone, Copy)]
pub(super) struct Exclusive<'a> {
    locked: &'a ControlLocked,
    frozen: &'a Frozen,
}

impl<'a> Exclusive<'a> {
    pub(super) fn new(locked: &'a ControlLocked, frozen: &'a Frozen) -> Self {
        Self { locked, frozen }
    }

    pub(super) fn locked(self) -> &'a ControlLocked {
        self.locked
    }

    pub(super) fn frozen(self) -> &'a Frozen {
        self.frozen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn there_is_one_provider() {
        // No unit test discovers anything, so the registry of this process never begins it.
        let _first = (ENTRY.begin)();
        assert!(catch_unwind(ENTRY.begin).is_err());
    }
}
