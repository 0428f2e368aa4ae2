//! Pausing an attachment, and resuming it.
//!
//! Cost: where all of it is the executable's, in text that stays open, and nobody else listens to its probes: two locked
//! instructions on the control lock and one on each site. A visibility that waits, waits besides.

use std::sync::Arc;

use super::attached::{Attached, Policy};
use super::lock::lock;
use super::retired::settle;
use super::state::Control;
use crate::dispatch::{Awaited, Subscription, Unsettled};
#[cfg(probe_discovers)]
use crate::finstrument;
use crate::os::cancel::Uncancellable;
use crate::patch::{Access, Mode, RefusalReason, Report, Visibility};
use crate::registry::ProbeId;

/// Pauses or resumes an attachment, and waits as its visibility asks.
#[inline(never)]
pub(super) fn pause(
    attachment: usize,
    subscription: &Subscription,
    is_paused: bool,
    visibility: Visibility,
) -> Report {
    let mut report = Report::default();
    #[cfg(probe_discovers)]
    finstrument::get_ready();
    let mut locked = lock();
    let control = &mut *locked;
    #[cfg(probe_discovers)]
    let is_growing = control.growing == Some(attachment);
    #[cfg(probe_discovers)]
    if is_growing {
        // What is discovered from here on is as wanted.
        finstrument::pause(is_paused);
    }
    // Text that has to be opened may be another copy's of this crate to seal, while it is not frozen.
    let unsettled =
        if control.registry.is_main_only() && control.attached(attachment).is_some_and(Attached::is_open) {
            control.set_paused(attachment, is_paused, true, &mut report)
        } else {
            let _whole = Uncancellable::new();
            #[cfg(probe_discovers)]
            control.name_discovered();
            let mut unsettled = None;
            control.with_objects(&mut |control| {
                let is_main_only = control.registry.is_main_only();
                unsettled = control.set_paused(attachment, is_paused, is_main_only, &mut report);
            });
            unsettled
        };
    let is_done = visibility == Visibility::Eventual && !control.limbo.has_new();
    if let (Some(unsettled), true) = (unsettled, visibility == Visibility::Eventual) {
        subscription.settle_locked(unsettled);
    }
    drop(locked);
    if !is_done {
        settle(visibility, is_paused.then_some(Awaited::Subscription(subscription)));
    }
    #[cfg(probe_discovers)]
    if is_growing && finstrument::has_news() {
        // Hooks that were at work meanwhile.
        super::growing::look();
    }
    if let (Some(unsettled), true) = (unsettled, visibility != Visibility::Eventual) {
        subscription.settle(unsettled);
    }
    report
}

impl Control {
    /// Pauses or resumes an attachment; one that has failed can't be resumed.
    /// `is_main_only` tells whether all sites are the executable's. Returns what is to be settled.
    #[inline(always)]
    pub(super) fn set_paused(
        &mut self,
        attachment: usize,
        is_paused: bool,
        is_main_only: bool,
        report: &mut Report,
    ) -> Option<Unsettled> {
        #[cfg(probe_discovers)]
        if self.growing == Some(attachment) {
            self.settle_growth(attachment);
            finstrument::pause(is_paused);
        }
        let attached = self.attachments.get(attachment)?.as_ref()?;
        if !is_paused && attached.subscription.has_failed() {
            self.refuse(&attached.ids, &RefusalReason::Failed, report);
            return None;
        }
        let decides_alone = attached.decides_alone() && cfg!(probe_backend = "x86_64");
        let left_each = if decides_alone { Vec::new() } else { self.left_each(&attached.ids) };
        let was_paused = attached.is_paused.replace(is_paused);
        let left = if was_paused { Mode::Latent } else { attached.mode.unwrap_or(Mode::Active) };
        let mode = if is_paused { Some(Mode::Latent) } else { attached.mode };
        // Whoever waits for nobody is promised nothing of hits under way, and saves an instruction.
        if attached.policy.visibility == Visibility::Synchronous {
            attached.subscription.set_silent(is_paused);
        }
        let unsettled = attached.subscription.unsettle();
        if !decides_alone {
            let (ids, policy) = (Arc::clone(&attached.ids), attached.policy);
            self.republish(&ids, &left_each, policy, report);
        } else if is_main_only && attached.is_open() {
            // Nobody else decides on these probes: their hooks stay, and only the sites change. The executable's sites stay
            // where they are, and its text stays open. Writing there is no cancellation point.
            self.switch_all(attachment, mode, Access::Held, left, report);
        } else {
            // Opening text, and asking which rights it has, may be.
            let _whole = Uncancellable::new();
            let access = attached.policy.access();
            self.switch_all(attachment, mode, access, left, report);
        }
        Some(unsettled)
    }

    /// Makes all sites of an attachment, which alone decides on them, what the mode says, or what their probes want.
    #[inline(always)]
    fn switch_all(
        &mut self,
        attachment: usize,
        mode: Option<Mode>,
        access: Access,
        left: Mode,
        report: &mut Report,
    ) {
        let Some(attached) = self.attached(attachment) else { return };
        if let Some(mode) = mode {
            self.change_runs(&attached.runs, mode, access, Some(left), report);
        } else {
            let ids = Arc::clone(&attached.ids);
            self.switch_each(&ids, &vec![Some(left); ids.len()], access, report);
        }
    }

    /// Makes these probes' hooks and sites what they should be.
    #[cold]
    fn republish(&mut self, ids: &[ProbeId], left: &[Option<Mode>], policy: Policy, report: &mut Report) {
        let _whole = Uncancellable::new();
        self.publish(ids);
        self.switch_each(ids, left, policy.access(), report);
    }
}
