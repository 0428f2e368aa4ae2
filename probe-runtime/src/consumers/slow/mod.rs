//! Calls that took longer than a limit: [`Slow`] reports each as it ends, and a [`Trigger`] runs an
//! action for one.

#[cfg(feature = "latency")]
mod consumer;
#[cfg(feature = "latency")]
mod line;
#[cfg(feature = "trace")]
mod trigger;

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(feature = "latency")]
pub use consumer::{Slow, SlowCall};
#[cfg(feature = "trace")]
pub use trigger::{Trigger, TriggerCall};

use crate::engine::calls::{LazyCalls, Meter};
use crate::engine::clock::{Clock, Scale};
use crate::engine::control::ProbeSet;
use crate::engine::error::Error;

/// The calls of a consumer that acts on those which take longer than a limit.
struct LimitedCalls<M: Meter<1>> {
    limit: Duration,
    clock: Clock,
    /// Known before the first hit.
    scale: OnceLock<Scale>,
    calls: LazyCalls<1, M>,
}

impl<M: Meter<1>> LimitedCalls<M> {
    fn new(limit: Duration) -> Self {
        Self { limit, clock: Clock::new(), scale: OnceLock::new(), calls: LazyCalls::new() }
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = self.scale.set(self.clock.scale());
        self.calls.prepare(probes)
    }

    /// Returns the time of a call that took these ticks, if it is longer than the limit.
    #[inline]
    fn over(&self, ticks: u64) -> Option<Duration> {
        let elapsed = Duration::from_nanos(self.scale.get()?.nanoseconds(ticks));
        (elapsed > self.limit).then_some(elapsed)
    }
}

impl<M: Meter<1>> fmt::Debug for LimitedCalls<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedCalls").field("limit", &self.limit).finish_non_exhaustive()
    }
}
