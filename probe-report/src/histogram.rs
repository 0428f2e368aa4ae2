//! The buckets of groups of hits, a line each, with bars.

use std::borrow::Cow;
use std::fmt;

use crate::names::{Definition, labels};
use crate::table::{Shown, Table, TableCell};

/// The width of the longest bar.
const MAX_BAR: u8 = 40;

/// The hits of one group.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Histogram<'a> {
    pub path: Cow<'a, str>,
    pub file: Cow<'a, str>,
    pub line: u32,
    /// The names and values of the group's keys.
    pub keys: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub hits: u64,
    /// The least and the greatest number of each bucket, and its hits.
    pub buckets: Vec<(TableCell<'a>, TableCell<'a>, u64)>,
}

/// Draws histograms one below the other.
pub(crate) fn draw(histograms: &[Histogram<'_>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if histograms.is_empty() {
        return f.write_str("no hits");
    }
    let defined = histograms.iter().map(|it| Definition { path: &it.path, file: &it.file, line: it.line });
    for (at, (histogram, label)) in histograms.iter().zip(labels(defined.collect())).enumerate() {
        if at != 0 {
            writeln!(f)?;
        }
        f.write_str(&label)?;
        histogram.keys.iter().try_for_each(|(name, key)| write!(f, " {name}={key}"))?;
        write!(f, ": {} hits", histogram.hits)?;
        for line in histogram.table().to_string().lines() {
            write!(f, "\n  {}", line.trim_end())?;
        }
    }
    Ok(())
}

impl Histogram<'_> {
    fn table(&self) -> Table<'_> {
        let most = self.buckets.iter().map(|(_, _, hits)| *hits).max().unwrap_or(1).max(1);
        let mut table = Table::new(["from", "to", "count", ""]);
        for (low, high, hits) in &self.buckets {
            let bar = u128::from(*hits) * u128::from(MAX_BAR) / u128::from(most);
            let bar = u8::try_from(bar).unwrap_or(MAX_BAR).max(1);
            table.row([low.clone(), high.clone(), (*hits).into(), Shown::Bar(bar).into()]);
        }
        table
    }
}

/// Returns the buckets that have gained values, with their number; all are ascending.
pub fn grown<Bucket: Copy + Ord>(now: &[(Bucket, u64)], earlier: &[(Bucket, u64)]) -> Vec<(Bucket, u64)> {
    let mut earlier = earlier.iter().peekable();
    let more = |&(bucket, values): &(Bucket, u64)| {
        while earlier.next_if(|(other, _)| *other < bucket).is_some() {}
        let before = earlier.next_if(|(other, _)| *other == bucket).map_or(0, |(_, values)| *values);
        let more = values.saturating_sub(before);
        (more != 0).then_some((bucket, more))
    };
    now.iter().filter_map(more).collect()
}
