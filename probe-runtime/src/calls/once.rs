//! The calls of a consumer that is not attached yet.

use std::fmt;
use std::sync::OnceLock;

use super::hit::Calls;
use super::meter::Meter;
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;

/// A consumer's [`Calls`], which are made when it is attached: what a [`Meter`] holds, to be a
/// consumer.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{Ended, Meter, OnceCalls, add};
/// use probe_runtime::{Consumer, Error, Event, Local, ProbeSet, probe, select};
///
/// /// Counts calls that have ended.
/// struct EndedCalls(OnceCalls<0, Self>);
///
/// impl Meter<0> for EndedCalls {
///     type Head = ();
///     type Part = AtomicU64;
///
///     fn read(&self, _: Local<'_, (), ()>) -> [u64; 0] {
///         []
///     }
///
///     fn end(&self, ended: &Ended<'_, 0, (), AtomicU64>) {
///         add(ended.part, 1);
///     }
/// }
///
/// impl Consumer for EndedCalls {
///     fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
///         self.0.prepare(probes)
///     }
///
///     fn hit(&self, event: &Event<'_>) {
///         self.0.hit(event, self);
///     }
/// }
///
/// #[probe]
/// fn finish() {}
///
/// let ended = select("**::finish")?.attach(EndedCalls(OnceCalls::new()))?;
/// finish();
/// let calls = ended.0.get().unwrap();
/// assert_eq!(calls.parts(0).map(|part| part.load(Relaxed)).sum::<u64>(), 1);
/// # Ok::<(), Error>(())
/// ```
pub struct OnceCalls<const N: usize, M: Meter<N>>(OnceLock<Calls<N, M>>);

impl<const N: usize, M: Meter<N>> OnceCalls<N, M> {
    /// None so far.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Gets ready for the hits of these probes: from
    /// [`Consumer::prepare`](crate::Consumer::prepare), which is called once.
    ///
    /// # Errors
    /// As [`Calls::new`].
    pub fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = self.0.set(Calls::new(probes)?);
        Ok(())
    }

    /// The calls; `None` before they were [prepared](Self::prepare).
    pub fn get(&self) -> Option<&Calls<N, M>> {
        self.0.get()
    }

    /// What a hit means for the calls of its thread: from [`Consumer::hit`](crate::Consumer::hit).
    #[inline(always)]
    pub fn hit(&self, event: &Event<'_>, meter: &M) {
        if let Some(calls) = self.0.get() {
            calls.hit(event, meter);
        }
    }
}

impl<const N: usize, M: Meter<N>> Default for OnceCalls<N, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, M: Meter<N>> fmt::Debug for OnceCalls<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
