//! Discoveries, as the registry and the control deal with them: the provider's side.

use std::any::Any;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use super::deferred_patch::patch_deferred;
use super::discovery::{Discovery, Wanted};
use super::loaded::Loaded;
use super::naming::Names;
use super::pending::Pending;
use super::reconcile::{reconcile_all, reconcile_pending};
use super::{growing, split_calls};
use crate::dispatch::Subscription;
use crate::os::objects::Frozen;
use crate::patch::{Access, Batch, Mode, Report, Site};
use crate::registry::provider::{self, CallSite, Due, Entry, Findings, Garbage, Provider};

static ENTRY: Entry = Entry { get_ready: super::interface::get_ready, begin: || Box::new(Finder::default()) };

/// Makes operations look at discoveries from now on, once something is noted.
pub(super) fn register() {
    provider::register(&ENTRY);
}

/// Proof that the control lock is held: the provider has the only one, and the registry the only
/// provider.
#[derive(Default)]
pub(super) struct Locked(());

/// Proof that the control lock is held and that no object goes.
#[derive(Clone, Copy)]
pub(super) struct Exclusive<'a> {
    pub(super) locked: &'a Locked,
    pub(super) frozen: &'a Frozen,
}

/// What is known of discoveries between operations.
#[derive(Default)]
struct Finder {
    pending: Pending,
    loaded: Loaded,
    names: Names,
    locked: Locked,
}

impl Provider for Finder {
    fn name_pending(&mut self, is_all: bool) {
        self.pending.add(Pending::take(&self.locked, is_all));
        self.names.name_new(&self.locked, &self.pending, &mut self.loaded);
    }

    fn patch_pending(&mut self, frozen: &Frozen) -> Due {
        patch_deferred(Exclusive { locked: &self.locked, frozen }, &mut self.pending, &mut self.loaded);
        self.pending.due()
    }

    fn find(&mut self, frozen: &Frozen, is_all: bool) -> Findings {
        let (pending, exclusive) = (take(&mut self.pending), Exclusive { locked: &self.locked, frozen });
        if is_all {
            return reconcile_all(exclusive, &mut self.loaded);
        }
        reconcile_pending(exclusive, pending, &mut self.loaded)
    }

    fn switch(&self, calls: &[&'static dyn CallSite], active: bool, access: Access, report: &mut Report) {
        let mode = if active { Mode::Active } else { Mode::Latent };
        let (mut switched, mut sites) = (Vec::new(), Vec::new());
        // Real calls have no bytes to switch; calls across two words are switched in their own way;
        // the others are sites that were discovered lately.
        for call in discoveries(calls) {
            match call.set_wanted(active) {
                Wanted::Changed => report.add_patched(1),
                Wanted::Unchanged => report.add_unchanged(1),
                Wanted::Patched => sites.extend(call.site()),
                Wanted::Switched => switched.push(call),
            }
        }
        sites.sort_unstable_by_key(|site: &Site| site.addr);
        // Who holds text open may have opened it before they were discovered there.
        let access_to_sites = if access == Access::Held { Access::ByRun } else { access };
        Batch::new(mode, report).switch(&sites, access_to_sites);
        split_calls::switch_each(&self.locked, &switched, access, report);
    }

    fn begin_growing(&mut self, subscription: Arc<Subscription>, tallies: Range<usize>) {
        growing::begin(&self.locked, subscription, tallies);
    }

    fn is_growing(&self) -> bool {
        growing::is_growing()
    }

    fn pause_growing(&mut self, is_paused: bool) {
        growing::pause(&self.locked, is_paused);
    }

    fn take_tally(&mut self, call: &'static dyn CallSite) -> Option<usize> {
        growing::take_tally(&self.locked, of(call)?)
    }

    fn take_hooks(&mut self, calls: &[&'static dyn CallSite]) -> Option<Garbage> {
        let taken: Vec<_> = discoveries(calls).filter_map(Discovery::take_inline_hook).collect();
        (!taken.is_empty()).then(|| Box::new(taken) as _)
    }

    fn end_growing(&mut self) -> Option<Garbage> {
        growing::end(&self.locked).map(|growing| growing as _)
    }
}

/// A call site as the discovery that it is: nobody else makes any.
pub(super) fn of(call: &'static dyn CallSite) -> Option<&'static Discovery> {
    (call as &dyn Any).downcast_ref()
}

fn discoveries(calls: &[&'static dyn CallSite]) -> impl Iterator<Item = &'static Discovery> {
    calls.iter().filter_map(|call| of(*call))
}
