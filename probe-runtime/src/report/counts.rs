//! The counts of an attachment as a table, as JSON and as CSV.

use std::borrow::Cow;
use std::fmt;

use probe_report::{Body, Csv, Definition, Row, Table, was};

use super::{ReportSource, Rows, foreign, head, json, view};
use crate::engine::registry::{Counts, ProbeCount};

impl Counts {
    /// Returns the counts as JSON: an object with the program, the time of measurement, and the
    /// probes as `rows`, which have the columns of [`to_csv`](Self::to_csv).
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
        json(&self.report(false), &[])
    }

    /// Returns the probes as comma-separated values (RFC 4180): a line each, under a heading.
    pub fn to_csv(&self) -> String {
        let mut csv = Csv::new(&["probe", "kind", "file", "line", "sites", "hits"]);
        for ProbeCount { probe, hits } in self {
            csv.cell(probe.path()).cell(probe.kind().name()).cell(probe.file());
            csv.number(probe.line().into()).number(probe.sites() as u64).number(*hits).end();
        }
        csv.finish()
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

/// Counts as a report.
pub(crate) struct CountsReport<'a> {
    pub(crate) counts: Cow<'a, Counts>,
    /// Whether the table has rows for probes that were never hit.
    pub(crate) shows_all: bool,
}

impl CountsReport<'_> {
    /// Returns whether a probe has a row. One that was hit before it joined is not called never
    /// hit.
    fn is_shown(&self, count: &ProbeCount) -> bool {
        self.shows_all || count.hits != 0 || count.probe.was_reached()
    }
}

impl ReportSource for CountsReport<'_> {
    fn head(&self) -> Row<'static> {
        head("count", self.counts.period())
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.counts.iter().map(ProbeCount::row))
    }

    fn body(&self) -> Body<'_> {
        let mut rows: Vec<_> = self.counts.iter().filter(|it| self.is_shown(it)).collect();
        // Equal rows keep their order, by path, kind and place.
        crate::engine::order::sort_by(&mut rows, |a, b| b.hits.cmp(&a.hits));
        let mut table = Table::new(["probe", "kind", "sites", "hits"]);
        for ProbeCount { probe, hits } in rows {
            let defined = Definition { path: probe.path(), file: probe.file(), line: probe.line() };
            table.push(defined).push(probe.kind().name()).push(probe.sites()).push(*hits);
        }
        Body::Table(table)
    }

    fn notes(&self) -> Vec<String> {
        match self.counts.iter().filter(|it| !self.is_shown(it)).count() {
            0 => Vec::new(),
            probes => vec![format!("{} never hit", was(probes as u64, "probe"))],
        }
    }

    fn csv(&self) -> String {
        self.counts.to_csv()
    }
}

impl Counts {
    fn report(&self, shows_all: bool) -> CountsReport<'_> {
        CountsReport { counts: Cow::Borrowed(self), shows_all }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report(f.alternate());
        let strays: Vec<_> = self.iter().flat_map(|count| count.probe.foreign()).cloned().collect();
        fmt::Display::fmt(&view(&report, foreign(&strays).into_iter().collect()), f)
    }
}
