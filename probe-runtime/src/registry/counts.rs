//! What an attachment has counted, as it was when asked.

use super::ProbeInfo;
use crate::abi::Kind;
use crate::list::list;
use crate::order::Sorted;
use crate::period::Period;

/// What one probe has counted.
///
/// ```
/// use probe_runtime::{Count, ProbeCount, probe, select};
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
    /// Its hits since the attachment was made, or [reset](crate::Attachment::reset); of a difference, those in between.
    pub hits: u64,
}

/// What all probes of an attachment have counted, by path and kind: from
/// [`Attachment::counts`](crate::Attachment::counts). A list of them.
///
/// Prints as a table: the probe with the most hits first, and a line that says how many were never
/// hit. `{:#}` has a row for each of these, too.
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
        crate::order::sort_by(&mut counts, |a, b| {
            let (a, b) = (&a.probe, &b.probe);
            let kinds = || a.kind().cmp(&b.kind());
            let places = || (a.file(), a.line()).cmp(&(b.file(), b.line()));
            a.path().cmp(b.path()).then_with(kinds).then_with(places)
        });
        Self { probes: counts, period }
    }

    /// When it was counted.
    pub(crate) fn period(&self) -> Period {
        self.period
    }

    /// The hits of all probes.
    pub fn total(&self) -> u64 {
        self.probes.iter().map(|count| count.hits).sum()
    }

    /// What was counted after an earlier look at the same attachment: each probe's hits, less those of then. Whoever else looks at the
    /// attachment, it is not changed by that, as it is by [`reset`](crate::Attachment::reset).
    ///
    /// Never negative. A probe that came later has all its hits, one that was unloaded keeps those in between. Of another attachment's counts,
    /// and of those from before a reset, nothing is taken away: they are no part of these, which are returned as they are.
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

    /// The hits of the probes with this path and kind; `None` if there is none among them.
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
