//! The calls of a consumer that is not attached yet.

use std::fmt;
use std::sync::OnceLock;

use super::hit::Calls;
use super::meter::Meter;
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;

/// The [`Calls`] of a consumer, created when it is attached. A [`Meter`] that holds this can be a
/// consumer.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{CallEnd, Meter, LazyCalls, add_single_writer};
/// use probe_runtime::{Consumer, Error, Event, Local, ProbeSet, probe, select};
///
/// /// Counts calls that have ended.
/// struct EndedCalls(LazyCalls<0, Self>);
///
/// impl Meter<0> for EndedCalls {
///     type Head = ();
///     type Part = AtomicU64;
///
///     fn read(&self, _: Local<'_, (), ()>) -> [u64; 0] {
///         []
///     }
///
///     fn end(&self, ended: &CallEnd<'_, 0, (), AtomicU64>) {
///         add_single_writer(ended.part, 1);
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
/// let ended = select("**::finish")?.attach(EndedCalls(LazyCalls::new()))?;
/// finish();
/// let calls = ended.0.get().unwrap();
/// assert_eq!(calls.parts(0).map(|part| part.load(Relaxed)).sum::<u64>(), 1);
/// # Ok::<(), Error>(())
/// ```
pub struct LazyCalls<const N: usize, M: Meter<N>>(OnceLock<Calls<N, M>>);

impl<const N: usize, M: Meter<N>> LazyCalls<N, M> {
    /// Creates it without calls.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Creates the calls of these probes. Call this in
    /// [`Consumer::prepare`](crate::Consumer::prepare), which runs once.
    ///
    /// # Errors
    /// See [`Calls::new`].
    pub fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = self.0.set(Calls::new(probes)?);
        Ok(())
    }

    /// Adds the functions of probes that have joined. Call this in
    /// [`Consumer::join`](crate::Consumer::join).
    ///
    /// # Errors
    /// See [`Calls::join`].
    pub fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.0.get().map_or(Ok(()), |calls| calls.join(probes))
    }

    /// Returns the calls; `None` before they were [prepared](Self::prepare).
    pub fn get(&self) -> Option<&Calls<N, M>> {
        self.0.get()
    }

    /// Passes a hit to [`Calls::hit`]. Call this in [`Consumer::hit`](crate::Consumer::hit).
    #[inline(always)]
    pub fn hit(&self, event: &Event<'_>, meter: &M) {
        if let Some(calls) = self.0.get() {
            calls.hit(event, meter);
        }
    }

    /// Passes a hit to [`Calls::hit_quickly`].
    #[cfg(any(feature = "latency", feature = "call-tree"))]
    #[inline(always)]
    pub(crate) fn hit_quickly(&self, event: &Event<'_>, meter: &M) -> bool {
        self.0.get().is_some_and(|calls| calls.hit_quickly(event, meter))
    }
}

impl<const N: usize, M: Meter<N>> Default for LazyCalls<N, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, M: Meter<N>> fmt::Debug for LazyCalls<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
