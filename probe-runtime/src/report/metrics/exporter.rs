//! Collects the sums of watched attachments, and of those that were watched before.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use super::measured::count_lost;
use super::{Measured, Metrics};
use crate::engine::control::Attachment;
use crate::engine::dispatch::lost_hits;

/// Watches attachments, and provides their numbers to a collector; see the
/// [module](crate::report::metrics).
///
/// Clones share one state. An exporter never calls a consumer's `hit`, and no hit waits for it. Any
/// number of collectors may ask it, on any thread, as often as they like. (A forked child can ask
/// its copy only if no thread of the parent was asking at the moment of the fork.)
///
/// A collection costs as much as the consumers' own reports. For `Latency` that is reading 1,408
/// buckets of each function on each thread that has called it.
///
/// ```
/// use probe_runtime::metrics::Exporter;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn login() {}
///
/// let exporter = Exporter::new();
/// let hits = exporter.watch(select("**::login kind=entry")?.attach(Count::new())?);
/// login();
/// assert!(exporter.collect().to_prometheus().contains("probe_hits_total"));
/// # drop(hits);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Exporter(Arc<Mutex<ExporterState>>);

struct ExporterState {
    bounds: Arc<[u64]>,
    began: SystemTime,
    watched: Vec<(u64, Weak<dyn MetricSource>)>,
    /// The number of the next watch.
    next: u64,
    /// The last numbers of attachments that were dropped.
    gone: Metrics,
    /// The snapshot that was collected last.
    collected: Metrics,
}

/// An attachment of any consumer.
trait MetricSource: Send + Sync {
    fn measure(&self, into: &mut Metrics);
}

impl<C: Measured> MetricSource for Attachment<C> {
    fn measure(&self, into: &mut Metrics) {
        C::measure(self, into);
    }
}

impl Default for Exporter {
    fn default() -> Self {
        Self::new()
    }
}

impl Exporter {
    /// Creates an exporter that watches nothing yet, with the default bounds for histograms: 1, 2.5
    /// and 5 of each decade, from 1 µs to 10 s.
    pub fn new() -> Self {
        Self::over(Metrics::default().bounds)
    }

    /// Creates an exporter with these bounds for histograms, in any order. Each bound makes one
    /// series for each function that was called. Give all instances of a program the same bounds,
    /// so that their histograms can be added up.
    ///
    /// ```
    /// use std::time::Duration;
    /// use probe_runtime::metrics::Exporter;
    /// let exporter = Exporter::with_bounds([1, 10, 100].map(Duration::from_millis));
    /// # exporter.collect();
    /// ```
    pub fn with_bounds(bounds: impl IntoIterator<Item = Duration>) -> Self {
        let nanoseconds = |bound: Duration| bound.as_nanos().try_into().unwrap_or(u64::MAX);
        let mut bounds: Vec<u64> = bounds.into_iter().map(nanoseconds).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self::over(bounds.into())
    }

    fn over(bounds: Arc<[u64]>) -> Self {
        let none = || Metrics::new(Arc::clone(&bounds));
        let (gone, collected) = (none(), none());
        let began = SystemTime::now();
        Self(Arc::new(Mutex::new(ExporterState {
            bounds,
            began,
            watched: Vec::new(),
            next: 0,
            gone,
            collected,
        })))
    }

    /// Watches an attachment. The returned watch owns it from now on: pause, ask and drop the
    /// attachment through that.
    pub fn watch<C: Measured>(&self, attachment: Attachment<C>) -> Watched<C> {
        let attachment = Arc::new(attachment);
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let source: Arc<dyn MetricSource> = Arc::clone(&attachment) as _;
        state.watched.push((number, Arc::downgrade(&source)));
        drop(state);
        Watched { attachment, number, exporter: self.clone() }
    }

    /// Takes a snapshot of all numbers: of watched attachments, and of those that were watched
    /// before.
    pub fn collect(&self) -> Metrics {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut metrics = state.gone.clone();
        // Dropping a watch takes this lock. So none of these is the last owner of its attachment.
        let watched: Vec<_> = state.watched.iter().filter_map(|(_, source)| source.upgrade()).collect();
        watched.iter().for_each(|source| source.measure(&mut metrics));
        drop(watched);
        count_lost(lost_hits(), &mut metrics);
        metrics.raise(&state.collected);
        metrics.began = state.began;
        metrics.taken = SystemTime::now().max(state.began);
        state.collected = metrics.clone();
        metrics
    }

    fn state(&self) -> MutexGuard<'_, ExporterState> {
        // A program's own consumer may have panicked in `measure`; the state is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("watched", &self.state().watched.len()).finish_non_exhaustive()
    }
}

/// A watched attachment, from [`Exporter::watch`]. Derefs to the attachment. Dropping it detaches;
/// its counts stay with the exporter.
///
/// ```
/// use probe_runtime::metrics::Exporter;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn logout() {}
///
/// let exporter = Exporter::new();
/// let hits = exporter.watch(select("**::logout kind=entry")?.attach(Count::new())?);
/// logout();
/// hits.pause(); // a method of the attachment
/// logout();
/// assert_eq!(hits.total(), 1); // a method of the consumer
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[must_use = "dropping it detaches"]
pub struct Watched<C: Measured> {
    attachment: Arc<Attachment<C>>,
    number: u64,
    exporter: Exporter,
}

impl<C: Measured> Deref for Watched<C> {
    type Target = Attachment<C>;

    fn deref(&self) -> &Attachment<C> {
        &self.attachment
    }
}

impl<C: Measured> Drop for Watched<C> {
    fn drop(&mut self) {
        // Without the lock, because this waits for hits. No hit comes afterwards, so none is
        // missing.
        self.attachment.pause();
        let mut state = self.exporter.state();
        let mut last = Metrics::new(Arc::clone(&state.bounds));
        C::measure(&self.attachment, &mut last);
        let last = last.without_gauges().of_the_kinds_of(&state.collected);
        state.gone.add_all(last);
        let number = self.number;
        state.watched.retain(|(watched, _)| *watched != number);
    }
}

impl<C: Measured> fmt::Debug for Watched<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("attachment", &self.attachment).finish_non_exhaustive()
    }
}
