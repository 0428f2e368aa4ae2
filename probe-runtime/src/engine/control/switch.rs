//! Switching some probes of an attachment off and on.

use std::sync::{Arc, Weak};
use std::{fmt, ptr};

use super::DeliveryMode;
use super::attachments::AttachmentRecord;
use super::counting::sum;
use super::lock::{Control, ControlGuard, lock, with_objects};
use super::reclaim::reclaim_hooks;
use super::sites::Switching;
use crate::engine::dispatch::{CounterAt, Subscription};
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::registry::{ProbeId, provider};
use crate::engine::sites::{RefusalReason, Report, Visibility};

/// A handle that switches probes of one attachment off and on, from any thread: for consumers that
/// sample, or that have seen enough hits of a probe.
/// [`Consumer::attached`](crate::Consumer::attached) receives one, and
/// [`Attachment::switch`](crate::Attachment::switch) returns one. It does not keep the attachment
/// alive; once the attachment is gone, it switches nothing.
///
/// The thread that calls [`on`](Self::on) or [`off`](Self::off) patches, before the call returns. A
/// hit must not call them, since they lock. A consumer whose hits decide sets a flag, and has a
/// thread of its own check it.
///
/// Other attachments are not affected: their probes stay active, and only this attachment gets no
/// hits of them. [`Attachment::pause`](crate::Attachment::pause) and holds apply as well: a probe
/// is active if nothing switches it off.
///
/// Cost of an [`Eventual`](Visibility::Eventual) batch whose text is open
/// ([`TextPolicy::Open`](crate::patch::TextPolicy::Open)): one locked instruction for each site and
/// two on the control lock. [`Event::generation`](crate::Event::generation) does not change; the
/// caller must account for the switch.
///
/// ```
/// use probe_runtime::patch::Visibility;
/// use probe_runtime::{Count, probe, select};
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

    /// Switches these probes off: their sites become latent unless other attachments listen. Ids of
    /// probes that are not the attachment's are ignored.
    ///
    /// With [`Visibility::Synchronous`], no call that starts after `off` has returned is a hit. It
    /// does not wait for hits under way.
    pub fn off(&self, probes: &[ProbeId], visibility: Visibility) -> Report {
        self.set_off(probes, true, visibility)
    }

    /// Switches these probes on again. With [`Visibility::Synchronous`], each call that starts
    /// after `on` has returned is a hit. If the consumer has [failed](crate::Attachment::failure),
    /// the probes are refused.
    pub fn on(&self, probes: &[ProbeId], visibility: Visibility) -> Report {
        self.set_off(probes, false, visibility)
    }

    /// Lets the runtime count hits of these probes from now on, instead of delivering them. A
    /// counted hit costs a tenth of a delivered one, or less. Changes nothing unless the consumer
    /// is [switchable](DeliveryMode::Switchable).
    ///
    /// Sites whose hits are then only counted are redirected to code that counts; they stay active
    /// meanwhile. The call waits for no hit: hits under way on other threads may still be delivered
    /// until a switch with [`Visibility::Synchronous`]. If [`deliver`](Self::deliver) could not
    /// redirect some sites back, the [late report](crate::Attachment::late_report) lists them, and
    /// their hits are still counted.
    pub fn count(&self, probes: &[ProbeId]) {
        self.set_counting(probes, true);
    }

    /// Delivers hits of these probes again, instead of [counting](Self::count) them. Hits under way
    /// on other threads may still be counted.
    pub fn deliver(&self, probes: &[ProbeId]) {
        self.set_counting(probes, false);
    }

    /// Returns the attachment's [generation](crate::Event::generation); `None` if it is gone.
    pub(crate) fn generation(&self) -> Option<u32> {
        Some(self.subscription.upgrade()?.generation())
    }

    /// Returns where the attachment's suppressed hits are counted; `None` if it is gone.
    pub(crate) fn suppressed_hits(&self) -> Option<SuppressedHits> {
        let locked = lock();
        let counter = CounterAt::new(self.find(&locked)?.counters.start);
        Some(SuppressedHits { counter, subscription: Weak::clone(&self.subscription) })
    }

    /// Returns how many hits of each of these probes were counted so far, by all threads, instead
    /// of being delivered. All hits that ended before the call are included, and possibly some that
    /// happen meanwhile. A count is 0 if the attachment is gone or never counts. Counts start when
    /// the attachment is made, regardless of resets.
    ///
    /// Cost: the control lock, a search for each probe, and a load for each probe and thread.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use probe_runtime::consumer::DeliveryMode;
    /// use probe_runtime::{Consumer, Event, point, select};
    ///
    /// #[derive(Default)]
    /// struct Some(AtomicU64);
    ///
    /// impl Consumer for Some {
    ///     fn delivery_mode(&self) -> DeliveryMode {
    ///         DeliveryMode::Switchable
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
            Some(_) => locked.attachments.counted_of(self.number, probes),
            None => vec![0; probes.len()],
        }
    }

    /// Returns for each of these lists whether the attachment has all of its probes.
    pub(crate) fn has_all(&self, lists: &[Vec<ProbeId>]) -> Vec<bool> {
        let locked = lock();
        let has = |id: &ProbeId| locked.attachments.probes.slot(*id, self.number).is_some();
        let is_attached = self.find(&locked).is_some();
        lists.iter().map(|probes| is_attached && probes.iter().all(has)).collect()
    }

    /// Returns for each of these probes whether its sites have their own code for hits that are
    /// only counted.
    pub(crate) fn counted_in_place(probes: &[ProbeId]) -> Vec<bool> {
        #[cfg(probe_backend = "patched")]
        {
            let mut in_place = Vec::new();
            lock().with_known_objects(&mut |control, loaded| {
                let registry = &control.registry;
                let has_blocks = registry.has_blocks();
                let has = |id: &ProbeId| has_blocks && registry.may_have_blocks(*id, loaded);
                in_place = probes.iter().map(has).collect();
            });
            in_place
        }
        #[cfg(not(probe_backend = "patched"))]
        vec![false; probes.len()]
    }

    /// Returns the number of sites of each of these lists of probes.
    pub(crate) fn site_counts(lists: &[Vec<ProbeId>]) -> Vec<u32> {
        let locked = lock();
        let of =
            |probes: &Vec<ProbeId>| probes.iter().map(|id| locked.registry.site_count(*id)).sum::<usize>();
        lists.iter().map(|probes| u32::try_from(of(probes)).unwrap_or(u32::MAX)).collect()
    }

    fn set_counting(&self, probes: &[ProbeId], is_counting: bool) {
        let mut report = Report::default();
        provider::get_ready();
        let mut locked = lock();
        if self.find(&locked).is_none_or(|record| record.delivery != DeliveryMode::Switchable) {
            return;
        }
        self.with_access(&mut locked, &mut report, &mut |control, switching| {
            control.set_counting(self.number, probes, is_counting, switching);
        });
        if report.refused() != 0 {
            locked.attachments.set_late_report(self.number, report);
        }
    }

    fn set_off(&self, probes: &[ProbeId], is_off: bool, visibility: Visibility) -> Report {
        let mut report = Report::default();
        provider::get_ready();
        let mut locked = lock();
        self.with_access(&mut locked, &mut report, &mut |control, switching| {
            control.set_off(self.number, probes, is_off, switching);
        });
        let has_retired = locked.reclaimer.has_new();
        drop(locked);
        if has_retired {
            // This drops no consumer: the caller may be a consumer's own thread.
            reclaim_hooks();
        } else if visibility == Visibility::Synchronous {
            os::heavy_barrier();
        }
        report
    }

    /// Calls `run` with the way to switch the attachment's sites, if the attachment still exists.
    fn with_access(
        &self,
        locked: &mut ControlGuard,
        report: &mut Report,
        run: &mut dyn FnMut(&mut Control, Switching<'_>),
    ) {
        // As for pausing: in the executable's open text, loaded objects need not be listed.
        let policy = self.find(locked).map(|record| record.policy);
        if let Some(policy) = policy.filter(|policy| locked.needs_no_freeze(*policy)) {
            let access = locked.access_to_open(policy);
            locked.with_executable(&mut |control, loaded| run(control, Switching { access, report, loaded }));
            return;
        }
        let _whole = Uncancellable::new();
        locked.registry.name_pending();
        with_objects(locked, &mut |control, loaded| {
            if let Some(access) = self.find(control).map(|record| record.policy.access()) {
                run(control, Switching { access, report, loaded });
            }
        });
    }

    /// Returns its attachment if it still exists. A later attachment may have the same number, but
    /// not a subscription at the same address.
    pub(super) fn find<'a>(&self, control: &'a Control) -> Option<&'a AttachmentRecord> {
        let record = control.attachments.record(self.number)?;
        ptr::eq(Arc::as_ptr(&record.subscription), self.subscription.as_ptr()).then_some(record)
    }
}

impl Control {
    /// Counts or delivers an attachment's hits of these probes. Sites that are redirected stay
    /// active meanwhile.
    fn set_counting(&mut self, number: usize, ids: &[ProbeId], is_counting: bool, switching: Switching<'_>) {
        let Some(record) = self.attachments.record(number) else { return };
        let subscription = Arc::clone(&record.subscription);
        let mut changed = Vec::new();
        for &id in ids {
            let before = self.attachments.mode_of(id);
            self.attachments.probes.set_counting(id, number, &subscription, is_counting);
            if self.attachments.mode_of(id) != before {
                changed.push((id, Some(before)));
            }
        }
        if !changed.is_empty() {
            changed.sort_unstable_by_key(|(id, _)| *id);
            let (ids, left): (Vec<_>, Vec<_>) = changed.into_iter().unzip();
            self.switch_probes(&ids, &left, switching);
        }
    }

    fn set_off(&mut self, number: usize, ids: &[ProbeId], is_off: bool, switching: Switching<'_>) {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let Some(record) = self.attachments.record(number) else { return };
        if !is_off && record.subscription.has_failed() {
            self.refuse(&ids, &RefusalReason::Failed, switching.report);
            return;
        }
        let left = self.attachments.modes_left(&ids);
        let mut shared = Vec::new();
        let changed = ids.into_iter().zip(left).filter(|(id, _)| {
            let changed = self.attachments.set_off(number, *id, is_off);
            if changed == Some(true) && self.attachments.needs_new_hook(number, *id) {
                shared.push(*id);
            }
            changed.is_some()
        });
        let (ids, left): (Vec<_>, Vec<_>) = changed.unzip();
        if !shared.is_empty() {
            self.publish(&shared, switching.loaded);
        }
        self.switch_probes(&ids, &left, switching);
    }
}

/// The count of an attachment's [suppressed](crate::Attachment::suppressed) hits, which is read
/// without a lock and without the heap. Stays right while the consumer is dropped.
#[derive(Clone, Debug)]
pub(crate) struct SuppressedHits {
    counter: CounterAt,
    subscription: Weak<Subscription>,
}

impl SuppressedHits {
    pub(crate) fn now(&self) -> u64 {
        self.subscription.upgrade().map_or(0, |of| of.suppressed(|| sum(self.counter)))
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;

    /// As a panic hook does, on a thread that may hold the lock.
    #[test]
    fn suppressed_hits_are_read_while_the_lock_is_held() {
        let subscription = Arc::new(Subscription::new(Arc::new(|_: &crate::Event<'_>| ())));
        let counter = CounterAt::new(0);
        let hits = SuppressedHits { counter, subscription: Arc::downgrade(&subscription) };
        let locked = lock();
        assert_eq!(hits.now(), sum(counter));
        drop(locked);
        // The counter is another attachment's then.
        subscription.keep_suppressed(7);
        assert_eq!(hits.now(), 7);
        drop(subscription);
        assert_eq!(hits.now(), 0);
    }
}
