//! Pausing attachments and resuming them, and holds, which force probes off for all attachments.
//!
//! Cost of a pause: if an attachment alone listens to one site of the executable, in text that
//! stays open, two locked instructions for the control lock and one for the site. Each further site
//! takes one more. Synchronous visibility adds its wait.

use std::sync::{Arc, Weak};
use std::{fmt, ptr};

use super::ProbeSet;
#[cfg(probe_backend = "patched")]
use super::attachments::AttachmentRecord;
use super::attachments::AttachmentTable;
use super::lock::{Control, ControlGuard, lock, lock_inlined, operate, with_objects};
use super::reclaim::finish_operation;
use super::site_backend::{HeldText, close_text, open_text, refuse};
use super::sites::PatchPolicy;
use crate::engine::dispatch::{Subscription, Transition, WaitFor};
use crate::engine::error::Error;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, provider};
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
    let locked = lock_inlined();
    #[cfg(probe_backend = "patched")]
    if visibility == Visibility::Eventual
        && let Some((record, on, loaded)) = locked.find_fast(attachment, is_paused)
    {
        record.is_paused.set(is_paused);
        let transition = subscription.begin_transition();
        if locked.try_switch_one(record, on, loaded) {
            subscription.commit_locked(transition);
            locked.unlock();
            // Built here, where it is returned, so that it is not copied.
            let mut report = Report::default();
            report.add_patched(1);
            return report;
        }
        let report = locked.switch_open(record, on, loaded);
        subscription.commit_locked(transition);
        locked.unlock();
        return report;
    }
    pause_slow(locked, attachment, subscription, is_paused, visibility)
}

/// Pauses or resumes any attachment, after [`pause`] has tried the fast path.
#[inline(never)]
fn pause_slow(
    mut locked: ControlGuard,
    attachment: usize,
    subscription: &Subscription,
    is_paused: bool,
    visibility: Visibility,
) -> Report {
    let mut report = Report::default();
    let control = &mut *locked;
    // Text that must be opened requires the freeze: another copy of this crate may seal it at any
    // other time.
    let needs_no_freeze =
        control.attachments.record(attachment).is_some_and(|record| control.needs_no_freeze(record.policy));
    let mut transition = None;
    let mut set_paused = |control: &mut Control, loaded: KeptLoaded<'_>| {
        transition = control.set_paused(attachment, is_paused, &mut report, loaded);
    };
    if !(needs_no_freeze && control.with_executable(&mut set_paused)) {
        let _whole = Uncancellable::new();
        control.registry.name_pending();
        with_objects(control, &mut set_paused);
    }
    let is_done = visibility == Visibility::Eventual && !control.reclaimer.has_new();
    if let (Some(transition), true) = (transition, visibility == Visibility::Eventual) {
        subscription.commit_locked(transition);
    }
    locked.unlock();
    if !is_done {
        finish_operation(visibility, is_paused.then(|| subscription.wait_for()));
    }
    if let (Some(transition), true) = (transition, visibility != Visibility::Eventual) {
        subscription.commit(transition);
    }
    report
}

impl Control {
    /// Returns an attachment if pausing or resuming it changes only its sites, and their mode while
    /// it is not paused. Such an attachment alone decides on its probes, all of them are the
    /// executable's, their text is held open, and no retired hook waits to be freed.
    ///
    /// Returns `None` if [`set_paused`](Self::set_paused) must decide.
    #[cfg(probe_backend = "patched")]
    #[inline(always)]
    fn find_fast(
        &self,
        attachment: usize,
        is_paused: bool,
    ) -> Option<(&AttachmentRecord, Mode, KeptLoaded<'_>)> {
        let record = self.attachments.record(attachment)?;
        let is_fast = record.is_paused.get() != is_paused
            && record.decides_alone()
            && !self.registry.has_discovered()
            && !record.subscription.has_failed()
            && !self.reclaimer.has_new();
        let on = record.mode.filter(|_| is_fast)?;
        let loaded = self.registry.kept_loaded().filter(|_| record.policy.is_open())?;
        Some((record, on, loaded))
    }

    /// Switches the site of an attachment from [`find_fast`](Self::find_fast), if it has only
    /// one. Returns `false`, with nothing changed, if [`switch_open`](Self::switch_open) must
    /// switch instead.
    #[cfg(probe_backend = "patched")]
    #[inline(always)]
    fn try_switch_one(&self, record: &AttachmentRecord, on: Mode, loaded: KeptLoaded<'_>) -> bool {
        let [range] = &*record.id_ranges else { return false };
        let [site] = self.registry.sites_of_run(range) else { return false };
        let (on, off) = (site.instruction(on), Instruction::NOP5);
        let (from, to) = if record.is_paused.get() { (on, off) } else { (off, on) };
        self.unswitched.borrow().is_empty() && sites::exchange(site.addr, from, to, loaded)
    }

    /// Switches all sites of an attachment from [`find_fast`](Self::find_fast).
    #[cfg(probe_backend = "patched")]
    #[inline(never)]
    fn switch_open(&self, record: &AttachmentRecord, on: Mode, loaded: KeptLoaded<'_>) -> Report {
        let mut report = Report::default();
        let (left, mode) = if record.is_paused.get() { (on, Mode::Latent) } else { (Mode::Latent, on) };
        self.switch_ranges(&record.id_ranges, mode, Access::Held, Some(left), &mut report, loaded);
        report
    }

    /// Pauses or resumes an attachment; one that has failed can't be resumed. Returns the
    /// transition, which the caller must commit.
    pub(super) fn set_paused(
        &mut self,
        attachment: usize,
        is_paused: bool,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> Option<Transition> {
        let record = self.attachments.record(attachment)?;
        if !is_paused && record.subscription.has_failed() {
            refuse(&self.registry, &record.ids, &RefusalReason::Failed, report);
            return None;
        }
        let decides_alone = record.decides_alone() && cfg!(probe_backend = "patched");
        let modes_left = if decides_alone { Vec::new() } else { self.attachments.modes_left(&record.ids) };
        // Sites that count and sites that call are both active.
        let left = record.mode_left().unwrap_or(Mode::Active);
        record.is_paused.set(is_paused);
        let mode = record.mode_left().filter(|_| decides_alone);
        // An eventual pause promises nothing about hits under way, and saves an instruction.
        if record.policy.visibility == Visibility::Synchronous {
            record.subscription.set_disabled(is_paused);
        }
        let transition = record.subscription.begin_transition();
        let access = self.access_to_open(record.policy);
        // Writing to text that is held open is no cancellation point. Opening text, reading its
        // rights, and mapping blocks may be.
        let _whole = (mode.is_none() || access != Access::Held).then(Uncancellable::new);
        if let Some(mode) = mode {
            // No other attachment decides on these probes: their hooks stay, and only the sites
            // change.
            self.switch_ranges(&record.id_ranges, mode, access, Some(left), report, loaded);
        } else {
            let ids = Arc::clone(&record.ids);
            if decides_alone {
                self.switch_probes(&ids, &vec![Some(left); ids.len()], access, report, loaded);
            } else {
                self.publish(&ids, loaded);
                self.switch_probes(&ids, &modes_left, access, report, loaded);
            }
        }
        Some(transition)
    }

    /// Pauses the attachments whose consumers have failed.
    pub(super) fn pause_failed(&mut self, loaded: KeptLoaded<'_>) {
        for at in self.attachments.newly_failed() {
            let mut late = Report::default();
            // Hits are not delivered any more, so there is nothing to commit.
            let _ = self.set_paused(at, true, &mut late, loaded);
            self.attachments.set_late_report(at, late);
        }
    }
}

/// A guard that keeps probes latent while it lives, even for attached consumers.
/// [`ProbeSet::hold`](super::ProbeSet::hold) returns it.
///
/// Holding probes and releasing them detaches no consumer, so neither waits for one: a hit that is
/// in a consumer goes on.
#[must_use = "dropping the hold lets the probes go"]
pub struct Hold {
    ids: Arc<[ProbeId]>,
    policy: PatchPolicy,
    report: Report,
    text: HeldText,
    is_over: bool,
}

impl Hold {
    pub(super) fn new(ids: Arc<[ProbeId]>, policy: PatchPolicy, report: Report, text: HeldText) -> Self {
        Self { ids, policy, report, text, is_over: false }
    }

    /// Returns the result of making the sites latent.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Releases the probes, as dropping does, and returns the result. Sites become active if an
    /// attachment listens to them and no other hold remains.
    ///
    /// ```
    /// # use probe_runtime::{Count, point, select};
    /// # fn work() { point!("held"); }
    /// # work();
    /// let set = select("**::held")?;
    /// let hits = set.attach(Count::new())?;
    /// let hold = set.hold()?;
    /// assert_eq!(hold.release().refused(), 0);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn release(mut self) -> Report {
        self.leave()
    }

    /// Releases the probes on the first call. `drop` calls it again after `release`; that does
    /// nothing.
    fn leave(&mut self) -> Report {
        if std::mem::replace(&mut self.is_over, true) {
            return Report::default();
        }
        let (policy, text) = (self.policy, std::mem::take(&mut self.text));
        let (transitions, report) = operate(|control, loaded| {
            let transitions = Transitions::begin(&control.attachments, &self.ids);
            (transitions, control.release(&self.ids, policy, text, loaded))
        });
        finish_operation(policy.visibility, None);
        transitions.commit();
        report
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("probes", &self.ids.len()).finish_non_exhaustive()
    }
}

/// Transitions of all attachments whose sites a hold switches, as it begins or ends, to commit once
/// every thread executes the switched sites. They keep no consumer alive: an attachment may be gone
/// by then, and the thread that detaches it drops its consumer.
#[must_use = "without a commit, nothing is paired any more"]
pub(super) struct Transitions(Vec<AttachmentTransition>);

struct AttachmentTransition {
    attachment: usize,
    /// Another attachment may later get the same number, but not the same address.
    subscription: Weak<Subscription>,
    transition: Transition,
}

impl Transitions {
    /// Begins a transition of each attachment to these probes, before their sites are switched.
    pub(super) fn begin(attachments: &AttachmentTable, ids: &[ProbeId]) -> Self {
        let mut numbers: Vec<_> = ids.iter().flat_map(|id| attachments.attachments_of(*id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let one = |attachment: usize| {
            let subscription = &attachments.record(attachment)?.subscription;
            Some(AttachmentTransition {
                attachment,
                subscription: Arc::downgrade(subscription),
                transition: subscription.begin_transition(),
            })
        };
        Self(numbers.into_iter().filter_map(one).collect())
    }

    pub(super) fn commit(self) {
        if self.0.is_empty() {
            return;
        }
        let control = lock();
        for AttachmentTransition { attachment, subscription: its, transition } in self.0 {
            let record = control.attachments.record(attachment).map(|record| &record.subscription);
            if let Some(subscription) = record.filter(|it| ptr::eq(Arc::as_ptr(it), its.as_ptr())) {
                subscription.commit_locked(transition);
            }
        }
    }
}

impl ProbeSet {
    /// Forces the probes off, even for attached consumers, until the hold is dropped. Holds add up:
    /// a probe is off while any hold on it exists.
    ///
    /// Once this call has returned (`Synchronous`), no call that starts is a hit, and counts are at
    /// rest, except for at most one hit of each thread that has just passed a site. It does [not
    /// wait](crate::Attachment#waiting) for consumers that are in a hit.
    ///
    /// # Errors
    /// [`Error::TextProtected`], as for [`attach`](Self::attach).
    pub fn hold(&self) -> Result<Hold, Error> {
        let (transitions, held) = operate(|control, loaded| {
            let transitions = Transitions::begin(&control.attachments, &self.ids);
            (transitions, control.hold(&self.ids, self.policy, loaded))
        });
        finish_operation(self.policy.visibility, Some(WaitFor::Passing));
        transitions.commit();
        let (report, text) = held?;
        Ok(Hold::new(Arc::clone(&self.ids), self.policy, report, text))
    }
}

impl Control {
    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(
        &mut self,
        ids: &[ProbeId],
        policy: PatchPolicy,
        loaded: KeptLoaded<'_>,
    ) -> Result<(Report, HeldText), Error> {
        let text = open_text(&self.registry, ids, policy, loaded)?;
        let mut report = Report::default();
        let left = self.attachments.modes_left(ids);
        self.attachments.hold(ids);
        self.switch_probes(ids, &left, policy.access(), &mut report, loaded);
        Ok((report, text))
    }

    pub(super) fn release(
        &mut self,
        ids: &[ProbeId],
        policy: PatchPolicy,
        text: HeldText,
        loaded: KeptLoaded<'_>,
    ) -> Report {
        let mut report = Report::default();
        let left = self.attachments.modes_left(ids);
        self.attachments.release(ids);
        self.switch_probes(ids, &left, policy.access(), &mut report, loaded);
        close_text(text, &mut report, loaded);
        report
    }
}
