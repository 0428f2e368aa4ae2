//! A probe's number.

use std::fmt;

/// A probe's number in this process: dense, and never given to another probe.
///
/// ```
/// use probe_runtime::{probe, select};
///
/// #[probe]
/// fn route() {}
///
/// route();
/// // Two probes: an entry and an exit. Their numbers stay the same while the program runs.
/// let probes = select("**::route")?.probes();
/// assert_ne!(probes[0].id(), probes[1].id());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProbeId(u32);

impl ProbeId {
    /// The number of no probe.
    #[cfg(probe_backend = "patched")]
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);

    pub(crate) fn new(number: usize) -> Self {
        Self(u32::try_from(number).expect("fewer than 2^32 probes"))
    }

    /// Returns the number, from 0.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
