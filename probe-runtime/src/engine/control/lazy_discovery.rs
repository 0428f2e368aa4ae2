//! First hits of discovered functions, for persistent attachments that count all of these.
//!
//! A hook that discovers a function can't reach the control. So while there is such an attachment,
//! the provider gives the function a counter, which a hook beside its definition increments. The
//! operation that lists the function lets it join, and adds that counter to the attachment's own.
//! Then the control's hook replaces that one. All such attachments share these counters.
//!
//! Operations of the control for the provider of call sites.
//!
//! Threads that look for probes by themselves, for hooks that wait for such a look.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::join::{JoinState, Rule};
use super::lock::Control;
#[cfg(probe_discovers)]
use super::lock::operate;
use super::reclaim::Garbage;
use crate::engine::dispatch::{Epoch, Event, Listener, Subscription};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::ProbeId;
#[cfg(probe_discovers)]
use crate::engine::registry::ProbeInfo;
use crate::engine::registry::provider::{self, CallSite};
use crate::engine::sites::Report;

/// The counters of first hits, and the functions that have some.
#[derive(Default)]
pub(super) struct FirstHits {
    counters: Range<usize>,
    /// Call sites whose probes are about to join.
    waiting: Vec<(ProbeId, &'static dyn CallSite)>,
}

/// The consumer of hits that are only counted.
struct Nobody;

impl Listener for Nobody {
    fn hit(&self, _event: &Event<'_>) {}
}

impl Control {
    /// Lets first hits be counted for an attachment. There are `capacity` counters, unless other
    /// attachments have asked for them before.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`].
    pub(super) fn count_first_hits(&mut self, number: usize, capacity: usize) -> Result<(), Error> {
        let Some(provider) = self.registry.provider() else { return Ok(()) };
        if !provider.counts_first_hits() {
            let counters = self.attachments.counters.take(capacity);
            let counters = counters.ok_or(Error::OutOfCounters { wanted: capacity })?;
            provider.begin_first_hits(Arc::new(Subscription::new(Arc::new(Nobody))), counters.clone());
            self.first_hits.counters = counters;
        }
        if let Some(state) = self.join_state_mut(number) {
            state.has_first_hits = true;
        }
        Ok(())
    }

    /// Ends the counting of first hits if this is the last attachment that wants it. Returns their
    /// counters then.
    pub(super) fn end_first_hits(&mut self, number: usize, loaded: KeptLoaded<'_>) -> Option<Range<usize>> {
        self.join_state_mut(number)?.has_first_hits = false;
        if self
            .attachments
            .all
            .iter()
            .flatten()
            .any(|it| it.join_state.as_ref().is_some_and(|it| it.has_first_hits))
        {
            return None;
        }
        self.replace_first_hooks(loaded);
        let retired = self.registry.provider()?.end_first_hits()?;
        self.reclaimer.retire(Epoch::UNKNOWN, Garbage::Provider(retired));
        Some(std::mem::take(&mut self.first_hits.counters))
    }

    /// Hands these counters to an attachment, which gives them back in its end.
    pub(super) fn keep_first_hits(&mut self, number: usize, counters: Range<usize>) {
        self.join_state_mut(number).into_iter().for_each(|it| it.counters.push(counters.clone()));
    }

    /// Adds the counters of listed call sites to attachments. Those whose probes are to join keep
    /// their hooks until then; the others get the control's own.
    pub(super) fn adopt(
        &mut self,
        found: &[(ProbeId, &'static dyn CallSite)],
        is_all: bool,
        loaded: KeptLoaded<'_>,
    ) {
        if !provider::IS_POSSIBLE {
            return;
        }
        if is_all {
            self.first_hits.waiting.clear();
        }
        let mut others = Vec::new();
        for (id, call, counter) in found.iter().filter_map(|(id, call)| Some((*id, *call, call.counter()?))) {
            let mut waits = false;
            for number in self.attachments.numbers() {
                let has_part = self.attachments.has_part(number, id);
                let Some(attached) = self.attachments.attached_mut(number) else { continue };
                let is_paused = attached.is_paused.get();
                let Some(state) = attached.join_state.as_mut().filter(|it| it.has_first_hits) else {
                    continue;
                };
                waits |= state.waiting.contains(&id);
                if has_part && !is_paused {
                    state.first_hits.push((id, counter));
                }
            }
            let list = if waits { &mut self.first_hits.waiting } else { &mut others };
            list.push((id, call));
        }
        self.replace_hooks(&others, loaded);
    }

    /// Adds the counters of probes that have just joined to their attachment.
    pub(super) fn add_first_hits(&mut self, number: usize, ids: &[ProbeId]) {
        let waiting = self.first_hits.waiting.iter().filter(|(id, _)| ids.binary_search(id).is_ok());
        let counters: Vec<_> = waiting.filter_map(|(id, call)| Some((*id, call.counter()?))).collect();
        let Some(attached) = self.attachments.attached_mut(number) else { return };
        let is_paused = attached.is_paused.get();
        let state = attached.join_state.as_mut().filter(|it| it.has_first_hits && !is_paused);
        state.into_iter().for_each(|it| it.first_hits.extend(&counters));
    }

    /// Returns those of these probes that there is room for. The attachment leaves the others out.
    pub(super) fn limited(&mut self, number: usize, mut ids: Vec<ProbeId>) -> Vec<ProbeId> {
        let known = self.attachments.ids(number).len();
        let Some(state) = self.join_state_mut(number) else { return ids };
        let is_limited = state.has_first_hits && matches!(state.rule, Rule::Discovered);
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
    pub(super) fn replace_first_hooks(&mut self, loaded: KeptLoaded<'_>) {
        let waiting = std::mem::take(&mut self.first_hits.waiting);
        self.replace_hooks(&waiting, loaded);
    }

    fn replace_hooks(&mut self, calls: &[(ProbeId, &'static dyn CallSite)], loaded: KeptLoaded<'_>) {
        if calls.is_empty() {
            return;
        }
        let mut ids: Vec<_> = calls.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        // A hook is published even if no attachment has a part.
        ids.last().into_iter().for_each(|last| self.attachments.make_room(*last));
        self.publish(&ids, loaded);
        // Definitions do not refer to these hooks any more.
        let calls: Vec<_> = calls.iter().map(|(_, call)| *call).collect();
        if let Some(hooks) = self.registry.provider().and_then(|it| it.take_hooks(&calls)) {
            self.reclaimer.retire(Epoch::UNKNOWN, Garbage::Provider(hooks));
        }
        self.remember(&ids, loaded);
        let access = self.access_to_new();
        self.switch_each(&ids, &[], access, &mut Report::default(), loaded);
    }

    fn join_state_mut(&mut self, number: usize) -> Option<&mut JoinState> {
        self.attachments.attached_mut(number)?.join_state.as_deref_mut()
    }
}

/// Returns the probe of a call site, as it is now.
#[cfg(probe_discovers)]
pub(crate) fn probe_of(call: &'static dyn CallSite) -> Option<ProbeInfo> {
    operate(|control, loaded| control.info(call.probe()?, loaded))
}

/// Returns all discovered call sites of loaded objects, with their probes.
#[cfg(probe_discovers)]
pub(crate) fn discovered() -> Vec<(&'static dyn CallSite, ProbeInfo)> {
    operate(|control, loaded| {
        let all = control.registry.discovered().iter();
        all.filter_map(|(id, call)| Some((*call, control.info(*id, loaded)?))).collect()
    })
}

/// The number of threads that look for probes by themselves, for hooks.
static LOOKERS: AtomicUsize = AtomicUsize::new(0);

/// While it lives, its thread [looks](super::discover_probes) every
/// [`BETWEEN_LOOKS`](super::BETWEEN_LOOKS).
pub(crate) struct Looking(());

impl Looking {
    pub(crate) fn begin() -> Self {
        LOOKERS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Returns whether a thread does.
    #[cfg(probe_discovers)]
    pub(crate) fn is_any() -> bool {
        LOOKERS.load(Ordering::SeqCst) != 0
    }

    /// Forgets the parent's threads, in a forked child.
    pub(super) fn forget() {
        LOOKERS.store(0, Ordering::SeqCst);
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let one_less = |lookers: usize| lookers.checked_sub(1);
        let _ = LOOKERS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}
