//! A consumer on a set of probes, for as long as it lives.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Consumer;
use super::partial::Switch;
use super::untyped::Untyped;
use crate::patch::{Refusal, Report};
use crate::registry::{Counts, ProbeInfo};

/// A consumer, attached: from [`ProbeSet::attach`](super::ProbeSet::attach). Derefs to the consumer. Dropping
/// it detaches: sites that nobody else listens to become latent, and the consumer is dropped.
///
/// # What waits
/// Dropping it, [`detach`](Self::detach) and [`pause`](Self::pause) return when no thread is inside this attachment's consumer any more:
/// whoever calls them may then take away what the consumer uses. So don't call them while holding a lock that the consumer's `hit`
/// takes: each would wait for the other. They, and [`hold`](crate::ProbeSet::hold), also wait for threads on their way between a site and a
/// consumer, which takes these some instructions, so that counts have come to rest, but for at most one hit of each thread that has
/// just passed a site.
///
/// Nothing waits for a hit of another consumer, however long it may last, be it on the same probe. What such a hit may still
/// be reading is freed by a later operation; of all operations beside one hit, that is no more than what was published when it was first seen.
///
/// Inside a consumer's `hit`, no operation waits. An attachment that is dropped there leaves its
/// consumer to a later operation that attaches, pauses, resumes, holds or detaches, on any thread,
/// which drops it; what only asks (`probes`, `counts`, reports), or is a [`Switch`]'s, drops none.
/// A consumer that leaves its hit by `longjmp` is waited for until its thread ends.
///
/// A signal handler that interrupts a hit must return. One that leaves by `siglongjmp` leaves its
/// thread in that hit for good, as far as anybody can tell. Where it was between a site and a
/// consumer, or a hit that is only counted, all that wait as above wait until that thread ends;
/// where it was in a consumer, those of that consumer do, and no consumer is called on that thread
/// any more. A counted hit is some ten instructions, so this is rare; but a program that leaves the
/// handlers of its timers so meets it in time. Don't probe what such handlers interrupt.
///
/// # What may happen meanwhile
/// - **Objects are loaded and unloaded** (`dlopen`, `dlclose`), by any thread at any time, also while this crate is at work;
///   constructors and destructors may use it themselves. What is unloaded has no sites any more, and keeps its
///   [counts](Self::counts). What is loaded is noticed by the next operation (of any attachment, [`select`](crate::select),
///   [`probes`](crate::probes)): copies of probes that are attached to become active then, and
///   [`late_report`](Self::late_report) tells how that went. Only [`pause`](Self::pause) and [`resume`](Self::resume) of
///   [`TextPolicy::Open`](crate::TextPolicy::Open) don't look, as long as all probes known are the executable's. A plugin that uses a copy of this crate of its own, be it to
///   list probes or to open text, stays loaded until the process ends, whatever `dlclose` is asked for. Don't use this crate
///   from a `dl_iterate_phdr` callback.
/// - **The process forks.** The child has the attachment too, with a copy of what it has counted, unless its consumer
///   [needs a thread](Consumer::needs_thread) of the parent's. (glibc does not let a child look at its objects if another
///   thread of the parent was loading, unloading or looking at some: operations there then wait for ever, hits go on.)
///   A program whose own `pthread_atfork` hook takes a lock that it also holds while it uses this crate installs that hook after
///   its first use of this crate, so that both take their locks in the same order.
///   `vfork` and `posix_spawn` change nothing. A child by a bare `clone` or `fork` system call may hit probes, but not
///   use this crate.
/// - **The process ends, or becomes another program** (`exit`, `exec`), with or without attachments, at any time. What is
///   not dropped by then is not detached, and need not be.
/// - **A thread is cancelled** (`pthread_cancel`). Operations of this crate are no cancellation points, and run to their
///   end; so do hits, but for what the [consumer](Consumer::hit) itself does. Where the unwinding that follows meets
///   Rust's frames is up to whoever cancels; a thread that may be cancelled asynchronously must not run Rust, so neither
///   hit probes nor use this crate, while it may.
#[must_use = "dropping the attachment makes its probes latent"]
pub struct Attachment<C: Consumer> {
    /// Given up before the other, which drops the consumer at the right moment.
    consumer: Arc<C>,
    untyped: Untyped,
}

impl<C: Consumer> Attachment<C> {
    pub(super) fn new(consumer: Arc<C>, untyped: Untyped) -> Self {
        Self { consumer, untyped }
    }

    /// What there is of it for all types.
    pub(crate) fn untyped(&self) -> &Untyped {
        &self.untyped
    }

    /// What activating the sites did; [`late_report`](Self::late_report) tells of those in objects that were loaded later.
    pub fn report(&self) -> &Report {
        self.untyped.report()
    }

    /// What was done to the sites last without being asked for; it looks for objects that came or went first. Each time there
    /// are some, sites are made what they should be: copies in objects that were loaded are
    /// [patched](Report::patched), others are [as wanted](Report::unchanged), and those that could not be, now or before, are
    /// [refused](Report::refusals), also with [`Taken`](crate::RefusalReason::Taken) where another copy of this crate was the
    /// first to attach to a copy of the probe. (What two attachments share, one of them patches, and the other finds as
    /// wanted.) A consumer that has [failed](Self::failure) has its sites made latent so. Call sites that were discovered (feature
    /// `finstrument`) are made what they should be the same way; where nothing else is new, it tells of these alone.
    ///
    /// After an unload, the report tells of all sites. After loads alone, it tells of the probes that
    /// the new objects have copies of, and stays as it was if there are none. It tells of all sites
    /// then, too, if some records can't be read, or if all probes were the executable's until then.
    ///
    /// Empty as long as nothing of the kind has happened.
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

    /// Stops the hits without forgetting anything: sites that nobody else listens to become latent. With
    /// [`Visibility::Synchronous`](crate::Visibility::Synchronous), no call that starts after it has returned is a hit,
    /// and no thread is inside the consumer: it [waits](Self#what-waits) for that.
    ///
    /// A thread may have passed a site before, and still be on its way, say evaluating a field.
    /// Where hits are counted and nobody else listens, it counts that hit when it arrives; where
    /// others count the same probe, the hit is only theirs. Where they are delivered, the consumer
    /// is called no more once a synchronous pause has returned; after an
    /// [`Eventual`](crate::Visibility::Eventual) one it is. A thread in another consumer on the
    /// same probe counts that hit no more, either, after a synchronous pause.
    ///
    /// Cost: see the figure `toggle`; one probe with `Open` and `Eventual` takes one locked
    /// instruction on its site and two on the control lock. It takes up to three times as long if
    /// the calling code lies in the site's own cache line, which the processor throws away.
    pub fn pause(&self) -> Report {
        self.untyped.set_paused(true)
    }

    /// Starts the hits again, after [`pause`](Self::pause). It waits for no hit. The attachment of a consumer that has
    /// [failed](Self::failure) can't be resumed: its sites are refused, with
    /// [`RefusalReason::Failed`](crate::RefusalReason::Failed).
    pub fn resume(&self) -> Report {
        self.untyped.set_paused(false)
    }

    /// Switches some of its probes off and on, from any thread, while it stays attached.
    pub fn switch(&self) -> Switch {
        self.untyped.switch()
    }

    /// Detaches, as dropping does, and tells what making the sites latent did. It [waits](Self#what-waits) until no thread is inside the
    /// consumer, and drops that.
    pub fn detach(self) -> Report {
        let Self { consumer, mut untyped } = self;
        drop(consumer);
        untyped.leave()
    }

    /// The attachment's probes, as they are now; those whose objects were unloaded since are
    /// [`Unloaded`](crate::ProbeState::Unloaded).
    pub fn probes(&self) -> Vec<ProbeInfo> {
        self.untyped.probes()
    }

    /// Sites of its probes that hold other bytes than they were left with, with what was expected and found: somebody else has written
    /// there, and hits may be lost. Reports say so below their tables. See [`ProbeInfo::foreign`].
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

    /// What each probe has counted, of a consumer that [wants](Consumer::wants) a tally, now or [at times](crate::Wants::Switchable); by path. Exact for
    /// hits that ended before, under any number of threads, also those that have exited, and of probes that were
    /// unloaded since (which have no sites then). Of a [`Count`](crate::Count) that was [reset](Self::reset), what it has counted since.
    pub fn counts(&self) -> Counts {
        self.untyped.counts()
    }

    /// The same, and all counts begin at 0 again.
    pub(crate) fn reset_counts(&self) -> Counts {
        self.untyped.reset_counts()
    }

    /// Hits that were not delivered, because they came from inside a consumer: its own probes, or a signal
    /// handler that interrupted it.
    pub fn suppressed(&self) -> u64 {
        self.untyped.suppressed()
    }

    /// Why the consumer is called no more, its sites latent again unless others listen: what it said when it panicked, or
    /// that this process is a forked child, and the consumer [needs a thread](Consumer::needs_thread) of the parent's.
    pub fn failure(&self) -> Option<&str> {
        self.untyped.failure()
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
