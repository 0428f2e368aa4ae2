//! Counting hits.

use std::fmt;

use crate::control::{Attachment, Consumer, Wants};
use crate::dispatch::Event;
use crate::registry::Counts;
use crate::report::{footnotes, notes_of_counts};
use crate::syntax::{ParseError, Setting};

/// Counts the hits of each probe: exactly, under any number of threads, without a shared cache
/// line.
///
/// Its attachment prints as a table: probe, kind, sites, hits. The probe with the most hits comes
/// first. A line below says how many were never hit; `{:#}` has a row for each of these, too.
///
/// ```
/// use probe_runtime::{Count, probe, select};
/// #[probe]
/// fn handle() {}
/// let hits = select("**::handle kind=entry")?.attach(Count::new())?;
/// handle();
/// handle();
/// assert_eq!(hits.total(), 2);
/// println!("{hits}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Count {
    /// Whether the table has rows for probes that were never hit.
    shows_all: bool,
}

impl Count {
    /// A new counter.
    pub const fn new() -> Self {
        Self { shows_all: false }
    }

    /// One with this option as `PROBES` has it: `count(all)`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        match settings.iter().find(|it| !it.value.is_empty()) {
            Some(it) => Err(it.invalid_value("`all` has no value; write `count(all)`")),
            None => Ok(Self { shows_all: !settings.is_empty() }),
        }
    }
}

impl Consumer for Count {
    fn wants(&self) -> Wants {
        Wants::Tally
    }

    fn hit(&self, _event: &Event<'_>) {
        // Never called: the hits are tallied.
    }
}

impl Attachment<Count> {
    /// The hits of all its probes.
    pub fn total(&self) -> u64 {
        self.counts().total()
    }

    /// Begins anew: from now on, [`counts`](Self::counts), [`total`](Self::total) and the reports
    /// include later hits only. Returns the counts until now, since it was attached or last reset.
    ///
    /// It is exact while threads hit: each hit is in one of two successive results, or in the
    /// counts after them. Nothing is written where hits count, and a `metrics::Exporter` goes on
    /// with all counts from the beginning. For a difference of your own, beside other readers of
    /// the same attachment, keep an earlier look: [`Counts::since`].
    ///
    /// ```
    /// use probe_runtime::{Count, probe, select};
    /// #[probe]
    /// fn serve() {}
    /// let hits = select("**::serve kind=entry")?.attach(Count::new())?;
    /// serve();
    /// serve();
    /// assert_eq!(hits.reset().total(), 2);
    /// serve();
    /// assert_eq!(hits.total(), 1);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn reset(&self) -> Counts {
        self.reset_counts()
    }
}

impl fmt::Display for Attachment<Count> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().write(self.shows_all || f.alternate(), f)?;
        footnotes(&notes_of_counts(self.untyped()), f)
    }
}
