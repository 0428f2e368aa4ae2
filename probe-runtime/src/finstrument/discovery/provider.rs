//! The provider of discovered call sites, as the registry and the control use it.
//!
//! Life: a hook registers the provider before it publishes its first discovery. The next operation
//! makes the only [`Finder`], which the registry owns until the process ends.

use std::any::Any;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use super::ahead::Ahead;
use super::call_site::{Discovery, WantedOutcome};
use super::deferred_patch::patch_deferred;
use super::garbage::ReplacedHook;
use super::loaded::Loaded;
use super::naming::Names;
use super::pending::PendingDiscoveries;
use super::reconcile::{reconcile_all, reconcile_pending};
use super::redirection::Redirection;
use super::tokens::{ControlLocked, Exclusive};
use super::{batch, counted};
use crate::engine::control;
use crate::engine::dispatch::Subscription;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::provider::{
    self, CallSite, Due, Findings, Provider, ProviderStart, RetiredMemory,
};
use crate::engine::sites::{self, Access, Batch, Mode, Report, Site};

static ENTRY: ProviderStart = ProviderStart { get_ready, begin: Finder::begin };

/// Allocates the resources that hooks need and can't allocate themselves.
fn get_ready() {
    control::prepare();
    sites::make_room();
}

/// Makes later operations look for noted discoveries.
pub(super) fn register() {
    provider::register(&ENTRY);
}

/// The control's knowledge of discoveries between operations.
struct Finder {
    pending: PendingDiscoveries,
    loaded: Loaded,
    names: Names,
    redirection: Redirection,
    ahead: Ahead,
    locked: ControlLocked,
}

impl Finder {
    /// Makes the only `Finder`, for the registry.
    ///
    /// # Panics
    /// If there is one, as [`ControlLocked::new`] says.
    fn begin() -> Box<dyn Provider> {
        Box::new(Self {
            pending: PendingDiscoveries::default(),
            loaded: Loaded::default(),
            names: Names::default(),
            redirection: Redirection::default(),
            ahead: Ahead::default(),
            locked: ControlLocked::new(),
        })
    }
}

impl Provider for Finder {
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
            match call.set_wanted(active) {
                WantedOutcome::Changed => report.add_patched(1),
                WantedOutcome::Unchanged => report.add_unchanged(1),
                WantedOutcome::Patched => sites.extend(call.site()),
                WantedOutcome::Switched => switched.push(call),
            }
        }
        sites.sort_unstable_by_key(|site: &Site| site.addr);
        // An attachment may have opened the text before these sites were discovered in it.
        let access_to_sites = if access == Access::Held { Access::ByRun } else { access };
        Batch::new(mode, report, loaded).switch(&sites, access_to_sites);
        batch::switch_each(&self.locked, &switched, access, report, loaded);
    }

    fn begin_first_hits(&mut self, subscription: Arc<Subscription>, counters: Range<usize>) {
        counted::begin(&self.locked, subscription, counters);
    }

    fn counts_first_hits(&self) -> bool {
        counted::is_on()
    }

    fn go_beyond(&mut self, call: &'static dyn CallSite) {
        of(call).into_iter().for_each(Discovery::go_beyond);
    }

    fn take_hooks(&mut self, calls: &[&'static dyn CallSite]) -> Option<RetiredMemory> {
        let taken: Vec<_> = discoveries(calls).filter_map(ReplacedHook::take).collect();
        (!taken.is_empty()).then(|| Box::new(taken) as _)
    }

    fn end_first_hits(&mut self) -> Option<RetiredMemory> {
        counted::end(&self.locked).map(|counted| counted as _)
    }
}

/// Returns the discovery behind a call site; `None` for a call site of another provider, which is a
/// bug: there is one provider.
pub(super) fn of(call: &'static dyn CallSite) -> Option<&'static Discovery> {
    let discovery = (call as &dyn Any).downcast_ref();
    debug_assert!(discovery.is_some(), "a call site of another provider");
    discovery
}

fn discoveries(calls: &[&'static dyn CallSite]) -> impl Iterator<Item = &'static Discovery> {
    calls.iter().filter_map(|call| of(*call))
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::engine::registry::ProbeId;
    use probe_core::abi::Definition;

    #[test]
    fn there_is_one_provider() {
        // No unit test discovers anything, so the registry of this process never begins it.
        let _first = (ENTRY.begin)();
        assert!(catch_unwind(ENTRY.begin).is_err());
    }

    struct Foreign;

    impl CallSite for Foreign {
        fn definition<'a>(&'static self, _frozen: &'a Frozen) -> Option<&'a Definition> {
            None
        }

        fn site(&'static self) -> Option<Site> {
            None
        }

        fn is_settled(&self) -> bool {
            false
        }

        fn places(&self) -> usize {
            0
        }

        fn was_reached(&self) -> bool {
            false
        }

        fn probe(&self) -> Option<ProbeId> {
            None
        }

        fn set_probe(&self, _id: ProbeId) {}

        fn counter(&self) -> Option<usize> {
            None
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a call site of another provider")]
    fn a_call_site_of_another_provider_is_a_bug() {
        of(&Foreign);
    }
}
