//! Counts hits.

use std::borrow::Cow;
use std::fmt;

use crate::engine::control::{Attachment, Consumer, DeliveryMode};
use crate::engine::dispatch::Event;
use crate::engine::registry::Counts;
use crate::report::{CountsReport, notes_of_counts, view};
use probe_lang::{ParseError, Setting};

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
    /// Creates a counter.
    pub const fn new() -> Self {
        Self { shows_all: false }
    }

    /// Creates a counter with the options of `PROBES`: `count(all)`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        match settings.iter().find(|it| !it.value().is_empty()) {
            Some(it) => Err(it.invalid_value("`all` has no value; write `count(all)`")),
            None => Ok(Self { shows_all: !settings.is_empty() }),
        }
    }
}

impl Consumer for Count {
    fn delivery_mode(&self) -> DeliveryMode {
        DeliveryMode::Counted
    }

    fn joins_at_once(&self) -> bool {
        true
    }

    fn hit(&self, _event: &Event<'_>) {
        // Never called: the hits are counted.
    }
}

impl Attachment<Count> {
    /// Returns the hits of all its probes together.
    pub fn total(&self) -> u64 {
        self.counts().total()
    }

    /// Restarts the counts: from now on, [`counts`](Self::counts), [`total`](Self::total) and the
    /// reports include later hits only. Returns the counts since the last reset, or since it was
    /// attached.
    ///
    /// This is exact while threads hit: each hit is in exactly one of the successive results and
    /// the counts after them. It writes nothing on the counting path, and a `metrics::Exporter`
    /// continues with the counts since attaching. To take differences without affecting other
    /// readers of the attachment, keep an earlier reading and use [`Counts::since`].
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

    pub(crate) fn counts_report(&self) -> CountsReport<'static> {
        CountsReport { counts: Cow::Owned(self.counts()), shows_all: self.shows_all }
    }
}

impl fmt::Display for Attachment<Count> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = CountsReport { shows_all: self.shows_all || f.alternate(), ..self.counts_report() };
        fmt::Display::fmt(&view(&report, notes_of_counts(self.untyped())), f)
    }
}
