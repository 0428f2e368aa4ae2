//! Functions that are discovered at their first call, by a [provider](crate::engine::registry).
//!
//! # First hits
//! A hook that discovers a function can't reach the control. So while a persistent attachment
//! counts all discovered functions, the provider gives each new one a counter, which a hook beside
//! its definition increments. The operation that lists the function lets it join, and adds that
//! counter to the attachment's own. Then the control's hook replaces that one. All such attachments
//! share these counters.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::join::JoinRule;
use super::lock::{Control, operate};
use super::reclaim::Reclaimable;
use super::sites::Switching;
use crate::engine::dispatch::{Epoch, Event, Subscription};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::provider::{self, CallSite};
use crate::engine::registry::{ProbeId, ProbeInfo};
use crate::engine::sites::Report;

/// The counters of first hits, and the functions that have some.
#[derive(Default)]
pub(super) struct LazyDiscovery {
    counters: Range<usize>,
    /// Call sites whose probes are about to join.
    joining: Vec<(ProbeId, &'static dyn CallSite)>,
}

impl Control {
    /// Counts first hits for an attachment. There are `capacity` counters, unless another
    /// attachment has them counted already.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`].
    pub(super) fn begin_first_hits(&mut self, number: usize, capacity: usize) -> Result<(), Error> {
        let Some(provider) = self.registry.provider() else { return Ok(()) };
        if !provider.counts_first_hits() {
            let counters = self.attachments.counters.allocate(capacity)?;
            let no_consumer = Subscription::new(Arc::new(|_: &Event<'_>| ()));
            provider.begin_first_hits(Arc::new(no_consumer), counters.clone());
            self.lazy_discovery.counters = counters;
        }
        if let Some(state) = self.attachments.join_state_mut(number) {
            state.counts_first_hits = true;
        }
        Ok(())
    }

    /// Ends the counting of first hits for an attachment. Returns their counters if it was the last
    /// one.
    pub(super) fn end_first_hits(&mut self, number: usize, loaded: KeptLoaded<'_>) -> Option<Range<usize>> {
        self.attachments.join_state_mut(number)?.counts_first_hits = false;
        if self.attachments.join_states().any(|state| state.counts_first_hits) {
            return None;
        }
        self.replace_provider_hooks(loaded);
        let retired = self.registry.provider()?.end_first_hits()?;
        self.reclaimer.retire(Epoch::UNKNOWN, Reclaimable::Provider(retired));
        Some(std::mem::take(&mut self.lazy_discovery.counters))
    }

    /// Hands these counters to an attachment, which releases them when it ends.
    pub(super) fn keep_first_hit_counters(&mut self, number: usize, counters: Range<usize>) {
        self.attachments.join_state_mut(number).into_iter().for_each(|it| it.counters.push(counters.clone()));
    }

    /// Adds the counters of listed call sites to attachments. Those whose probes are to join keep
    /// their hooks until then; the others get the control's own.
    pub(super) fn adopt_call_sites(
        &mut self,
        found: &[(ProbeId, &'static dyn CallSite)],
        is_all: bool,
        loaded: KeptLoaded<'_>,
    ) {
        if !provider::IS_POSSIBLE {
            return;
        }
        if is_all {
            self.lazy_discovery.joining.clear();
        }
        let mut others = Vec::new();
        for (id, call, counter) in found.iter().filter_map(|(id, call)| Some((*id, *call, call.counter()?))) {
            let mut is_joining = false;
            for number in self.attachments.numbers() {
                let has_slot = self.attachments.probes.slot(id, number).is_some();
                let Some(record) = self.attachments.record_mut(number) else { continue };
                let is_paused = record.is_paused.get();
                let Some(state) = record.join_state.as_mut().filter(|it| it.counts_first_hits) else {
                    continue;
                };
                is_joining |= state.pending.contains(&id);
                if has_slot && !is_paused {
                    state.first_hit_counters.push((id, counter));
                }
            }
            let list = if is_joining { &mut self.lazy_discovery.joining } else { &mut others };
            list.push((id, call));
        }
        self.replace_hooks(&others, loaded);
    }

    /// Adds the counters of probes that have just joined to their attachment.
    pub(super) fn add_first_hits(&mut self, number: usize, ids: &[ProbeId]) {
        let joined = self.lazy_discovery.joining.iter().filter(|(id, _)| ids.binary_search(id).is_ok());
        let counters: Vec<_> = joined.filter_map(|(id, call)| Some((*id, call.counter()?))).collect();
        let Some(record) = self.attachments.record_mut(number) else { return };
        let is_paused = record.is_paused.get();
        let state = record.join_state.as_mut().filter(|it| it.counts_first_hits && !is_paused);
        state.into_iter().for_each(|it| it.first_hit_counters.extend(&counters));
    }

    /// Returns those of these probes that there is room for. The attachment leaves the others out.
    pub(super) fn limited_to_room(&mut self, number: usize, mut ids: Vec<ProbeId>) -> Vec<ProbeId> {
        let known = self.attachments.ids(number).len();
        let Some(state) = self.attachments.join_state_mut(number) else { return ids };
        let is_limited = state.counts_first_hits && matches!(state.rule, JoinRule::Discovered);
        let room = state.room;
        if !is_limited || known + ids.len() <= room {
            return ids;
        }
        let beyond = ids.split_off(room.saturating_sub(known));
        state.leave_out(&beyond, &Error::Consumer(format!("there is room for {room} call sites").into()));
        let calls: Vec<_> = self.registry.calls_of(&beyond).collect();
        let provider = self.registry.provider();
        provider.into_iter().for_each(|it| calls.iter().for_each(|call| it.go_beyond(*call)));
        ids
    }

    /// Gives the control's own hooks to call sites whose probes have joined, or could not.
    pub(super) fn replace_provider_hooks(&mut self, loaded: KeptLoaded<'_>) {
        let joining = std::mem::take(&mut self.lazy_discovery.joining);
        self.replace_hooks(&joining, loaded);
    }

    fn replace_hooks(&mut self, calls: &[(ProbeId, &'static dyn CallSite)], loaded: KeptLoaded<'_>) {
        if calls.is_empty() {
            return;
        }
        let mut ids: Vec<_> = calls.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        // A hook is published even if no attachment has a slot.
        ids.last().into_iter().for_each(|last| self.attachments.probes.make_room(*last));
        let (access, report) = (self.access_to_new(), &mut Report::default());
        self.publish_and_switch(&ids, &[], Switching { access, report, loaded });
        // Definitions do not refer to these hooks any more.
        let calls: Vec<_> = calls.iter().map(|(_, call)| *call).collect();
        if let Some(hooks) = self.registry.provider().and_then(|it| it.take_hooks(&calls)) {
            self.reclaimer.retire(Epoch::UNKNOWN, Reclaimable::Provider(hooks));
        }
    }
}

/// Returns the probe of a call site, as it is now.
pub(crate) fn probe_of(call: &'static dyn CallSite) -> Option<ProbeInfo> {
    operate(|control, loaded| control.info(call.probe()?, loaded))
}

/// Returns all discovered call sites of loaded objects, with their probes.
#[cfg(probe_backend = "patched")]
pub(crate) fn discovered_calls() -> Vec<(&'static dyn CallSite, ProbeInfo)> {
    operate(|control, loaded| {
        let all = control.registry.discovered().iter();
        all.filter_map(|(id, call)| Some((*call, control.info(*id, loaded)?))).collect()
    })
}

/// The number of threads that discover probes periodically.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// While it lives, its thread [discovers probes](super::discover_probes) every
/// [`DISCOVERY_INTERVAL`](super::DISCOVERY_INTERVAL), so that hooks can rely on it.
pub(crate) struct PeriodicDiscovery(());

impl PeriodicDiscovery {
    pub(crate) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Returns whether there is such a thread.
    pub(crate) fn is_running() -> bool {
        RUNNING.load(Ordering::SeqCst) != 0
    }

    /// Forgets the parent's threads, in a forked child.
    pub(super) fn forget_all() {
        RUNNING.store(0, Ordering::SeqCst);
    }
}

impl Drop for PeriodicDiscovery {
    fn drop(&mut self) {
        let one_less = |running: usize| running.checked_sub(1);
        let _ = RUNNING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}
