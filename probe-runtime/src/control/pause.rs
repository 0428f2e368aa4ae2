//! Pausing an attachment, and resuming it.
//!
//! Cost: one site of the executable's, in text that stays open, to whose probe nobody else listens,
//! takes one locked instruction, and two for the control lock. So do more sites, with one each. A
//! visibility that waits, waits besides.

use std::sync::Arc;

use super::lock::lock;
use super::retired::settle;
use super::state::Control;
use crate::dispatch::{Awaited, Subscription, Unsettled};
#[cfg(probe_discovers)]
use crate::finstrument;
use crate::os::cancel::Uncancellable;
use crate::patch::{Access, Mode, RefusalReason, Report, Visibility};

/// Pauses or resumes an attachment, and waits as its visibility asks.
#[inline(never)]
pub(super) fn pause(
    attachment: usize,
    subscription: &Subscription,
    is_paused: bool,
    visibility: Visibility,
) -> Report {
    #[cfg(probe_discovers)]
    finstrument::get_ready();
    let mut locked = lock();
    let mut report = Report::default();
    let control = &mut *locked;
    #[cfg(probe_discovers)]
    let is_growing = control.growing == Some(attachment);
    #[cfg(probe_discovers)]
    if is_growing {
        // What is discovered from here on is as wanted.
        finstrument::pause(is_paused);
    }
    // Text that has to be opened may be another copy's of this crate to seal, while it is not frozen.
    let is_fixed = control.attached(attachment).is_some_and(|attached| control.is_fixed(attached.policy));
    let unsettled = if is_fixed {
        control.set_paused(attachment, is_paused, &mut report)
    } else {
        let _whole = Uncancellable::new();
        #[cfg(probe_discovers)]
        control.name_discovered();
        let mut unsettled = None;
        control.with_objects(&mut |control| {
            unsettled = control.set_paused(attachment, is_paused, &mut report);
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
    /// Pauses or resumes an attachment; one that has failed can't be resumed. Returns what is to be
    /// settled.
    pub(super) fn set_paused(
        &mut self,
        attachment: usize,
        is_paused: bool,
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
        // Where some count and others do not, both are on.
        let left = attached.left().unwrap_or(Mode::Active);
        attached.is_paused.set(is_paused);
        let mode = attached.left().filter(|_| decides_alone);
        // Whoever waits for nobody is promised nothing of hits under way, and saves an instruction.
        if attached.policy.visibility == Visibility::Synchronous {
            attached.subscription.set_silent(is_paused);
        }
        let unsettled = attached.subscription.unsettle();
        let access = self.access_to_open(attached.policy);
        // Writing to text that is held open is no cancellation point. Opening text, asking which
        // rights it has, and mapping blocks may be.
        let _whole = (mode.is_none() || access != Access::Held).then(Uncancellable::new);
        if let Some(mode) = mode {
            // Nobody else decides on these probes: their hooks stay, and only the sites change.
            self.change_runs(&attached.runs, mode, access, Some(left), report);
        } else {
            let ids = Arc::clone(&attached.ids);
            if decides_alone {
                self.switch_each(&ids, &vec![Some(left); ids.len()], access, report);
            } else {
                self.publish(&ids);
                self.switch_each(&ids, &left_each, access, report);
            }
        }
        Some(unsettled)
    }
}
