//! The hits that an attachment has counted, as of the time of the call.

use super::ProbeInfo;
use crate::engine::order::Sorted;
use probe_core::abi::Kind;
use probe_report::list;
use probe_report::source::Period;

/// The hits of one probe.
///
/// ```
/// use probe_runtime::count::ProbeCount;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn reply() {}
///
/// let hits = select("**::reply")?.attach(Count::new())?;
/// reply();
/// for ProbeCount { probe, hits, .. } in &hits.counts() {
///     println!("{} {}: {hits}", probe.path(), probe.kind());
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeCount {
    /// The probe.
    pub probe: ProbeInfo,
    /// The hits since the attachment was made or last [reset](crate::Attachment::reset). In a
    /// difference, the hits between the two calls.
    pub hits: u64,
}

/// The hits of all probes of an attachment, sorted by path and kind. Returned by
/// [`Attachment::counts`](crate::Attachment::counts).
///
/// Prints as a table that begins with the probe with the most hits, and a line that says how many
/// probes were never hit. `{:#}` also prints a row for each of these.
///
/// ```
/// use probe_runtime::{Count, probe, select};
/// #[probe]
/// fn common() {}
/// #[probe]
/// fn rare() {}
/// # rare();
/// let hits = select("**::common kind=entry, **::rare kind=entry")?.attach(Count::new())?;
/// common();
/// let counts = hits.counts();
/// assert!(counts.to_string().ends_with("\n1 probe was never hit"));
/// assert!(format!("{counts:#}").contains("::rare"));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    probes: Vec<ProbeCount>,
    period: Period,
}

impl Counts {
    pub(crate) fn new(mut counts: Vec<ProbeCount>, period: Period) -> Self {
        crate::engine::order::sort_by(&mut counts, |a, b| {
            let (a, b) = (&a.probe, &b.probe);
            let kinds = || a.kind().cmp(&b.kind());
            let places = || (a.file(), a.line()).cmp(&(b.file(), b.line()));
            a.path().cmp(b.path()).then_with(kinds).then_with(places)
        });
        Self { probes: counts, period }
    }

    /// Returns the period in which the hits were counted.
    pub(crate) fn period(&self) -> Period {
        self.period
    }

    /// Returns the sum of the hits of all probes.
    pub fn total(&self) -> u64 {
        self.probes.iter().map(|count| count.hits).sum()
    }

    /// Returns the hits since an earlier call for the same attachment: each probe's hits, less
    /// those in `earlier`. Unlike [`reset`](crate::Attachment::reset), this does not change the
    /// attachment, so several callers can take differences independently.
    ///
    /// A difference is never negative. A probe that is not in `earlier` keeps all its hits. An
    /// unloaded probe keeps the hits that it had in between. If `earlier` is from another
    /// attachment, or from before a reset, these counts are returned unchanged.
    ///
    /// ```
    /// use probe_runtime::{Count, probe, select};
    /// #[probe]
    /// fn again() {}
    /// again();
    /// let hits = select("**::again kind=entry")?.attach(Count::new())?;
    /// again();
    /// let before = hits.counts();
    /// again();
    /// again();
    /// assert_eq!(hits.counts().since(&before).total(), 2);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if !self.period.begins_with(earlier.period) {
            return self.clone();
        }
        let before: Sorted<_, _> = earlier.iter().map(|it| (it.probe.id(), it.hits)).collect();
        let after = |it: &ProbeCount| {
            let hits = it.hits.saturating_sub(before.get(&it.probe.id()).copied().unwrap_or_default());
            ProbeCount { probe: it.probe.clone(), hits }
        };
        Self { probes: self.iter().map(after).collect(), period: self.period.after(earlier.period) }
    }

    /// Returns the hits of the probes with this path and kind; `None` if there is no such probe.
    pub fn hits(&self, path: &str, kind: Kind) -> Option<u64> {
        let same =
            self.probes.iter().filter(|count| count.probe.path() == path && count.probe.kind() == kind);
        same.map(|count| count.hits).reduce(|a, b| a + b)
    }
}

list!(Counts, probes, ProbeCount, "probes with their hits");

impl IntoIterator for Counts {
    type Item = ProbeCount;
    type IntoIter = std::vec::IntoIter<ProbeCount>;

    fn into_iter(self) -> Self::IntoIter {
        self.probes.into_iter()
    }
}
