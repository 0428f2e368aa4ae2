//! Selecting probes.

use std::fmt;
use std::sync::Arc;

use super::Consumer;
use super::attached::Policy;
use super::attachment::Attachment;
use super::hold::Hold;
use super::lock::operate;
use super::retired::settle;
use super::untyped::Untyped;
use crate::abi::Definition;
#[cfg(probe_backend = "x86_64")]
use crate::abi::{NOTE_OWNER, NOTE_TYPE};
use crate::dispatch::{Awaited, Event, Subscription};
use crate::error::Error;
#[cfg(probe_backend = "x86_64")]
use crate::os::objects::freeze;
use crate::patch::{TextPolicy, UnmatchedTerm, Visibility};
use crate::registry::{ProbeId, ProbeInfo};

/// All probes of the program, by path: the objects loaded now, latent and active, with and without sites.
///
/// Cost: the first use of this crate reads the tables of all loaded objects; later ones ask the dynamic linker
/// whether anything has changed. The list itself is built anew each time.
///
/// ```
/// #[probe_runtime::probe]
/// fn listed() {}
/// listed();
/// let probes = probe_runtime::probes();
/// assert_eq!(probes.iter().filter(|probe| probe.path().ends_with("::listed")).count(), 2);
/// ```
pub fn probes() -> Vec<ProbeInfo> {
    let mut list: Vec<_> = operate(|control| {
        let ids: Vec<_> = (0..control.registry.len()).map(ProbeId::new).collect();
        control.infos(&ids)
    });
    crate::order::sort_by(&mut list, |a, b| {
        (a.path(), a.kind(), a.line()).cmp(&(b.path(), b.kind(), b.line()))
    });
    list
}

/// Sites that are left alone because their records, or the definitions that these name, can't be read: damaged, or written
/// by a newer version. (Of an object that another thread is loading, some may count until that is done.)
///
/// ```
/// // Probes of a later version of this crate are left alone.
/// assert_eq!(probe_runtime::unreadable_records(), 0);
/// ```
pub fn unreadable_records() -> usize {
    operate(|control| control.registry.skipped())
}

/// Whether there is nothing that any selector could name, nor an object that a later version could
/// read.
pub(crate) fn has_no_probes() -> bool {
    operate(|control| control.registry.len() == 0) && unreadable_objects().is_empty()
}

/// Loaded objects whose probes are left alone because a later version of this crate laid them out: the names of their
/// files. Of an object that has probes of several versions, those that this version knows are not left alone.
///
/// ```
/// assert!(probe_runtime::unreadable_objects().is_empty());
/// ```
pub fn unreadable_objects() -> Vec<String> {
    // Elsewhere, nothing is read from objects.
    #[cfg(probe_backend = "x86_64")]
    return freeze(|frozen| frozen.others(NOTE_OWNER, NOTE_TYPE));
    #[cfg(not(probe_backend = "x86_64"))]
    return Vec::new();
}

/// A set of probes, and how it is to be patched.
///
/// ```
/// use probe_runtime::{Count, TextPolicy, probe, select};
///
/// #[probe]
/// fn take_call() {}
///
/// let set = select("**::take_call")?;
/// assert_eq!(set.probes().len(), 2); // entry and exit
/// let hits = set.text_policy(TextPolicy::Open).attach(Count::new())?;
/// take_call();
/// assert_eq!(hits.total(), 2);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct ProbeSet {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) policy: Policy,
    /// Terms of its selector that named nothing.
    pub(super) unmatched: Arc<[UnmatchedTerm]>,
}

impl ProbeSet {
    /// No probes.
    #[cfg(all(feature = "finstrument", not(probe_discovers)))]
    pub(crate) fn none() -> Self {
        Self { ids: Arc::default(), policy: Policy::default(), unmatched: Arc::default() }
    }

    /// How many probes there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none. [`select`](super::select()) never returns an empty set.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The probes' numbers, ascending.
    pub fn ids(&self) -> &[ProbeId] {
        &self.ids
    }

    /// Terms of its selector that name nothing.
    pub(crate) fn unmatched(&self) -> Arc<[UnmatchedTerm]> {
        Arc::clone(&self.unmatched)
    }

    /// The probes, as they are now, but for those that were unloaded since.
    pub fn probes(&self) -> Vec<ProbeInfo> {
        operate(|control| control.infos(&self.ids))
    }

    /// Runs `run` with the definitions of its probes that are loaded, which stay so meanwhile. Under
    /// the control lock: it takes no other.
    pub(crate) fn with_definitions<T>(
        &self,
        run: impl FnOnce(&mut dyn Iterator<Item = (ProbeId, &Definition)>) -> T,
    ) -> T {
        operate(|control| {
            let definition = |id: &ProbeId| Some((*id, control.registry.definition(*id)?));
            run(&mut self.ids.iter().filter_map(definition))
        })
    }

    /// For how long text is writable; [`TextPolicy::Sealed`] if not said otherwise.
    #[must_use]
    pub fn text_policy(mut self, policy: TextPolicy) -> Self {
        self.policy.text = policy;
        self
    }

    /// Whether each site goes through `int3`, one byte at a time, rather than by one write of its aligned word: for
    /// processors that promise nothing about such a write (see [`patch::word`](crate::patch::word)). Not if not said
    /// otherwise. Costs two barriers a batch, a look at each thread of the process (10 to 14 µs), and a signal for each thread that runs
    /// into it.
    ///
    /// A thread that blocks `SIGTRAP`, a handler whose `sa_mask` holds it, and a debugger that keeps it, would have the process killed: a
    /// batch that finds one refuses its sites, and names it. See [`word`](crate::patch::word#before-a-trap).
    ///
    /// Not the calls of `-finstrument-functions` hooks (feature `finstrument`) that lie across two words, nor the first hit that makes any
    /// of them a site: these are one write of an aligned word all the same. A hook makes it, in any thread, whatever signals that
    /// blocks, and waits for nobody, which an `int3` would ask of it. Where such a write is not to be relied on,
    /// `finstrument::text_policy(TextPolicy::Alias)` leaves first hits to operations, which then go through `int3`, and calls across two
    /// words what the compiler made them.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.policy.strict = strict;
        self
    }

    /// When a change is seen; [`Visibility::Synchronous`] if not said otherwise.
    #[must_use]
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.policy.visibility = visibility;
        self
    }

    /// Puts a consumer on all probes of the set and activates their sites, while all threads run. Once it has
    /// returned (`Synchronous`), every call of a probed function that starts is a hit. It waits for no hit of anybody.
    ///
    /// Sites that can't be activated are in the [report](Attachment::report); the others go on.
    ///
    /// # Errors
    /// [`Error::Refused`] if not one site could be activated, [`Error::TextProtected`] if the system does not
    /// let text stay writable as [`TextPolicy::Open`] asks, [`Error::OutOfCounters`] if too much is counted
    /// already, [`Error::Unpinned`] if this copy of the crate could be unloaded while sites enter it, and whatever the consumer's
    /// [`prepare`](Consumer::prepare) and [`attached`](Consumer::attached) say. Nothing has changed then.
    pub fn attach<C: Consumer>(&self, consumer: C) -> Result<Attachment<C>, Error> {
        let consumer = Arc::new(consumer);
        let subscription = Arc::new(Subscription::new(Arc::clone(&consumer)));
        let untyped = Untyped::begin(self, &*consumer, subscription)?;
        let attachment = Attachment::new(consumer, untyped);
        attachment.untyped().finish(&*attachment)?;
        Ok(attachment)
    }

    /// The same with a closure that is told of each hit, and whose parameter's type is inferred; [`attach`](Self::attach) takes closures
    /// that write it (`|event: &Event<'_>|`).
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

    /// Forces the probes off, whoever is attached, until the hold is dropped. Holds add up. Once it has returned (`Synchronous`), no call that starts is
    /// a hit, and what hits are counted has come to rest, but for at most one hit of each thread that has just
    /// passed a site; consumers that are in a hit by then are [not waited
    /// for](crate::Attachment#what-waits).
    ///
    /// # Errors
    /// [`Error::TextProtected`], as for [`attach`](Self::attach).
    pub fn hold(&self) -> Result<Hold, Error> {
        let (unsettled, held) = operate(|control| {
            let unsettled = control.unsettle(&self.ids);
            (unsettled, control.hold(&self.ids, self.policy))
        });
        settle(self.policy.visibility, Some(Awaited::Passing));
        unsettled.settle();
        let (report, text) = held?;
        Ok(Hold::new(Arc::clone(&self.ids), self.policy, report, text))
    }
}

impl fmt::Debug for ProbeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_struct("ProbeSet");
        set.field("len", &self.ids.len()).field("policy", &self.policy).field("unmatched", &self.unmatched);
        set.finish()
    }
}
