//! Pausing attachments and resuming them, and holds, which force probes off for all attachments.
//!
//! Cost of a pause: if an attachment alone listens to one site of the executable, in text that
//! stays open, two locked instructions for the control lock and one for the site. Each further site
//! takes one more. Synchronous visibility adds its wait.

use std::fmt;
use std::sync::Arc;

use super::ProbeSet;
use super::attachments::{AttachmentRecord, AttachmentTable};
use super::lock::{Control, ControlGuard, lock, lock_inlined, operate, with_objects};
use super::probe_attachments::AttachmentSlot;
use super::reclaim::finish_operation;
use super::site_backend::HeldText;
use super::sites::{PatchPolicy, Switching};
use super::switch::Switch;
use crate::engine::dispatch::{Subscription, Transition, WaitFor};
use crate::engine::error::Error;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, provider};
use crate::engine::sites::{self, Access, Instruction, Mode, RefusalReason, Report, Visibility};

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
    let is_eventual = visibility == Visibility::Eventual;
    let is_finished = is_eventual && !control.reclaimer.has_new();
    if let Some(transition) = transition.take_if(|_| is_eventual) {
        subscription.commit_locked(transition);
    }
    locked.unlock();
    if !is_finished {
        finish_operation(visibility, is_paused.then(|| subscription.wait_for()));
    }
    if let Some(transition) = transition {
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
        let mut switching = Switching { access: Access::Held, report: &mut report, loaded };
        self.switch_ranges(&record.id_ranges, mode, Some(left), &mut switching);
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
            self.refuse(&record.ids, &RefusalReason::Failed, report);
            return None;
        }
        let decides_alone = record.decides_alone() && cfg!(probe_backend = "patched");
        let modes_left = (!decides_alone).then(|| self.attachments.modes_left(&record.ids));
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
        let mut switching = Switching { access, report, loaded };
        if let Some(mode) = mode {
            // No other attachment decides on these probes: their hooks stay, and only the sites
            // change.
            self.switch_ranges(&record.id_ranges, mode, Some(left), &mut switching);
        } else {
            let ids = Arc::clone(&record.ids);
            if !decides_alone {
                self.publish(&ids, loaded);
            }
            let modes_left = modes_left.unwrap_or_else(|| vec![Some(left); ids.len()]);
            self.switch_probes(&ids, &modes_left, switching);
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
/// in a consumer continues.
#[must_use = "dropping the hold lets the probes go"]
pub struct Hold {
    ids: Arc<[ProbeId]>,
    policy: PatchPolicy,
    report: Report,
    /// `None` once released.
    text: Option<HeldText>,
}

impl Hold {
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
        self.release_once()
    }

    /// Releases the probes on the first call. `drop` calls it again after `release`; that does
    /// nothing.
    fn release_once(&mut self) -> Report {
        let Some(text) = self.text.take() else { return Report::default() };
        let (ids, policy, mut report) = (&self.ids, self.policy, Report::default());
        let transitions = operate(|control, loaded| {
            let transitions = control.set_held(ids, false, policy, &mut report, loaded);
            text.close(&mut report, loaded);
            transitions
        });
        finish_operation(policy.visibility, None);
        transitions.commit();
        report
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.release_once();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("probes", &self.ids.len()).finish_non_exhaustive()
    }
}

/// Transitions of all attachments whose sites a hold switches, as it begins or ends, to commit once
/// every thread executes the switched sites.
#[must_use = "without a commit, nothing is paired any more"]
struct Transitions(Vec<(Switch, Transition)>);

impl Transitions {
    /// Begins a transition of each attachment to these probes, before their sites are switched.
    fn begin(attachments: &AttachmentTable, ids: &[ProbeId]) -> Self {
        let slots = ids.iter().flat_map(|id| attachments.probes.slots(*id));
        let mut numbers: Vec<_> = slots.map(AttachmentSlot::attachment).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let begin = |number: usize| {
            let subscription = &attachments.record(number)?.subscription;
            Some((Switch::new(number, subscription), subscription.begin_transition()))
        };
        Self(numbers.into_iter().filter_map(begin).collect())
    }

    /// Commits the transitions of attachments that still exist.
    fn commit(self) {
        if self.0.is_empty() {
            return;
        }
        let control = lock();
        for (switch, transition) in self.0 {
            switch
                .find(&control)
                .into_iter()
                .for_each(|record| record.subscription.commit_locked(transition));
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
        let (ids, policy, mut report) = (&self.ids, self.policy, Report::default());
        let (text, transitions) = operate(|control, loaded| {
            let text = control.open_text(ids, policy, loaded)?;
            Ok::<_, Error>((text, control.set_held(ids, true, policy, &mut report, loaded)))
        })?;
        finish_operation(policy.visibility, Some(WaitFor::Passing));
        transitions.commit();
        Ok(Hold { ids: Arc::clone(ids), policy, report, text: Some(text) })
    }
}

impl Control {
    /// Forces probes off, or lets them go, and switches their sites.
    fn set_held(
        &mut self,
        ids: &[ProbeId],
        is_held: bool,
        policy: PatchPolicy,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> Transitions {
        let transitions = Transitions::begin(&self.attachments, ids);
        let left = self.attachments.modes_left(ids);
        self.attachments.set_held(ids, is_held);
        self.switch_probes(ids, &left, Switching { access: policy.access(), report, loaded });
        transitions
    }
}
