//! Switching some probes of an attachment off, and on again, while it stays attached.

use std::fmt;
use std::sync::{Arc, Weak};

use super::Wants;
use super::attached::Attached;
use super::lock::{Locked, lock};
use super::members::Members;
use super::retired::tidy;
use super::state::Control;
use crate::dispatch::Subscription;
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::patch::{Access, RefusalReason, Report, Visibility};
use crate::registry::{ProbeId, provider};

/// Switches probes of one attachment off and on, from any thread: for consumers that sample, or that have heard enough of a
/// probe. From [`Consumer::attached`](crate::Consumer::attached) or [`Attachment::switch`](crate::Attachment::switch). It does not keep
/// the attachment alive: of one that is gone, it switches nothing.
///
/// Which thread patches: the one that calls [`on`](Self::on) or [`off`](Self::off), before the call returns; never the thread of a hit,
/// which may not call them (they lock). A consumer whose hits decide leaves a mark, and has a thread of its own look at
/// it.
///
/// Others are not disturbed: probes that somebody else listens to as well stay active, and are only not delivered to this
/// attachment. [`Attachment::pause`](crate::Attachment::pause) and holds come on top: a probe is active if nothing switches it off.
///
/// Cost, of a batch whose text is open ([`TextPolicy::Open`](crate::TextPolicy::Open)) and [`Eventual`](Visibility::Eventual): one locked instruction for each
/// site and two on the control lock. [`Event::generation`](crate::Event::generation) does not change: who switches knows.
///
/// ```
/// use probe_runtime::{Count, Visibility, probe, select};
///
/// #[probe]
/// fn hot() {}
/// #[probe]
/// fn cold() {}
///
/// let hits = select("**::hot, **::cold")?.attach(Count::new())?;
/// let switch = hits.switch();
/// let ids: Vec<_> = hits.probes().iter().filter(|it| it.path().ends_with("::hot")).map(|it| it.id()).collect();
/// switch.off(&ids, Visibility::Synchronous);
/// hot_and_cold();
/// assert_eq!(hits.total(), 2);
/// switch.on(&ids, Visibility::Synchronous);
/// hot_and_cold();
/// assert_eq!(hits.total(), 6);
/// # fn hot_and_cold() { hot(); cold(); }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Switch {
    number: usize,
    subscription: Weak<Subscription>,
}

impl Switch {
    pub(super) fn new(number: usize, subscription: &Arc<Subscription>) -> Self {
        Self { number, subscription: Arc::downgrade(subscription) }
    }

    /// Switches these probes off: their sites become latent, unless others listen. Those that are not the attachment's are passed
    /// over.
    ///
    /// With [`Visibility::Synchronous`], no call that starts after it has returned is a hit; hits under way are not waited for.
    pub fn off(&self, probes: &[ProbeId], visibility: Visibility) -> Report {
        self.set_off(probes, true, visibility)
    }

    /// Switches these probes on again: with [`Visibility::Synchronous`], each call that starts after it has returned is a hit. Those of a
    /// consumer that has [failed](crate::Attachment::failure) are refused.
    pub fn on(&self, probes: &[ProbeId], visibility: Visibility) -> Report {
        self.set_off(probes, false, visibility)
    }

    /// Has hits of these probes counted by the runtime from here on, in place of being delivered: a tenth of the cost, or less. For a
    /// consumer that [wants either](crate::Wants::Switchable); of others, nothing changes. Sites of which hits are only counted then are led to
    /// code that counts; they stay active meanwhile. Nobody is waited for: hits under way on other threads may still be delivered, until
    /// a switch with [`Visibility::Synchronous`]. Sites that could not be led back by [`deliver`](Self::deliver) are in the
    /// [late report](crate::Attachment::late_report); their hits go on to be counted.
    pub fn count(&self, probes: &[ProbeId]) {
        self.set_counting(probes, true);
    }

    /// Has hits of these probes delivered, in place of being [counted](Self::count); hits under way on other threads may still be counted.
    pub fn deliver(&self, probes: &[ProbeId]) {
        self.set_counting(probes, false);
    }

    /// How many hits of each of these probes were counted so far, by all threads, in place of being delivered. No less than of those that ended before; of a
    /// probe that is hit meanwhile, it may be more a moment later. 0 where the attachment is gone, or never counts.
    /// All since the attachment was made, whoever has reset what its reports tell.
    ///
    /// Cost: the control lock, a search for each probe, and a load of each for each thread.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use probe_runtime::{Consumer, Event, Wants, point, select};
    ///
    /// #[derive(Default)]
    /// struct Some(AtomicU64);
    ///
    /// impl Consumer for Some {
    ///     fn wants(&self) -> Wants {
    ///         Wants::Switchable
    ///     }
    ///
    ///     fn hit(&self, _event: &Event<'_>) {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// let work = || (0..10).for_each(|_| point!("counted_step"));
    /// let some = select("**::counted_step")?.attach(Some::default())?;
    /// let (switch, step) = (some.switch(), some.probes()[0].id());
    /// work();
    /// switch.count(&[step]);
    /// work();
    /// assert_eq!((some.0.load(Ordering::Relaxed), switch.counted(&[step])), (10, vec![10]));
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn counted(&self, probes: &[ProbeId]) -> Vec<u64> {
        let locked = lock();
        match self.find(&locked) {
            Some(_) => locked.counted_of(self.number, probes),
            None => vec![0; probes.len()],
        }
    }

    /// Of each of these probes, whether its sites have code of their own for hits that are only
    /// counted.
    #[cfg(feature = "profiler")]
    pub(crate) fn counted_in_place(probes: &[ProbeId]) -> Vec<bool> {
        #[cfg(probe_backend = "x86_64")]
        {
            let locked = lock();
            let has_blocks = locked.registry.has_blocks();
            probes.iter().map(|id| has_blocks && locked.registry.may_have_blocks(*id)).collect()
        }
        #[cfg(not(probe_backend = "x86_64"))]
        vec![false; probes.len()]
    }

    fn set_counting(&self, probes: &[ProbeId], is_counting: bool) {
        let mut report = Report::default();
        provider::get_ready();
        let mut locked = lock();
        if self.find(&locked).is_none_or(|attached| attached.wants != Wants::Switchable) {
            return;
        }
        self.operate(&mut locked, &mut |control, access| {
            control.set_counting(self.number, probes, is_counting, access, &mut report);
        });
        if report.refused() != 0 {
            locked.keep_late(self.number, report);
        }
    }

    fn set_off(&self, probes: &[ProbeId], is_off: bool, visibility: Visibility) -> Report {
        let mut report = Report::default();
        provider::get_ready();
        let mut locked = lock();
        self.operate(&mut locked, &mut |control, access| {
            control.set_off(self.number, probes, is_off, access, &mut report);
        });
        let has_retired = locked.limbo.has_new();
        drop(locked);
        if has_retired {
            // A consumer is never dropped here, which may be on a thread of its own.
            tidy();
        } else if visibility == Visibility::Synchronous {
            os::heavy_barrier();
        }
        report
    }

    /// Runs what switches sites, with the access that it has to them, if its attachment is there.
    fn operate(&self, locked: &mut Locked, run: &mut dyn FnMut(&mut Control, Access)) {
        // As for pausing: in text that is open nothing can be in the way.
        let policy = self.find(locked).map(|attached| attached.policy);
        if let Some(policy) = policy.filter(|policy| locked.is_fixed(*policy)) {
            let access = locked.access_to_open(policy);
            return run(locked, access);
        }
        let _whole = Uncancellable::new();
        locked.registry.name_pending();
        locked.with_objects(&mut |control| {
            if let Some(attached) = self.find(control) {
                let access = attached.policy.access();
                run(control, access);
            }
        });
    }

    /// Its attachment, unless that is gone: another may have its number.
    fn find<'a>(&self, control: &'a Control) -> Option<&'a Attached> {
        let attached = control.attachments.get(self.number)?.as_ref()?;
        std::ptr::eq(Arc::as_ptr(&attached.subscription), self.subscription.as_ptr()).then_some(attached)
    }
}

impl Control {
    /// Sites that this leads elsewhere stay active meanwhile.
    fn set_counting(
        &mut self,
        attachment: usize,
        probes: &[ProbeId],
        is_counting: bool,
        access: Access,
        report: &mut Report,
    ) {
        let Some(attached) = self.attached(attachment) else { return };
        let subscription = Arc::clone(&attached.subscription);
        let mut changed = Vec::new();
        for &id in probes {
            let before = self.mode_of(id);
            if let Some(members) = self.members.get(id.index()) {
                members.set_counting(&mut self.parts, attachment, &subscription, is_counting);
            }
            if self.mode_of(id) != before {
                changed.push((id, Some(before)));
            }
        }
        if !changed.is_empty() {
            changed.sort_unstable_by_key(|(id, _)| *id);
            let (ids, left): (Vec<_>, Vec<_>) = changed.into_iter().unzip();
            self.switch_each(&ids, &left, access, report);
        }
    }

    fn set_off(
        &mut self,
        attachment: usize,
        probes: &[ProbeId],
        is_off: bool,
        access: Access,
        report: &mut Report,
    ) {
        let mut ids = probes.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let Some(attached) = self.attached(attachment) else { return };
        if !is_off && attached.subscription.has_failed() {
            self.refuse(&ids, &RefusalReason::Failed, report);
            return;
        }
        let left = self.left_each(&ids);
        let mut shared = Vec::new();
        let changed = ids.into_iter().zip(left).filter(|(id, _)| {
            let members = self.members.get(id.index());
            let changed = members.and_then(|it| it.set_off(&mut self.parts, attachment, is_off));
            if let (Some(true), Some(attached)) = (changed, &mut self.attachments[attachment]) {
                attached.off = if is_off { attached.off + 1 } else { attached.off - 1 };
            }
            // Where it listens alone, the hook stays, and only the sites change; unless what others
            // counted is to be left out first.
            let is_shared = |members: &Members| {
                members.attachments(&self.parts).nth(1).is_some()
                    || members.part(&self.parts, attachment).is_some_and(|part| part.is_frozen)
            };
            if changed == Some(true) && members.is_some_and(is_shared) {
                shared.push(*id);
            }
            changed.is_some()
        });
        let (ids, left): (Vec<_>, Vec<_>) = changed.unzip();
        if !shared.is_empty() {
            self.publish(&shared);
        }
        self.switch_each(&ids, &left, access, report);
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").finish_non_exhaustive()
    }
}
