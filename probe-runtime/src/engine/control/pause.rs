//! Pausing an attachment, and resuming it.
//!
//! Cost: if an attachment alone listens to one site of the executable, in text that stays open, two
//! locked instructions for the control lock and one for the site. Each further site takes one more.
//! Synchronous visibility adds its wait.
//!
//! Holds, which force probes off.
//!
//! Attachments whose sites a hold is switching, as it begins or ends.

use std::sync::{Arc, Weak};
use std::{fmt, ptr};

use super::ProbeSet;
#[cfg(probe_backend = "patched")]
use super::attachments::Attached;
use super::attachments::Attachments;
use super::lock::{Control, Locked, lock, lock_here, operate, with_objects};
use super::reclaim::settle;
use super::site_backend::{HeldText, close_text, open_text, refuse};
use super::sites::Policy;
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

/// A guard that keeps probes latent while it lives, even for attached consumers.
/// [`ProbeSet::hold`](super::ProbeSet::hold) returns it.
///
/// Holding probes and releasing them detaches no consumer, so neither waits for one: a hit that is
/// in a consumer goes on.
#[must_use = "dropping the hold lets the probes go"]
pub struct Hold {
    ids: Arc<[ProbeId]>,
    policy: Policy,
    report: Report,
    text: HeldText,
    is_over: bool,
}

impl Hold {
    pub(super) fn new(ids: Arc<[ProbeId]>, policy: Policy, report: Report, text: HeldText) -> Self {
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
        let (unsettled, report) = operate(|control, loaded| {
            let unsettled = Switched::unsettle(&control.attachments, &self.ids);
            (unsettled, control.release(&self.ids, policy, text, loaded))
        });
        settle(policy.visibility, None);
        unsettled.settle();
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

/// Subscriptions to settle once every thread executes the switched sites. It keeps no consumer
/// alive: an attachment may be gone by then, and the thread that detaches it drops its consumer.
#[must_use = "without its end, nothing is paired any more"]
pub(super) struct Switched(Vec<One>);

struct One {
    attachment: usize,
    /// Another attachment may later get the same number, but not the same address.
    subscription: Weak<Subscription>,
    unsettled: Transition,
}

impl Switched {
    /// Marks all attachments to these probes as unsettled, before their sites are switched.
    pub(super) fn unsettle(attachments: &Attachments, ids: &[ProbeId]) -> Self {
        let mut numbers: Vec<_> = ids.iter().flat_map(|id| attachments.attachments_of(*id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let one = |attachment: usize| {
            let subscription = &attachments.attached(attachment)?.subscription;
            Some(One {
                attachment,
                subscription: Arc::downgrade(subscription),
                unsettled: subscription.begin_transition(),
            })
        };
        Self(numbers.into_iter().filter_map(one).collect())
    }

    pub(super) fn settle(self) {
        if self.0.is_empty() {
            return;
        }
        let control = lock();
        for One { attachment, subscription: its, unsettled } in self.0 {
            let attached = control.attachments.attached(attachment).map(|attached| &attached.subscription);
            if let Some(subscription) = attached.filter(|it| ptr::eq(Arc::as_ptr(it), its.as_ptr())) {
                subscription.commit_locked(unsettled);
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
        let (unsettled, held) = operate(|control, loaded| {
            let unsettled = Switched::unsettle(&control.attachments, &self.ids);
            (unsettled, control.hold(&self.ids, self.policy, loaded))
        });
        settle(self.policy.visibility, Some(WaitFor::Passing));
        unsettled.settle();
        let (report, text) = held?;
        Ok(Hold::new(Arc::clone(&self.ids), self.policy, report, text))
    }
}

impl Control {
    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(
        &mut self,
        ids: &[ProbeId],
        policy: Policy,
        loaded: KeptLoaded<'_>,
    ) -> Result<(Report, HeldText), Error> {
        let text = open_text(&self.registry, ids, policy, loaded)?;
        let mut report = Report::default();
        let left = self.attachments.left_each(ids);
        self.attachments.hold(ids);
        self.switch_each(ids, &left, policy.access(), &mut report, loaded);
        Ok((report, text))
    }

    pub(super) fn release(
        &mut self,
        ids: &[ProbeId],
        policy: Policy,
        text: HeldText,
        loaded: KeptLoaded<'_>,
    ) -> Report {
        let mut report = Report::default();
        let left = self.attachments.left_each(ids);
        self.attachments.release(ids);
        self.switch_each(ids, &left, policy.access(), &mut report, loaded);
        close_text(text, &mut report, loaded);
        report
    }
}
