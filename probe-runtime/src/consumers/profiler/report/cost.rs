//! The cost of profiling.

use std::time::Duration;

use super::super::core::Cost;
use super::{in_nanoseconds, whole};
use crate::report::Row;

/// The cost of profiling so far.
///
/// ```
/// use probe_runtime::{Profiler, probe, select};
///
/// #[probe]
/// fn encrypt() {}
///
/// let profiler = select("**::encrypt")?.attach(Profiler::new())?;
/// encrypt();
/// let profile = profiler.profile();
/// println!("{:.2} % of the CPU time", 100.0 * profile.cost().share());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ProfileCost {
    /// The time that hits took: their number, times the time of one hit on this machine, which the
    /// profiler measures now and then.
    pub hits: Duration,
    /// The time that the profiler's own thread took, as measured: for looking, switching, waking up
    /// and going to sleep; and that for which samples of the processor's clock interrupted threads.
    pub own: Duration,
    /// The CPU time that the process used meanwhile, including profiling.
    pub used: Duration,
    /// The time that passed meanwhile.
    pub elapsed: Duration,
    /// Calls that were timed or counted.
    pub calls: u64,
    /// The number of times that a function's mode changed, or that a window was opened for it.
    pub toggles: u64,
    /// The length of the beginning, about a quarter of a second, and the share of the CPU time that
    /// profiling took in it; zeros until it is over. It includes the cost of attaching.
    pub beginning: (Duration, f64),
}

impl ProfileCost {
    pub(super) fn new(cost: &Cost, used: f64, elapsed: f64) -> Self {
        let time = |nanoseconds: f64| Duration::from_nanos(whole(nanoseconds));
        Self {
            hits: time(cost.hits),
            own: time(cost.own),
            used: time(used),
            elapsed: time(elapsed),
            calls: whole(cost.calls),
            toggles: cost.toggles,
            beginning: cost.beginning.map_or_else(Default::default, |(it, share)| (time(it), share)),
        }
    }

    /// Returns the time of hits and the profiler's own time as a share of the CPU time that the
    /// process has used, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.used.is_zero() { 0.0 } else { (self.hits + self.own).as_secs_f64() / self.used.as_secs_f64() }
    }

    pub(crate) fn row(&self) -> Row<'static> {
        Row::new()
            .with("hits_ns", in_nanoseconds(self.hits))
            .with("own_ns", in_nanoseconds(self.own))
            .with("used_ns", in_nanoseconds(self.used))
            .with("elapsed_ns", in_nanoseconds(self.elapsed))
            .with("calls", self.calls)
            .with("toggles", self.toggles)
            .with("beginning_ns", in_nanoseconds(self.beginning.0))
            .with("beginning_share", self.beginning.1)
    }
}
