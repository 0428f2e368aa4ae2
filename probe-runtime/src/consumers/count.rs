//! Counting hits.

use std::fmt;

use super::report::{footnotes, notes_of_counts};
use crate::consumer::{Consumer, Wants};
use crate::control::Attachment;
use crate::dispatch::Event;

/// Counts the hits of each probe: exactly, under any number of threads, without a shared cache line.
///
/// Its attachment prints as a table: probe, kind, sites, hits.
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
pub struct Count(());

impl Count {
    /// A new one.
    pub const fn new() -> Self {
        Self(())
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
}

impl fmt::Display for Attachment<Count> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.counts().table())?;
        footnotes(&notes_of_counts(self), f)
    }
}
