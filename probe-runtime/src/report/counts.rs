//! The counts of an attachment as a table, as JSON and as CSV.

use std::fmt;

use super::{Csv, Row, Rows, Table, Written, document, footnotes, foreign, json, labels, was};
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
        json(self)
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

    /// Writes the table without footnotes: a row for each probe if `all`, else for each probe that
    /// was hit, if only before it joined.
    pub(crate) fn write(&self, all: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A probe that was hit before it joined does not count as never hit.
        let mut rows: Vec<_> =
            self.iter().filter(|it| all || it.hits != 0 || it.probe.was_reached()).collect();
        // Equal rows keep their order, by path, kind and place.
        crate::engine::order::sort_by(&mut rows, |a, b| b.hits.cmp(&a.hits));
        let mut table = Table::new(&["probe", "kind", "sites", "hits"]);
        let labels = labels(rows.iter().map(|it| (&it.probe).into()).collect());
        for (ProbeCount { probe, hits }, label) in rows.iter().zip(labels) {
            table.row(vec![label, probe.kind().to_string(), probe.sites().to_string(), hits.to_string()]);
        }
        fmt::Display::fmt(&table, f)?;
        match self.len() - rows.len() {
            0 => Ok(()),
            probes => write!(f, "\n{} never hit", was(probes as u64, "probe")),
        }
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
        document("count", self.period())
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.iter().map(ProbeCount::row))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f.alternate(), f)?;
        let strays: Vec<_> = self.iter().flat_map(|count| count.probe.foreign()).cloned().collect();
        footnotes(foreign(&strays).as_slice(), f)
    }
}
