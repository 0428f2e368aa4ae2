//! Pausing an attachment, and resuming it.
//!
//! Cost: if an attachment alone listens to one site of the executable, in text that stays open, two
//! locked instructions for the control lock and one for the site. Each further site takes one more.
//! Synchronous visibility adds its wait.

use std::sync::Arc;

#[cfg(probe_backend = "patched")]
use super::attached::Attached;
use super::lock::{Locked, lock_here, with_objects};
use super::refuse;
use super::retired::settle;
use super::state::Control;
use crate::engine::dispatch::{Subscription, Transition};
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::provider;
#[cfg(probe_backend = "patched")]
use crate::engine::sites::{self, Instruction};
use crate::engine::sites::{Access, Mode, RefusalReason, Report, Visibility};

/// Pauses or resumes an attachment, and waits as its visibility asks.
#[inline(always)]
pub(super) fn pause(
    attachment: usize,
    subscription: &Subscription,
    is_paused: bool,
    visibility: Visibility,
) -> Report {
    provider::get_ready();
    let locked = lock_here();
    #[cfg(probe_backend = "patched")]
    if visibility == Visibility::Eventual
        && let Some((attached, on, loaded)) = locked.find_plain(attachment, is_paused)
    {
        attached.is_paused.set(is_paused);
        let unsettled = subscription.begin_transition();
        if locked.switches_one(attached, on, loaded) {
            subscription.commit_locked(unsettled);
            locked.unlock();
            // Built here, where it is returned, so that it is not copied.
            let mut report = Report::default();
            report.add_patched(1);
            return report;
        }
        let report = locked.switch_held(attached, on, loaded);
        subscription.commit_locked(unsettled);
        locked.unlock();
        return report;
    }
    pause_any(locked, attachment, subscription, is_paused, visibility)
}

/// Pauses or resumes any attachment, after [`pause`] has tried the fast path.
#[inline(never)]
fn pause_any(
    mut locked: Locked,
    attachment: usize,
    subscription: &Subscription,
    is_paused: bool,
    visibility: Visibility,
) -> Report {
    let mut report = Report::default();
    let control = &mut *locked;
    // Text that must be opened requires the freeze: another copy of this crate may seal it at any
    // other time.
    let is_fixed =
        control.attachments.attached(attachment).is_some_and(|attached| control.is_fixed(attached.policy));
    let mut unsettled = None;
    let mut set_paused = |control: &mut Control, loaded: KeptLoaded<'_>| {
        unsettled = control.set_paused(attachment, is_paused, &mut report, loaded);
    };
    if !(is_fixed && control.with_executable(&mut set_paused)) {
        let _whole = Uncancellable::new();
        control.registry.name_pending();
        with_objects(control, &mut set_paused);
    }
    let is_done = visibility == Visibility::Eventual && !control.reclaimer.has_new();
    if let (Some(unsettled), true) = (unsettled, visibility == Visibility::Eventual) {
        subscription.commit_locked(unsettled);
    }
    locked.unlock();
    if !is_done {
        settle(visibility, is_paused.then(|| subscription.wait_for()));
    }
    if let (Some(unsettled), true) = (unsettled, visibility != Visibility::Eventual) {
        subscription.commit(unsettled);
    }
    report
}

impl Control {
    /// Returns an attachment of which pausing or resuming changes only the sites, and their mode
    /// while it is not paused. Such an attachment alone decides on its probes, all of them are the
    /// executable's, their text is held open, and no retired hook waits to be freed.
    ///
    /// Returns `None` if [`set_paused`](Self::set_paused) must decide.
    #[cfg(probe_backend = "patched")]
    #[inline(always)]
    fn find_plain(&self, attachment: usize, is_paused: bool) -> Option<(&Attached, Mode, KeptLoaded<'_>)> {
        let attached = self.attachments.attached(attachment)?;
        let is_plain = attached.is_paused.get() != is_paused
            && attached.decides_alone()
            && !self.registry.has_discovered()
            && !attached.subscription.has_failed()
            && !self.reclaimer.has_new();
        let on = attached.mode.filter(|_| is_plain)?;
        let loaded = self.registry.kept_loaded().filter(|_| attached.policy.is_open())?;
        Some((attached, on, loaded))
    }

    /// Switches the site of an attachment from [`find_plain`](Self::find_plain), if it has only
    /// one. Returns `false`, with nothing changed, if [`switch_held`](Self::switch_held) must
    /// switch instead.
    #[cfg(probe_backend = "patched")]
    #[inline(always)]
    fn switches_one(&self, attached: &Attached, on: Mode, loaded: KeptLoaded<'_>) -> bool {
        let [run] = &*attached.runs else { return false };
        let [site] = self.registry.sites_of_run(run) else { return false };
        let (on, off) = (site.instruction(on), Instruction::NOP5);
        let (from, to) = if attached.is_paused.get() { (on, off) } else { (off, on) };
        self.unswitched.all().is_empty() && sites::exchange(site.addr, from, to, loaded)
    }

    /// Switches all sites of an attachment from [`find_plain`](Self::find_plain).
    #[cfg(probe_backend = "patched")]
    #[inline(never)]
    fn switch_held(&self, attached: &Attached, on: Mode, loaded: KeptLoaded<'_>) -> Report {
        let mut report = Report::default();
        let (left, mode) = if attached.is_paused.get() { (on, Mode::Latent) } else { (Mode::Latent, on) };
        self.switch_runs(&attached.runs, mode, Access::Held, Some(left), &mut report, loaded);
        report
    }

    /// Pauses or resumes an attachment; one that has failed can't be resumed. Returns the state
    /// that the caller must settle.
    pub(super) fn set_paused(
        &mut self,
        attachment: usize,
        is_paused: bool,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> Option<Transition> {
        let attached = self.attachments.attached(attachment)?;
        if !is_paused && attached.subscription.has_failed() {
            refuse(&self.registry, &attached.ids, &RefusalReason::Failed, report);
            return None;
        }
        let decides_alone = attached.decides_alone() && cfg!(probe_backend = "patched");
        let left_each = if decides_alone { Vec::new() } else { self.attachments.left_each(&attached.ids) };
        // Sites that count and sites that call are both active.
        let left = attached.left().unwrap_or(Mode::Active);
        attached.is_paused.set(is_paused);
        let mode = attached.left().filter(|_| decides_alone);
        // An eventual pause promises nothing about hits under way, and saves an instruction.
        if attached.policy.visibility == Visibility::Synchronous {
            attached.subscription.set_disabled(is_paused);
        }
        let unsettled = attached.subscription.begin_transition();
        let access = self.access_to_open(attached.policy);
        // Writing to text that is held open is no cancellation point. Opening text, reading its
        // rights, and mapping blocks may be.
        let _whole = (mode.is_none() || access != Access::Held).then(Uncancellable::new);
        if let Some(mode) = mode {
            // No other attachment decides on these probes: their hooks stay, and only the sites
            // change.
            self.switch_runs(&attached.runs, mode, access, Some(left), report, loaded);
        } else {
            let ids = Arc::clone(&attached.ids);
            if decides_alone {
                self.switch_each(&ids, &vec![Some(left); ids.len()], access, report, loaded);
            } else {
                self.publish(&ids, loaded);
                self.switch_each(&ids, &left_each, access, report, loaded);
            }
        }
        Some(unsettled)
    }

    /// Pauses the attachments whose consumers have failed.
    pub(super) fn sweep(&mut self, loaded: KeptLoaded<'_>) {
        for at in self.attachments.failed() {
            let mut late = Report::default();
            // Hits are not delivered any more, so there is nothing to settle.
            let _ = self.set_paused(at, true, &mut late, loaded);
            self.attachments.keep_late(at, late);
        }
    }
}
