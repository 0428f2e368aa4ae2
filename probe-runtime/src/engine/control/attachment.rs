//! A consumer's attachment to a set of probes: typed for its owner, and untyped for reports.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::{fmt, mem};

use super::counting::Baseline;
use super::init::try_init;
use super::join::{JoinRule, JoinState};
use super::join_lock::{self, JoinLock};
use super::lock::{Control, lock, operate};
use super::pause::pause;
use super::reclaim::finish_operation;
use super::select::{ProbeSet, unmatched};
use super::sites::PatchPolicy;
use super::switch::Switch;
use super::{Consumer, DeliveryMode, Start};
use crate::engine::dispatch::{Event, Subscription, Transition, WaitFor};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{Counts, ProbeCount, ProbeId, ProbeInfo};
use crate::engine::sites::{Refusal, Report, UnmatchedTerm, Visibility};
use probe_report::source::Since;

/// A consumer that is attached to probes, from [`ProbeSet::attach`](super::ProbeSet::attach). It
/// derefs to the consumer. Dropping it detaches the consumer: its sites become latent unless other
/// attachments listen, and the consumer is dropped.
///
/// # Waiting
/// Dropping the attachment, [`detach`](Self::detach) and [`pause`](Self::pause) return when no
/// thread is inside its consumer any more, so the caller may then free whatever the consumer uses.
/// Don't call them while holding a lock that the consumer's `hit` takes: this deadlocks.
///
/// These calls and [`hold`](crate::ProbeSet::hold) also wait for threads between a site and a
/// consumer, which are there for a few instructions. Counts are then at rest, except for at most
/// one hit of each thread that has just passed a site.
///
/// No call waits for a hit of another consumer, however long the hit lasts, even if both consumers
/// share a probe. A later operation frees the memory that such a hit may still be reading. However
/// many operations run beside one hit, this is no more than was published when the hit was first
/// seen.
///
/// Inside a consumer's `hit`, no operation waits. If an attachment is dropped there, a later
/// operation on any thread drops its consumer: one that attaches, pauses, resumes, holds or
/// detaches. Queries (`probes`, `counts`, reports) and [`Switch`] drop no consumer.
///
/// If a consumer leaves its hit by `longjmp`, calls that wait for the hit do so until its thread
/// ends.
///
/// A signal handler that interrupts a hit must return. If it leaves by `siglongjmp`, its thread
/// counts as inside that hit for good:
///
/// - If the thread was between a site and a consumer, or in a hit that is only counted, all the
///   calls above wait until the thread ends.
/// - If the thread was in a consumer, the calls that wait for this consumer do so until the thread
///   ends, and no consumer is called on that thread any more.
///
/// A counted hit takes some ten instructions, so this is rare. A program that leaves its timers'
/// handlers this way meets it sooner or later. Don't probe code that such handlers interrupt.
///
/// # While it is attached
/// - **Objects may be loaded and unloaded** (`dlopen`, `dlclose`), by any thread at any time, also
///   while this crate is at work. Constructors and destructors may use this crate. Probes of an
///   unloaded object have no sites any more, and keep their [counts](Self::counts). The next
///   operation (of any attachment, [`select`](crate::select), [`probes`](crate::probes)) notices
///   loaded objects, and activates their copies of attached probes;
///   [`late_report`](Self::late_report) holds the result. Only [`pause`](Self::pause) and
///   [`resume`](Self::resume) under [`TextPolicy::Open`](crate::patch::TextPolicy::Open) don't look
///   for new objects, as long as all known probes are the executable's. A plugin that has its own
///   copy of this crate stays loaded until the process ends, even after `dlclose`, once it uses
///   that copy, even if only to list probes or to open text. Don't use this crate from a
///   `dl_iterate_phdr` callback.
/// - **The process may fork.** The child has the attachment, too, with a copy of its counts, unless
///   its consumer [needs a thread](Consumer::needs_thread) of the parent's. (glibc does not let a
///   child look at its objects if another thread of the parent was loading, unloading or looking at
///   some. Operations in the child then wait for ever; hits continue.) If a program's own
///   `pthread_atfork` hook takes a lock that the program also holds while it uses this crate,
///   install that hook after the first use of this crate, so that both take their locks in the same
///   order. `vfork` and `posix_spawn` change nothing. A child made by a bare `clone` or `fork`
///   system call may hit probes, but must not use this crate.
/// - **The process may end, or become another program** (`exit`, `exec`), with or without
///   attachments, at any time. Attachments that still exist then are not detached, and need not be.
/// - **A thread may be cancelled** (`pthread_cancel`). Operations of this crate are no cancellation
///   points, and run to their end. So do hits, except for the [consumer](Consumer::hit)'s own code.
///   The program is responsible for where the unwinding that follows meets Rust's frames. A thread
///   that may be cancelled asynchronously must not run Rust code: it must neither hit probes nor
///   use this crate during that time.
#[must_use = "dropping the attachment makes its probes latent, and `let _ =` drops it at once: give it a name, \
              such as `let _attached =`"]
pub struct Attachment<C: Consumer> {
    /// Dropped before `untyped`, which drops the consumer at the right moment.
    consumer: Arc<C>,
    untyped: Untyped,
}

impl<C: Consumer> Attachment<C> {
    /// Returns the part that does not depend on the consumer's type.
    pub(crate) fn untyped(&self) -> &Untyped {
        &self.untyped
    }

    /// Returns the result of activating the sites. [`late_report`](Self::late_report) covers
    /// objects that were loaded later.
    pub fn report(&self) -> &Report {
        self.untyped.report()
    }

    /// Returns the result of the last change to the sites that no caller asked for. The call first
    /// looks for objects that were loaded or unloaded. If probes have
    /// [joined](crate::ProbeSet::persistent) last, the report is about them. Each time an operation
    /// finds objects, it brings
    /// all sites concerned into their intended state:
    ///
    /// - Copies in new objects are [patched](Report::patched).
    /// - Sites that already are in that state are [unchanged](Report::unchanged).
    /// - Sites that could not be switched, now or before, are [refused](Report::refusals). The
    ///   reason is [`Taken`](crate::patch::RefusalReason::Taken) where another copy of this crate
    ///   was the first to attach to a copy of the probe.
    ///
    /// If two attachments share a site, one of them patches it, and the other finds it unchanged.
    /// The sites of a consumer that has [failed](Self::failure) are made latent in the same way.
    /// Discovered call sites (feature `finstrument`) are switched in the same way, too; if nothing
    /// else is new, the report covers them alone.
    ///
    /// After an unload, the report covers all sites. After loads alone, it covers the probes that
    /// the new objects have copies of, and does not change if there are none. It also covers all
    /// sites if some records can't be read, or if all probes were the executable's until then.
    ///
    /// The report is empty until the first such change.
    ///
    /// ```
    /// # use probe_runtime::{Count, point, select};
    /// # fn work() { point!("late"); }
    /// # work();
    /// let hits = select("**::late")?.attach(Count::new())?;
    /// // … plugins come and go …
    /// assert!(hits.late_report().is_complete(), "{}", hits.late_report());
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn late_report(&self) -> Report {
        self.untyped.late_report()
    }

    /// Stops the hits and keeps the counts: sites become latent unless other attachments listen.
    /// With [`Visibility::Synchronous`](crate::patch::Visibility::Synchronous), no call that starts
    /// after `pause` has returned is a hit, and no thread is inside the consumer: `pause`
    /// [waits](Self#waiting) for that.
    ///
    /// A thread may have passed a site earlier and still be on its way to the consumer, evaluating
    /// a field, say:
    ///
    /// - If hits are counted and no other attachment listens, the thread counts that hit when it
    ///   arrives.
    /// - If other attachments count the same probe, the hit is counted for them only.
    /// - If hits are delivered, the consumer is not called once a synchronous pause has returned.
    ///   After an [`Eventual`](crate::patch::Visibility::Eventual) pause it is called.
    /// - A thread in another consumer on the same probe does not count the hit for this attachment
    ///   after a synchronous pause.
    ///
    /// Cost: see the figure `toggle`. One probe with `Open` and `Eventual` takes one locked
    /// instruction on its site and two on the control lock. It takes up to three times as long if
    /// the calling code lies in the site's own cache line, which the processor throws away.
    pub fn pause(&self) -> Report {
        self.consumer.pausing();
        self.untyped.set_paused(true)
    }

    /// Starts the hits again after [`pause`](Self::pause). It waits for no hit. If the consumer has
    /// [failed](Self::failure), the attachment can't be resumed: its sites are refused with
    /// [`RefusalReason::Failed`](crate::patch::RefusalReason::Failed).
    pub fn resume(&self) -> Report {
        self.untyped.set_paused(false)
    }

    /// Returns a handle that switches some of its probes off and on, from any thread.
    pub fn switch(&self) -> Switch {
        self.untyped.switch()
    }

    /// Detaches, as dropping does, and returns the result of making the sites latent. It
    /// [waits](Self#waiting) until no thread is inside the consumer, and drops the consumer.
    pub fn detach(self) -> Report {
        let Self { consumer, mut untyped } = self;
        drop(consumer);
        untyped.detach_once()
    }

    /// Returns the attachment's probes in their present state. Probes whose objects were unloaded
    /// since are [`Unloaded`](crate::registry::ProbeState::Unloaded).
    pub fn probes(&self) -> Vec<ProbeInfo> {
        self.untyped.probes()
    }

    /// Returns the sites of its probes whose bytes other code has changed, with the bytes expected
    /// and found. Hits may be lost there. Reports say so below their tables. See
    /// [`ProbeInfo::foreign`].
    ///
    /// ```
    /// # use probe_runtime::{Count, point, select};
    /// # fn work() { point!("own"); }
    /// # work();
    /// let hits = select("**::own")?.attach(Count::new())?;
    /// assert!(hits.foreign().is_empty());
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn foreign(&self) -> Vec<Refusal> {
        self.untyped.foreign()
    }

    /// Returns the count of each probe, by path, if hits are counted for the consumer, always or
    /// at times: see [`delivery_mode`](Consumer::delivery_mode). Counts are exact for hits that
    /// ended before the call, on any number of threads, including threads that have exited. They
    /// include probes that were unloaded since, which have no sites. For a
    /// [`Count`](crate::Count) that was [reset](Self::reset), they start at the last reset.
    pub fn counts(&self) -> Counts {
        self.untyped.counts()
    }

    /// Returns the counts, and starts all of them at 0 again.
    pub(crate) fn reset_counts(&self) -> Counts {
        self.untyped.reset_counts()
    }

    /// Returns the number of hits that were not delivered because they happened inside a consumer:
    /// from its own probes, or from a signal handler that interrupted it.
    pub fn suppressed(&self) -> u64 {
        self.untyped.suppressed()
    }

    /// Returns how many probes appeared later, and could not join a
    /// [persistent](crate::ProbeSet::persistent) attachment, with the reason: its consumer has no
    /// room for them, say. Returns `None` if there are none. Reports say so below their tables.
    ///
    /// ```
    /// # use probe_runtime::{Count, select_persistent};
    /// let hits = select_persistent("plugin::**")?.attach(Count::new())?;
    /// assert_eq!(hits.left_out_later(), None);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn left_out_later(&self) -> Option<String> {
        self.untyped.left_out_later()
    }

    /// Returns the reason why the consumer is not called any more: the message of its panic, or
    /// that this process is a forked child and the consumer [needs a
    /// thread](Consumer::needs_thread) of the parent's. Its sites are then latent unless other
    /// attachments listen. Returns `None` if the consumer has not failed.
    pub fn failure(&self) -> Option<&str> {
        self.untyped.failure()
    }
}

impl ProbeSet {
    /// Attaches a consumer to all probes of the set and activates their sites, while all threads
    /// run. Once it has returned (`Synchronous`), every call of a probed function that starts is a
    /// hit. It waits for no hit of any consumer.
    ///
    /// Sites that can't be activated are in the [report](Attachment::report); the others become
    /// active.
    ///
    /// # Errors
    /// - [`Error::Refused`] if no site could be activated.
    /// - [`Error::TextProtected`] if the system does not let text stay writable as
    ///   [`TextPolicy::Open`](crate::patch::TextPolicy::Open) asks.
    /// - [`Error::OutOfCounters`] if no counters are left.
    /// - [`Error::Unpinned`] if this copy of the crate could be unloaded while sites enter it.
    /// - Any error that the consumer's [`prepare`](Consumer::prepare) or
    ///   [`attached`](Consumer::attached) returns.
    ///
    /// After an error, nothing has changed.
    pub fn attach<C: Consumer>(&self, consumer: C) -> Result<Attachment<C>, Error> {
        let consumer = Arc::new(consumer);
        self.attach_through(Arc::clone(&consumer), consumer, None)
    }

    /// Attaches a closure that is called with each hit, and infers the type of its parameter.
    /// [`attach`](Self::attach) takes closures that write the type (`|event: &Event<'_>|`).
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use probe_runtime::{probe, select};
    ///
    /// #[probe(args(*))]
    /// fn receive(message: &str) {
    ///     assert_ne!(message, "");
    /// }
    /// receive("a");
    ///
    /// static FIELDS: AtomicUsize = AtomicUsize::new(0);
    /// let attached = select("**::receive kind=entry")?.attach_fn(|event| {
    ///     FIELDS.fetch_add(event.fields().count(), Relaxed);
    /// })?;
    /// receive("hello");
    /// assert_eq!(FIELDS.load(Relaxed), 1);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn attach_fn<F>(&self, closure: F) -> Result<Attachment<F>, Error>
    where
        F: Fn(&Event<'_>) + Send + Sync + 'static,
    {
        self.attach(closure)
    }
}

impl<C: Consumer> Deref for Attachment<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.consumer
    }
}

impl<C: Consumer> fmt::Debug for Attachment<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("report", self.report()).finish_non_exhaustive()
    }
}

/// An attachment without its consumer's type. It detaches when it is dropped, as
/// [`Attachment`](super::Attachment) describes. The owner of the consumer drops its reference
/// first.
pub(crate) struct Untyped {
    number: usize,
    subscription: Arc<Subscription>,
    report: Report,
    policy: PatchPolicy,
    since: Since,
    counts: Baseline<Counts>,
    is_detached: bool,
    /// Whether probes may join.
    is_persistent: bool,
    /// Whether first hits of discovered functions are counted for it.
    counts_first_hits: bool,
    /// The consumer that passes hits on to this one, if it does not get all.
    filter: Option<Arc<dyn HitFilter>>,
}

impl Untyped {
    /// Returns the consumer that passes hits on to this one, if it does not get all.
    pub(crate) fn hit_filter(&self) -> Option<&dyn HitFilter> {
        self.filter.as_deref()
    }

    /// Attaches a consumer to a set's probes. [`finish`](Self::finish) then tells the consumer.
    fn begin(
        set: &ProbeSet,
        consumer: &Arc<dyn Consumer>,
        subscription: Arc<Subscription>,
        filter: Option<Arc<dyn HitFilter>>,
    ) -> Result<Self, Error> {
        // Called before the lock is taken: it runs the consumer's own code.
        let delivery = consumer.delivery_mode();
        try_init()?;
        if set.policy.stays_in_parent {
            subscription.stay_in_parent();
        }
        if subscription.needs_thread() {
            // A process's first barrier registers it with the kernel. That takes microseconds while
            // it has one thread, and tens of milliseconds from its second thread on.
            os::heavy_barrier();
        }
        let joins_at_once = consumer.joins_at_once();
        let present = (!joins_at_once).then(|| set.present()).flatten();
        let (set, seen) = present.as_ref().map_or((set, None), |(set, seen)| (set, Some(*seen)));
        #[cfg(probe_values)]
        let with_values = set.with_values(consumer.wanted_fields());
        #[cfg(probe_values)]
        let set = with_values.as_ref().unwrap_or(set);
        consumer.prepare(set)?;
        #[cfg(probe_values)]
        set.give_values(&subscription);
        subscription.set_recorder(consumer.recorder());
        subscription.set_quick(consumer.quick());
        let starts = set.ids.iter().map(|id| (*id, consumer.start(*id)));
        let starts: Vec<_> = starts.filter(|(_, start)| *start != Start::On).collect();
        let join_state = JoinState::of(set, consumer, joins_at_once);
        let (policy, is_persistent) = (set.policy, join_state.is_some());
        let counts_first_hits = set.discovered_room().filter(|_| delivery == DeliveryMode::Counted);
        let attach = |control: &mut Control, loaded: KeptLoaded<'_>| {
            // The consumer may not have seen probes that came or went meanwhile: they join.
            let is_seen = seen.is_none_or(|seen| seen == control.changes);
            let of_main = (!is_seen).then(|| set.only(&|id| control.registry.is_in_main(*id)));
            let ids = &of_main.as_ref().unwrap_or(set).ids;
            let (number, report) = control.attach(ids, policy, &subscription, delivery, &starts, loaded)?;
            if let Some(record) = control.attachments.record_mut(number) {
                record.join_state = join_state;
            }
            if let Some(capacity) = counts_first_hits {
                let counts = control.begin_first_hits(number, capacity);
                counts.inspect_err(|_| drop(control.detach(number, loaded)))?;
            }
            control.note_appeared_since(set, loaded);
            Ok::<_, Error>((number, report))
        };
        let (number, mut report) = operate(attach)?;
        report.set_unmatched(&set.unmatched);
        finish_operation(policy.visibility, None);
        subscription.commit(Transition::FIRST);
        Ok(Self {
            number,
            subscription,
            report,
            policy,
            since: Since::now(),
            counts: Baseline::default(),
            is_detached: false,
            is_persistent,
            counts_first_hits: counts_first_hits.is_some(),
            filter,
        })
    }

    /// Tells the consumer that it is attached, unless all sites were refused.
    fn finish(&self, consumer: &dyn Consumer) -> Result<(), Error> {
        if self.report.refused() != 0 && self.report.patched() + self.report.unchanged() == 0 {
            return Err(Error::Refused(Box::new(self.report.clone())));
        }
        consumer.attached(self.switch())?;
        if self.is_persistent {
            lock().begin_joining(self.number);
            if join_lock::is_due() {
                join_lock::run_requested();
            }
        }
        Ok(())
    }

    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    pub(super) fn late_report(&self) -> Report {
        operate(|control, _| control.attachments.late_report(self.number))
    }

    pub(super) fn set_paused(&self, is_paused: bool) -> Report {
        if self.counts_first_hits {
            // Hits up to here are in the state that ends.
            operate(|_, _| ());
        }
        pause(self.number, &self.subscription, is_paused, self.policy.visibility)
    }

    /// Makes the sites active again.
    pub(crate) fn resume(&self) -> Report {
        self.set_paused(false)
    }

    /// Pauses for good, and waits until no thread is in the consumer, whatever the visibility. Hits
    /// under way pass it by.
    pub(crate) fn end_hits(&self) {
        self.subscription.close();
        // Sites that are refused stay as they are, and their hits pass the consumer by.
        let _ = pause(self.number, &self.subscription, true, Visibility::Synchronous);
    }

    pub(super) fn switch(&self) -> Switch {
        Switch::new(self.number, &self.subscription)
    }

    /// Detaches on the first call; later calls do nothing.
    fn detach_once(&mut self) -> Report {
        if mem::replace(&mut self.is_detached, true) {
            return Report::default();
        }
        if self.counts_first_hits
            && let Some(counters) = operate(|control, loaded| control.end_first_hits(self.number, loaded))
            && finish_operation(Visibility::Synchronous, Some(WaitFor::Passing)).is_some()
        {
            // No thread is about to give a function one of these counters. Inside a hit this is not
            // certain, so they are not used again.
            operate(|control, _| control.keep_first_hit_counters(self.number, counters));
        }
        let report = operate(|control, loaded| control.detach(self.number, loaded));
        if self.is_persistent {
            // Another thread may be in `Consumer::join`.
            drop(JoinLock::acquire());
        }
        // Always synchronous: only the wait proves that the consumer may be dropped.
        if let Some(left) = finish_operation(Visibility::Synchronous, Some(self.subscription.wait_for())) {
            let _whole = Uncancellable::new();
            drop(self.subscription.take_consumer(&left));
        }
        report
    }

    /// Begins a new [generation](crate::Event::generation), so that no hit from now on is paired
    /// with one before.
    pub(crate) fn begin_generation(&self) {
        let _locked = lock();
        self.subscription.begin_generation();
    }

    pub(super) fn probes(&self) -> Vec<ProbeInfo> {
        operate(|control, loaded| {
            let ids = control.attachments.ids(self.number);
            control.infos(&ids, loaded).map(|(_, info)| info).collect()
        })
    }

    pub(crate) fn foreign(&self) -> Vec<Refusal> {
        operate(|control, loaded| {
            let ids = control.attachments.ids(self.number);
            control.foreign_writes(&ids, loaded).into_iter().map(|(_, write)| write).collect()
        })
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.now(|| self.all_counts(), Counts::since)
    }

    pub(super) fn reset_counts(&self) -> Counts {
        self.counts.reset(|| self.all_counts(), Counts::since)
    }

    /// Returns the count of each probe since it was attached, regardless of resets. Collectors
    /// report these.
    pub(crate) fn all_counts(&self) -> Counts {
        let counts = operate(|control, loaded| {
            let counted: BTreeMap<_, _> = match self.hit_filter() {
                None => control.attachments.counted(self.number).collect(),
                Some(filter) => {
                    let ids = control.attachments.ids(self.number);
                    ids.iter().filter_map(|id| Some((*id, filter.counted(*id)?))).collect()
                }
            };
            let ids: Vec<_> = counted.keys().copied().collect();
            let probes = control.infos(&ids, loaded);
            probes.map(|(id, probe)| ProbeCount { probe, hits: counted[&id] }).collect()
        });
        Counts::new(counts, self.since.period())
    }

    /// Returns the number of its probes.
    pub(crate) fn probe_count(&self) -> usize {
        lock().attachments.ids(self.number).len()
    }

    pub(crate) fn suppressed(&self) -> u64 {
        lock().attachments.suppressed(self.number)
    }

    /// Returns the terms of a persistent selector that have named no probe so far.
    pub(crate) fn unmatched(&self) -> Vec<UnmatchedTerm> {
        let unmatched = self.read_join_state(|control, state, loaded| match &state.rule {
            JoinRule::Named(selectors) => {
                let each = selectors.iter();
                Some(each.flat_map(|(of, named)| unmatched(control, of, named, loaded)).collect())
            }
            JoinRule::Discovered => None,
        });
        unmatched.unwrap_or_default()
    }

    /// Returns a line about probes that could not join, if there are any.
    pub(crate) fn left_out_later(&self) -> Option<String> {
        self.read_join_state(|_, state, _| state.left_out_note())
    }

    /// Returns a line about probes that were hit before they joined, if there are any.
    pub(crate) fn joined_late(&self) -> Option<String> {
        self.read_join_state(|control, state, loaded| state.hit_before_note(&control.registry, loaded))
    }

    fn read_join_state<T>(
        &self,
        read: impl FnOnce(&Control, &JoinState, KeptLoaded<'_>) -> Option<T>,
    ) -> Option<T> {
        let read = |control: &mut Control, loaded: KeptLoaded<'_>| {
            read(control, control.attachments.record(self.number)?.join_state.as_deref()?, loaded)
        };
        self.is_persistent.then(|| operate(read)).flatten()
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.subscription.failure()
    }
}

impl Drop for Untyped {
    fn drop(&mut self) {
        let _ = self.detach_once();
    }
}

/// A consumer that passes some hits on to another one, as that one's reports see it.
pub(crate) trait HitFilter: Send + Sync {
    /// Returns notes that complete the report, a line each.
    fn notes(&self) -> Vec<String>;

    /// Returns the hits that were passed on, if they were to be counted only.
    fn counted(&self, id: ProbeId) -> Option<u64>;
}

impl ProbeSet {
    /// Attaches a consumer behind another one, which gets the hits and passes some of them on. The
    /// attachment is the first one's.
    pub(crate) fn attach_with_filter<C: Consumer, F: Consumer + HitFilter>(
        &self,
        consumer: Arc<C>,
        filter: F,
    ) -> Result<Attachment<C>, Error> {
        let filter = Arc::new(filter);
        self.attach_through(consumer, Arc::clone(&filter), Some(filter))
    }

    /// Attaches a consumer that gets its hits through `called`, which may be the consumer itself.
    fn attach_through<C: Consumer, S: Consumer>(
        &self,
        consumer: Arc<C>,
        called: Arc<S>,
        filter: Option<Arc<dyn HitFilter>>,
    ) -> Result<Attachment<C>, Error> {
        let subscription = Arc::new(Subscription::new(Arc::clone(&called)));
        let dynamic: Arc<dyn Consumer> = Arc::clone(&called) as _;
        let untyped = Untyped::begin(self, &dynamic, subscription, filter)?;
        drop(dynamic);
        let attachment = Attachment { consumer, untyped };
        let finished = attachment.untyped.finish(&*called);
        // After an error, detaching drops the consumer.
        drop(called);
        finished.map(|()| attachment)
    }
}
