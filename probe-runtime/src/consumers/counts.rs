//! What an attachment has counted, as it was when asked.

use std::fmt;

use super::report::{Csv, Row, Rows, Table, Written, document, footnotes, foreign, json, labels, list};
use crate::abi::Kind;
use crate::order::Sorted;
use crate::period::Period;
use crate::registry::ProbeInfo;

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

    /// All of it as JSON: an object that says which program this is, and when it was measured, with the probes as its `rows`, which have
    /// the columns of [`to_csv`](Self::to_csv).
    ///
    /// ```
    /// use probe_runtime::{Count, probe, select};
    /// #[probe(name = "to_json")]
    /// fn work() {}
    /// work();
    /// let hits = select("**::to_json kind=exit")?.attach(Count::new())?;
    /// work();
    /// assert!(hits.counts().to_json().contains(r#""kind":"exit""#));
    /// assert!(hits.counts().to_csv().starts_with("probe,kind,file,line,sites,hits\n"));
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// The probes as comma-separated values (RFC 4180), a line each under a heading.
    pub fn to_csv(&self) -> String {
        let mut csv = Csv::new(&["probe", "kind", "file", "line", "sites", "hits"]);
        for ProbeCount { probe, hits } in &self.probes {
            csv.cell(probe.path()).cell(probe.kind().name()).cell(probe.file());
            csv.number(probe.line().into()).number(probe.sites() as u64).number(*hits).end();
        }
        csv.finish()
    }

    /// The hits of the probes with this path and kind; `None` if there is none among them.
    pub fn hits(&self, path: &str, kind: Kind) -> Option<u64> {
        let same =
            self.probes.iter().filter(|count| count.probe.path() == path && count.probe.kind() == kind);
        same.map(|count| count.hits).reduce(|a, b| a + b)
    }
}

impl ProbeCount {
    pub(crate) fn row(&self) -> Row<'_> {
        let probe = &self.probe;
        let row = Row::new().with("probe", probe.path()).with("kind", probe.kind().name());
        let row = row.with("file", probe.file()).with("line", probe.line());
        row.with("sites", probe.sites()).with("hits", self.hits)
    }
}

impl Written for Counts {
    fn head(&self) -> Row<'static> {
        document("count", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.iter().map(ProbeCount::row))
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

impl Counts {
    /// Writes the table, without what else is noted below it: a row for each probe, or for each that
    /// was hit.
    pub(super) fn write(&self, all: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<_> = self.iter().filter(|it| all || it.hits != 0).collect();
        // Equal ones keep their order, by path, kind and place.
        crate::order::sort_by(&mut rows, |a, b| b.hits.cmp(&a.hits));
        let mut table = Table::new(&["probe", "kind", "sites", "hits"]);
        let labels = labels(rows.iter().map(|it| (&it.probe).into()).collect());
        for (ProbeCount { probe, hits }, label) in rows.iter().zip(labels) {
            table.row(vec![label, probe.kind().to_string(), probe.sites().to_string(), hits.to_string()]);
        }
        write!(f, "{table}")?;
        match self.len() - rows.len() {
            0 => Ok(()),
            1 => f.write_str("\n1 probe was never hit"),
            probes => write!(f, "\n{probes} probes were never hit"),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f.alternate(), f)?;
        let strays: Vec<_> = self.probes.iter().flat_map(|count| count.probe.foreign()).cloned().collect();
        footnotes(foreign(&strays).as_slice(), f)
    }
}
